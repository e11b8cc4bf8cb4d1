/* SPDX-License-Identifier: Apache-2.0 */
/* --spans: each second a line of CSV for each process that answered requests, and lines about single ones. */
#ifndef SPANS_H
#define SPANS_H

#include <stdbool.h>
#include <stddef.h>

#include "clock.h"
#include "csv.h"
#include "iotrace.h"

/* What was known of a process when its last line was written. */
struct known_process {
	__u32 pid;
	struct iotrace_process counted;
};

struct spans_file {
	struct csv processes, samples;
	struct known_process *known;
	size_t count;
	long long last_mono_ns;
};

/*
 * Two files, the second one's name ends in .samples. Return an exit code and say why not. When none are asked for, nothing
 * is ever written.
 */
int spans_open(struct spans_file *spans, const struct options *options);
int spans_write_columns(struct spans_file *spans);

/* Lines are about the time since the one before. */
void spans_begin(struct spans_file *spans, long long mono_ns);

/* The lines about `pid`. */
void spans_process(struct spans_file *spans, __u32 pid, const struct iotrace_process *process,
		   const struct anchor *anchor, long long mono_ns);
void spans_sample(struct spans_file *spans, const struct iotrace_span *span, const struct anchor *anchor);

/* The process is gone, and its last line written. */
void spans_forget(struct spans_file *spans, __u32 pid);

/* The lines of this second are written; false when they cannot be. */
bool spans_end(struct spans_file *spans, long long mono_ns);

void spans_close(struct spans_file *spans);

#endif
