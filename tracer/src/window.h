/* SPDX-License-Identifier: Apache-2.0 */
/* The traced window: from when the programs are on until they are off, with the kernel's own counts at both ends. */
#ifndef WINDOW_H
#define WINDOW_H

#include "trace.h"

void window_open(struct trace *trace);

/* Requests that have begun are followed to their end, new ones are not. */
void window_stop(struct trace *trace);

void window_close(struct trace *trace);

#endif
