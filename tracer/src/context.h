/* SPDX-License-Identifier: Apache-2.0 */
/* --context: each second one line of CSV about what is not I/O. Columns: docs/tracer-context.md. */
#ifndef CONTEXT_H
#define CONTEXT_H

#include <stdbool.h>

#include "clock.h"
#include "csv.h"
#include "iotrace.h"
#include "options.h"

#define SYSTEM_COUNTERS 11

struct context_sample {
	long long mono_ns;
	struct iotrace_context kernel;
	struct iotrace_vfs_table calls;
	long long counters[SYSTEM_COUNTERS]; /* -1 = left out, or this kernel does not say */
};

struct context_file {
	struct csv csv;
	unsigned without; /* a bit for each enum context_part: its columns are empty */
	bool has_calls;	  /* --vfs counts them */
	struct context_sample last;
};

/* Returns an exit code and says why not. When none is asked for, nothing is ever written. */
int context_open(struct context_file *context, const struct options *options);
int context_write_columns(struct context_file *context);

/* Lines are about the time since the one before, the first one since `mono_ns`. */
void context_begin(struct context_file *context, long long mono_ns);

/* What has been counted since the beginning. False when it cannot be written. */
bool context_step(struct context_file *context, const struct iotrace_context *kernel,
		  const struct iotrace_vfs_table *calls, const struct anchor *anchor, long long mono_ns);

void context_close(struct context_file *context);

#endif
