// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "probe.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "iotrace.skel.h"

#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h */

struct probe {
	struct iotrace_bpf *skeleton;
	struct ring_buffer *ring;
	record_handler handler;
	void *context;
	struct iotrace_counters *per_cpu;
	int cpus;
};

/* System calls whose entry begins the VFS layer, and those that submit many requests at once. */
static const struct {
	int number;
	enum iotrace_call kind;
} CALLS[] = {
	{SYS_read, IOTRACE_CALL_TIMED},	      {SYS_pread64, IOTRACE_CALL_TIMED},
	{SYS_readv, IOTRACE_CALL_TIMED},      {SYS_preadv, IOTRACE_CALL_TIMED},
	{SYS_preadv2, IOTRACE_CALL_TIMED},    {SYS_write, IOTRACE_CALL_TIMED},
	{SYS_pwrite64, IOTRACE_CALL_TIMED},   {SYS_writev, IOTRACE_CALL_TIMED},
	{SYS_pwritev, IOTRACE_CALL_TIMED},    {SYS_pwritev2, IOTRACE_CALL_TIMED},
	{SYS_fsync, IOTRACE_CALL_TIMED},      {SYS_fdatasync, IOTRACE_CALL_TIMED},
	{SYS_msync, IOTRACE_CALL_TIMED},      {SYS_sync_file_range, IOTRACE_CALL_TIMED},
	{SYS_syncfs, IOTRACE_CALL_TIMED},     {SYS_sync, IOTRACE_CALL_TIMED},
	{SYS_sendfile, IOTRACE_CALL_TIMED},   {SYS_copy_file_range, IOTRACE_CALL_TIMED},
	{SYS_splice, IOTRACE_CALL_TIMED},     {SYS_fallocate, IOTRACE_CALL_TIMED},
	{SYS_io_submit, IOTRACE_CALL_SUBMIT}, {SYS_io_uring_enter, IOTRACE_CALL_IO_URING},
};

static char last_warning[256];

/* libbpf explains itself in many lines; the first one holds the cause. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level != LIBBPF_WARN || last_warning[0])
		return 0;
	vsnprintf(last_warning, sizeof(last_warning), format, arguments);
	for (char *c = last_warning; *c; c++)
		if (*c == '\n')
			*c = *(c + 1) ? ' ' : 0;
	return 0;
}

static const char *explain(int error)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return "this kernel has no BTF (/sys/kernel/btf/vmlinux)";
	if (error == -EPERM || error == -EACCES)
		return "not permitted to load BPF programs (needs root, or CAP_BPF and CAP_PERFMON)";
	return last_warning[0] ? last_warning : strerror(-error);
}

static bool kernel_has_tracepoint(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	char type[64];
	bool found;

	if (!btf)
		return false;
	snprintf(type, sizeof(type), "btf_trace_%s", name);
	found = btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0;
	btf__free(btf);
	return found;
}

static void configure(struct iotrace_bpf *skeleton, const struct options *options)
{
	for (size_t i = 0; i < sizeof(CALLS) / sizeof(CALLS[0]); i++)
		skeleton->rodata->call_of[CALLS[i].number] = CALLS[i].kind;
	skeleton->rodata->filter_devices = options->device_count > 0;
	skeleton->rodata->filter_pids = options->pid_count > 0;
	skeleton->rodata->cgroup_count = options->cgroup_count;
	bpf_map__set_max_entries(skeleton->maps.records, options->ring_bytes);
	/* Since 6.5; only a safety net for interrupted completions. */
	bpf_program__set_autoload(skeleton->progs.block_io_done, kernel_has_tracepoint("block_io_done"));
}

bool probe_accepts_cgroup(const char *path, const char **why)
{
	struct statfs status;

	if (statfs(path, &status) != 0)
		*why = strerror(errno);
	else if (status.f_type != CGROUP2_MAGIC)
		*why = "not a directory of the cgroup v2 tree";
	else
		return true;
	return false;
}

static bool add_cgroups(const struct iotrace_bpf *skeleton, const struct options *options)
{
	for (__u32 i = 0; i < options->cgroup_count; i++) {
		int fd = open(options->cgroups[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int error = fd < 0 ? -1 : bpf_map_update_elem(bpf_map__fd(skeleton->maps.cgroups), &i, &fd, BPF_ANY);

		if (fd >= 0)
			close(fd);
		if (error)
			return false;
	}
	return true;
}

static bool add_filters(struct probe *probe, const struct options *options, const struct devices *devices)
{
	struct iotrace_bpf *skeleton = probe->skeleton;
	__u8 yes = 1;

	for (size_t i = 0; i < options->pid_count; i++) {
		__u32 pid = options->pids[i];

		if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.pids), &pid, &yes, BPF_ANY))
			return false;
	}
	memset(probe->per_cpu, 0, probe->cpus * sizeof(*probe->per_cpu));
	for (size_t i = 0; i < devices->count; i++)
		if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.devices), &devices->list[i].id, probe->per_cpu,
					BPF_ANY))
			return false;
	return true;
}

static int handle(void *context, void *data, size_t size)
{
	struct probe *probe = context;

	if (size >= sizeof(struct iotrace_record))
		probe->handler(probe->context, data);
	return 0;
}

static bool load(struct probe *probe, const struct options *options, const struct devices *devices, const char **why)
{
	int error;

	probe->skeleton = iotrace_bpf__open();
	if (!probe->skeleton) {
		*why = explain(-errno);
		return false;
	}
	configure(probe->skeleton, options);
	error = iotrace_bpf__load(probe->skeleton);
	if (!error)
		error = add_filters(probe, options, devices) && add_cgroups(probe->skeleton, options) ? 0 : -errno;
	if (!error)
		error = iotrace_bpf__attach(probe->skeleton);
	if (!error) {
		probe->ring = ring_buffer__new(bpf_map__fd(probe->skeleton->maps.records), handle, probe, NULL);
		error = probe->ring ? 0 : -errno;
	}
	if (error)
		*why = explain(error);
	return !error;
}

struct probe *probe_open(const struct options *options, const struct devices *devices, record_handler handler,
			 void *context, const char **why)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		abort();
	libbpf_set_print(keep_warning);
	probe->handler = handler;
	probe->context = context;
	probe->cpus = libbpf_num_possible_cpus();
	probe->per_cpu = probe->cpus > 0 ? calloc(probe->cpus, sizeof(*probe->per_cpu)) : NULL;
	if (!probe->per_cpu)
		*why = "the number of CPUs cannot be read";
	else if (load(probe, options, devices, why))
		return probe;
	probe_close(probe);
	return NULL;
}

void probe_switch(struct probe *probe, bool on, long long now_ns)
{
	probe->skeleton->bss->switched_on_ns = on ? now_ns : 0;
	__sync_synchronize();
	probe->skeleton->bss->switched_on = on;
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
	if (bpf_map_lookup_elem(bpf_map__fd(probe->skeleton->maps.devices), &device, probe->per_cpu))
		return;
	for (int cpu = 0; cpu < probe->cpus; cpu++) {
		const struct iotrace_counters *one = &probe->per_cpu[cpu];

		counters->idle += one->idle;
		counters->completions += one->completions;
		counters->emitted += one->emitted;
		counters->dropped += one->dropped;
		for (int i = 0; i < IOTRACE_EX_COUNT; i++)
			counters->excluded[i] += one->excluded[i];
	}
}

int probe_consume(struct probe *probe)
{
	return ring_buffer__consume(probe->ring);
}

unsigned long long probe_never_completed(struct probe *probe, struct devices *devices)
{
	int flights = bpf_map__fd(probe->skeleton->maps.flights);
	unsigned long long all = 0;
	struct iotrace_bucket bucket;

	for (size_t i = 0; i < devices->count; i++)
		devices->list[i].never_completed = 0;
	for (__u32 i = 0; i < 1 << IOTRACE_BUCKET_BITS; i++) {
		if (bpf_map_lookup_elem(flights, &i, &bucket))
			continue;
		for (int way = 0; way < IOTRACE_WAYS; way++) {
			const struct iotrace_flight *flight = &bucket.way[way];
			struct device *device;

			if (!flight->key || (flight->flags & (FLIGHT_COUNTED | FLIGHT_DONE)) != FLIGHT_COUNTED)
				continue;
			device = devices_find(devices, flight->device);
			if (!device)
				continue;
			device->never_completed++;
			all++;
		}
	}
	return all;
}

static unsigned long long misses_of(const struct bpf_program *program)
{
	struct bpf_prog_info info = {0};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return 0;
	return info.recursion_misses;
}

void probe_programs(struct probe *probe, void (*visit)(void *context, const char *name, unsigned long long misses),
		    void *context)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, probe->skeleton->obj)
		if (bpf_program__autoload(program))
			visit(context, bpf_program__name(program), misses_of(program));
}

void probe_close(struct probe *probe)
{
	if (!probe)
		return;
	ring_buffer__free(probe->ring);
	iotrace_bpf__destroy(probe->skeleton);
	free(probe->per_cpu);
	free(probe);
}

const char *probe_missing_driver_layer(void)
{
	return "no driver tracepoints are used in mode block; the driver's time is part of block and device";
}
