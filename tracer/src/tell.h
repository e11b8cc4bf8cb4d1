/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on standard error of a trace that goes well. */
#ifndef TELL_H
#define TELL_H

#include "trace.h"

/* To who sits at a terminal: it is on, and how to end it. */
void tell_begun(const struct trace *trace);

/* To them: what to do with it. To everybody: what was lost, which the exit code does not tell. */
void tell_ended(const struct trace *trace);

#endif
