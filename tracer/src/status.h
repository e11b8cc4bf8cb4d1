/* SPDX-License-Identifier: Apache-2.0 */
/* FILE.json: what was traced, counted and lost. */
#ifndef STATUS_H
#define STATUS_H

#include "trace.h"

/* What to write; to be freed. */
char *status_text(const struct trace *trace, size_t *length);

/* False when it cannot be written. */
bool status_write(struct trace *trace, const char *text, size_t length);

/* The answer of --check. */
void status_print_check(const struct options *options, const struct devices *devices, const char *why_not);

#endif
