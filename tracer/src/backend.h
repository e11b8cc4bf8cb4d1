/* SPDX-License-Identifier: Apache-2.0 */
/* What a way to run the BPF programs must be able to do. */
#ifndef BACKEND_H
#define BACKEND_H

#include "probe.h"

/* Each backend keeps its own behind this. */
struct probe {
	const struct backend *backend;
	struct iotrace_counters *per_cpu;
	int cpus; /* possible ones */
	size_t room;
};

struct backend {
	const char *name;
	/* Loads and attaches everything, switched off; NULL: `why` says in one line what is missing. */
	struct probe *(*open)(const struct options *options, const struct devices *devices,
			      const struct driver_support *support, const struct log_reader *reader, int cpus,
			      const char **why);
	void (*switch_to)(struct probe *probe, enum phase phase, long long now_ns);
	/* The counters of one device by CPU; false: it was never seen. */
	bool (*counters)(struct probe *probe, __u32 device, struct iotrace_counters *per_cpu);
	unsigned long (*consume)(struct probe *probe, double *fullness);
	bool (*is_full)(const struct probe *probe);
	void (*vfs)(struct probe *probe, struct iotrace_vfs_table *table);
	void (*context)(struct probe *probe, struct iotrace_context *context);
	int (*peers)(const struct probe *probe); /* descriptor of their map, from iotrace_address to iotrace_peer */
	void (*samples)(struct probe *probe, const struct span_reader *reader);
	int (*processes)(const struct probe *probe); /* likewise, from their numbers to iotrace_process */
	void (*spans_lost)(const struct probe *probe, unsigned long long *not_counted, unsigned long long *samples);
	unsigned long long (*names_dropped)(struct probe *probe);
	/* Those that are under way or that the programs could not forget. */
	void (*flights)(struct probe *probe, void (*visit)(void *context, const struct iotrace_flight *flight),
			void *context);
	void (*programs)(struct probe *probe,
			 void (*visit)(void *context, const char *name, unsigned long long misses), void *context);
	/* Frees what is the backend's, but not the probe. */
	void (*close)(struct probe *probe);
};

extern const struct backend CORE, BCC;

/* Why, with IOTRACE_DEVICE_SLOTS. */
#define TOO_MANY_DISKS "more disks than the %u that there is room for; name those to trace (--device)"

/* The verifier's last line, but for its statistics. Changes `log`, and points into it. */
const char *backend_cause(char *log);

/* Why `what` could not be done, from errno. */
const char *backend_failure(const char *what);

/* The only value of a per-CPU map of u64s, all CPUs together. */
void backend_sum(const struct probe *probe, int map_fd, void *sums, size_t bytes);

/* How often the kernel skipped this program. */
unsigned long long backend_misses(int program_fd);

#endif
