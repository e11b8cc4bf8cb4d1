/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF program: loading, switching, counters and records. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>

#include "device.h"
#include "driver.h"
#include "log.h"
#include "options.h"

struct probe;

/* Only cgroup v2 directories can be filtered by. */
bool probe_accepts_cgroup(const char *path, const char **why);

/* Loads and attaches everything, switched off. NULL: `why` says in one line what is missing. */
struct probe *probe_open(const struct options *options, const struct devices *devices,
			 const struct driver_support *support, const struct log_reader *reader, const char **why);

/* Returns when every CPU has seen the switch. */
void probe_switch(struct probe *probe, bool on, long long now_ns);

/* The counters of one device, all CPUs together; zeros for a device that was never seen. */
void probe_counters(struct probe *probe, __u32 device, struct iotrace_counters *counters);

/* Hands what is waiting to the reader; returns how many events. `fullness`: see log_consume(). */
unsigned long probe_consume(struct probe *probe, double *fullness);

/* What --vfs has counted, all CPUs together. */
void probe_vfs(struct probe *probe, struct iotrace_vfs_table *table);

/* What --context has counted, all CPUs together. */
void probe_context(struct probe *probe, struct iotrace_context *context);

/* Files whose names found no room on their way; their records have no file. */
unsigned long long probe_names_dropped(const struct probe *probe);

/* Sets `never_completed` of the devices: issued while the trace was on, not completed until now. Returns all. */
unsigned long long probe_never_completed(struct probe *probe, struct devices *devices);

/* Calls `visit` for each attached program; `misses` = how often the kernel skipped it (nested interrupt). */
void probe_programs(struct probe *probe, void (*visit)(void *context, const char *name, unsigned long long misses),
		    void *context);

void probe_close(struct probe *probe);

#endif
