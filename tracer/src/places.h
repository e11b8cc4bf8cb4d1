/* SPDX-License-Identifier: Apache-2.0 */
/* The names of all files that a trace writes: nothing else has them before it, and they are theirs after it. */
#ifndef PLACES_H
#define PLACES_H

#include "trace.h"

/* Before anything is emptied. Returns an exit code and says why not. */
int places_check(const struct trace *trace);

/* A file that no longer has its name: somebody has moved or removed it. NULL: none. */
const struct claim *places_lost(const struct trace *trace);

#endif
