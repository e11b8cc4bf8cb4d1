/* SPDX-License-Identifier: Apache-2.0 */
/* FILE.json: what was traced, counted and lost. */
#ifndef STATUS_H
#define STATUS_H

#include <stdbool.h>

#include "beside.h"
#include "catalog.h"
#include "clock.h"
#include "device.h"
#include "options.h"
#include "output.h"
#include "probe.h"
#include "rotation.h"
#include "turn.h"

struct trace {
	struct options options;
	struct devices devices;
	size_t devices_at_start;
	struct driver_support support;
	struct probe *probe;
	struct catalog catalog;
	struct rotation rotation;
	struct beside beside;
	struct output output;
	struct anchor anchor;
	struct turn turn;
	long long started_mono_ns, stopped_mono_ns; /* 0 = not yet */
	const char *reason;			    /* NULL = nothing failed */
	_Atomic bool is_in_second, is_short_of_space; /* told by the writer */
};

/* What to write; to be freed. */
char *status_text(const struct trace *trace, size_t *length);

/* False when it cannot be written. */
bool status_write(struct trace *trace, const char *text, size_t length);

/* The answer of --check. */
void status_print_check(const struct options *options, const struct devices *devices, const char *why_not);

#endif
