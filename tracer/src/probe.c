// SPDX-License-Identifier: Apache-2.0
#include "probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend.h"
#include "namespaces.h"

static const struct backend *backend_of(const struct options *options)
{
	return options->backend == BACKEND_BCC ? &BCC : &CORE;
}

const char *probe_backend(const struct options *options)
{
	return backend_of(options)->name;
}

/* The entry of all that are too many. */
static bool add_other_peers(int peers)
{
	static const struct iotrace_address others;
	static const struct iotrace_peer nothing;

	return bpf_map_update_elem(peers, &others, &nothing, BPF_NOEXIST) == 0;
}

struct probe *probe_open(const struct options *options, const struct devices *devices,
			 const struct driver_support *support, const struct log_reader *reader, const char **why)
{
	const struct backend *backend = backend_of(options);
	int cpus = libbpf_num_possible_cpus();
	struct probe *probe;

	if (!namespaces_share_time()) {
		*why = "this process is in a time namespace: its clock is not that of the kernel's records";
		return NULL;
	}
	if (cpus <= 0) {
		*why = "the number of CPUs cannot be read";
		return NULL;
	}
	probe = backend->open(options, devices, support, reader, cpus, why);
	if (!probe)
		return NULL;
	probe->backend = backend;
	probe->room = options->ring_bytes / sizeof(struct iotrace_event) / log_cpus();
	probe->per_cpu = calloc(cpus, sizeof(*probe->per_cpu));
	if (!probe->per_cpu)
		abort();
	if (!options->peers || add_other_peers(backend->peers(probe)))
		return probe;
	*why = strerror(errno);
	probe_close(probe);
	return NULL;
}

void probe_switch(struct probe *probe, enum phase phase, long long now_ns)
{
	probe->backend->switch_to(probe, phase, now_ns);
	/*
	 * Waits for an RCU grace period, and BPF programs run inside of one: afterwards none runs that saw the
	 * old value. Refused with nohz_full CPUs; a program takes microseconds, so a pause does it too.
	 */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
		usleep(50000);
}

void probe_counters(struct probe *probe, __u32 device, struct iotrace_counters *counters)
{
	*counters = (struct iotrace_counters){0};
	if (!probe->backend->counters(probe, device, probe->per_cpu))
		return;
	for (int cpu = 0; cpu < probe->cpus; cpu++) {
		const struct iotrace_counters *one = &probe->per_cpu[cpu];

		counters->idle += one->idle;
		counters->completions += one->completions;
		counters->dropped += one->dropped;
		for (int i = 0; i < IOTRACE_EX_COUNT; i++)
			counters->excluded[i] += one->excluded[i];
	}
}

bool probe_is_full(const struct probe *probe)
{
	return probe->backend->is_full(probe);
}

unsigned long probe_consume(struct probe *probe, double *fullness)
{
	return probe->backend->consume(probe, fullness);
}

size_t probe_room(const struct probe *probe)
{
	return probe->room;
}

unsigned long long probe_names_dropped(struct probe *probe)
{
	return probe->backend->names_dropped(probe);
}

struct never_completed {
	struct devices *devices;
	unsigned long long all;
};

static void visit_flight(void *context, const struct iotrace_flight *flight)
{
	struct never_completed *counted = context;
	struct device *device;

	if ((flight->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE)) != FLIGHT_COUNTED)
		return;
	device = devices_find(counted->devices, flight->event.device);
	if (!device)
		return;
	device->never_completed++;
	counted->all++;
}

unsigned long long probe_never_completed(struct probe *probe, struct devices *devices)
{
	struct never_completed counted = {.devices = devices};

	for (size_t i = 0; i < devices->count; i++)
		devices->list[i].never_completed = 0;
	probe->backend->flights(probe, visit_flight, &counted);
	return counted.all;
}

void probe_vfs(struct probe *probe, struct iotrace_vfs_table *table)
{
	probe->backend->vfs(probe, table);
}

void probe_context(struct probe *probe, struct iotrace_context *context)
{
	probe->backend->context(probe, context);
}

void probe_peers(struct probe *probe,
		 void (*visit)(void *context, const struct iotrace_address *address, const struct iotrace_peer *peer),
		 void *context)
{
	int peers = probe->backend->peers(probe);
	struct iotrace_address address;
	const struct iotrace_address *last = NULL;
	struct iotrace_peer peer;

	for (; bpf_map_get_next_key(peers, last, &address) == 0; last = &address)
		if (bpf_map_lookup_elem(peers, &address, &peer) == 0)
			visit(context, &address, &peer);
}

void probe_spans(struct probe *probe, const struct span_reader *reader)
{
	int processes = probe->backend->processes(probe);
	struct iotrace_process process;
	__u32 pids[IOTRACE_SPAN_PROCESSES], count = 0;
	const __u32 *last = NULL;

	probe->backend->samples(probe, reader);
	/* First all keys: one that is deleted on the way would begin the walk anew. */
	while (count < IOTRACE_SPAN_PROCESSES && bpf_map_get_next_key(processes, last, &pids[count]) == 0)
		last = &pids[count++];
	for (__u32 i = 0; i < count; i++) {
		bool gone = kill(pids[i], 0) != 0 && errno == ESRCH;

		if (bpf_map_lookup_elem(processes, &pids[i], &process))
			continue;
		reader->process(reader->context, pids[i], &process, gone);
		if (gone)
			bpf_map_delete_elem(processes, &pids[i]);
	}
}

void probe_spans_lost(const struct probe *probe, unsigned long long *not_counted, unsigned long long *samples)
{
	probe->backend->spans_lost(probe, not_counted, samples);
}

void probe_programs(struct probe *probe, void (*visit)(void *context, const char *name, unsigned long long misses),
		    void *context)
{
	probe->backend->programs(probe, visit, context);
}

const char *backend_cause(char *log)
{
	const char *line, *cause = "";

	while ((line = strsep(&log, "\n")))
		if (*line && strncmp(line, "processed ", 10) != 0 && !strstr(line, "PROG LOAD LOG"))
			cause = line;
	return cause;
}

const char *backend_failure(const char *what)
{
	static char reason[256];

	if (errno == EPERM)
		return "not permitted to load BPF programs (needs root)";
	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(errno));
	return reason;
}

unsigned long long backend_misses(int program_fd)
{
	struct bpf_prog_info info = {0};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(program_fd, &info, &size))
		return 0;
	return info.recursion_misses;
}

void backend_sum(const struct probe *probe, int map_fd, void *sums, size_t bytes)
{
	__u64 *per_cpu = calloc(probe->cpus, bytes), *sum = sums;
	size_t numbers = bytes / sizeof(*sum);
	__u32 zero = 0;

	if (!per_cpu)
		abort();
	memset(sums, 0, bytes);
	if (bpf_map_lookup_elem(map_fd, &zero, per_cpu) == 0)
		for (size_t i = 0; i < probe->cpus * numbers; i++)
			sum[i % numbers] += per_cpu[i];
	free(per_cpu);
}

void probe_close(struct probe *probe)
{
	if (!probe)
		return;
	probe->backend->close(probe);
	free(probe->per_cpu);
	free(probe);
}
