/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF programs: loading, switching, counters and records. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>

#include "device.h"
#include "driver.h"
#include "log.h"
#include "options.h"

struct probe;

/* "core" or "bcc", as the options say. */
const char *probe_backend(const struct options *options);

/* Loads and attaches everything, switched off. NULL: `why` says in one line what is missing. */
struct probe *probe_open(const struct options *options, const struct devices *devices,
			 const struct driver_support *support, const struct log_reader *reader, const char **why);

enum phase {
	PHASE_OFF,
	PHASE_ON,
	PHASE_FOLLOWING, /* off, but requests are known from their issue on: an end that no program sees is noticed */
};

/* Returns when every CPU has seen the switch. */
void probe_switch(struct probe *probe, enum phase phase, long long now_ns);

/* The counters of one device, all CPUs together; zeros for a device that was never seen. */
void probe_counters(struct probe *probe, __u32 device, struct iotrace_counters *counters);

/* There is no place left for the counters of a disk that has none yet. */
bool probe_is_full(const struct probe *probe);

/* Hands what is waiting to the reader; returns how many events. `fullness`: see log_consume(). */
unsigned long probe_consume(struct probe *probe, double *fullness);

/* How many events of a CPU may wait, about. */
size_t probe_room(const struct probe *probe);

/* What --vfs has counted, all CPUs together. */
void probe_vfs(struct probe *probe, struct iotrace_vfs_table *table);

/* Tells `visit` what --peers has counted of each address. */
void probe_peers(struct probe *probe,
		 void (*visit)(void *context, const struct iotrace_address *address, const struct iotrace_peer *peer),
		 void *context);

/* What --context has counted, all CPUs together. */
void probe_context(struct probe *probe, struct iotrace_context *context);

/* What becomes of what --spans has counted; `gone`: the process is, and is told of for the last time. */
struct span_reader {
	void (*process)(void *context, __u32 pid, const struct iotrace_process *process, bool gone);
	void (*sample)(void *context, const struct iotrace_span *span);
	void *context;
};

void probe_spans(struct probe *probe, const struct span_reader *reader);

/* Counts of processes beyond IOTRACE_SPAN_PROCESSES that were left out, and samples that found no room. */
void probe_spans_lost(const struct probe *probe, unsigned long long *not_counted, unsigned long long *samples);

/* Files whose names found no room on their way; their records have no file. */
unsigned long long probe_names_dropped(struct probe *probe);

/* Sets `never_completed` of the devices: issued while requests were followed, not completed until now. Returns all. */
unsigned long long probe_never_completed(struct probe *probe, struct devices *devices);

/* Calls `visit` for each attached program; `misses` = how often the kernel skipped it (nested interrupt). */
void probe_programs(struct probe *probe, void (*visit)(void *context, const char *name, unsigned long long misses),
		    void *context);

void probe_close(struct probe *probe);

#endif
