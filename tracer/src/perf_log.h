/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what BPF programs without memory that they share with us write: into perf buffers, one per CPU. */
#ifndef PERF_LOG_H
#define PERF_LOG_H

#include "log.h"

struct perf_log;

/*
 * `consumed_fd` holds for each CPU how many events we have read: the programs keep within the room that is left and
 * count what they drop, because before 5.1 the kernel does not tell them. NULL with errno.
 */
struct perf_log *perf_log_open(const struct log_reader *reader, int events_fd, int names_fd, int consumed_fd,
			       unsigned cpus, size_t bytes);

/* Room for events, of each CPU. */
unsigned perf_log_events(const struct perf_log *log);

/* See log_consume(). */
unsigned long perf_log_consume(struct perf_log *log, double *fullness);

/* Names of files that the kernel has dropped without telling the program. */
unsigned long long perf_log_names_lost(const struct perf_log *log);

void perf_log_close(struct perf_log *log);

#endif
