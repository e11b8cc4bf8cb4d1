/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the BPF programs write: events from the logs of the CPUs, names of files. */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "iotrace.h"

struct ring_buffer;

/* What becomes of them. The name of a file comes before the first event that refers to it. */
struct log_reader {
	void (*event)(void *context, const struct iotrace_event *event);
	void (*name)(void *context, const struct iotrace_name *name);
	void *context;
};

struct log {
	struct log_reader reader;
	struct iotrace_head *heads;
	struct iotrace_event *events;
	struct ring_buffer *names;
	unsigned cpus, bits;
	__u64 *known; /* by CPU: how many slots had been taken at the last look */
};

/*
 * How many have a log: those up to the last one that is there. A virtual machine with four may call 128 possible; what
 * happens on one that is added while tracing is dropped, and counted.
 */
unsigned log_cpus(void);

/* Of all logs, unless somebody says how much. */
size_t log_default_bytes(void);

/* `bytes` give room for 2^bits events of each CPU. */
unsigned log_bits(size_t bytes, unsigned cpus);

/* Returns 0 or a negative error. */
int log_open(struct log *log, const struct log_reader *reader, int heads_fd, int events_fd, int names_fd,
	     unsigned cpus, unsigned bits);

/* Hands on what is there; returns how many events. `fullness` = the fullest log before, 0 to 1. */
unsigned long log_consume(struct log *log, double *fullness);

void log_close(struct log *log);

#endif
