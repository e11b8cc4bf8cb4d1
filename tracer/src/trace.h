/* SPDX-License-Identifier: Apache-2.0 */
/* One trace: what was asked for, what it runs with, what came of it. */
#ifndef TRACE_H
#define TRACE_H

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
	struct older older; /* files of records */
	struct beside beside;
	struct output output;
	struct anchor anchor;
	struct turn turn;
	long long started_mono_ns, stopped_mono_ns; /* 0 = not yet */
	const char *reason, *place;		    /* what failed, and of which file; NULL = nothing */
	_Atomic bool is_in_second;		    /* told by the writer, as is the next one */
	const struct claim *_Atomic short_of_space; /* its file system is almost full; NULL: none is */
	const struct claim *_Atomic failed_beside;  /* it cannot be written; the records can, and are */
	int failed_beside_why;			    /* errno */
};

#endif
