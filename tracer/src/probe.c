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
#include "kernel_types.h"

#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h */

struct probe {
	struct iotrace_bpf *skeleton;
	struct log log;
	struct iotrace_counters *per_cpu;
	int cpus;
	unsigned events_per_cpu;
};

/* System calls whose entry begins the VFS layer, and those that submit many requests at once. */
static const struct {
	int number;
	enum iotrace_call kind;
} CALLS[] = {
	{SYS_read, IOTRACE_CALL_READ},	      {SYS_pread64, IOTRACE_CALL_READ},
	{SYS_readv, IOTRACE_CALL_READ},      {SYS_preadv, IOTRACE_CALL_READ},
	{SYS_preadv2, IOTRACE_CALL_READ},    {SYS_write, IOTRACE_CALL_WRITE},
	{SYS_pwrite64, IOTRACE_CALL_WRITE},   {SYS_writev, IOTRACE_CALL_WRITE},
	{SYS_pwritev, IOTRACE_CALL_WRITE},    {SYS_pwritev2, IOTRACE_CALL_WRITE},
	{SYS_fsync, IOTRACE_CALL_SYNC},      {SYS_fdatasync, IOTRACE_CALL_SYNC},
	{SYS_msync, IOTRACE_CALL_TIMED},      {SYS_sync_file_range, IOTRACE_CALL_SYNC},
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
	if (error == -EPERM) /* the verifier says EACCES */
		return "not permitted to load BPF programs (needs root, or CAP_BPF and CAP_PERFMON)";
	return last_warning[0] ? last_warning : strerror(-error);
}

static void configure_filters(struct iotrace_bpf *skeleton, const struct options *options)
{
	skeleton->rodata->filter_devices = options->device_count > 0;
	skeleton->rodata->filter_pids = options->pid_count > 0;
	skeleton->rodata->cgroup_count = options->cgroup_count;
	skeleton->rodata->comm_count = options->comm_count;
	for (size_t i = 0; i < options->comm_count; i++)
		strncpy((char *)skeleton->rodata->comms[i], options->comms[i], IOTRACE_COMM_BYTES - 1);
	skeleton->rodata->min_latency_ns = options->min_latency_us * 1000;
	skeleton->rodata->sample_every = options->sample_every;
	if (options->modes)
		skeleton->rodata->modes_wanted = options->modes;
}

/* A disk that comes later has no interrupts here; its requests then have no driver layer. */
static void configure_driver(struct iotrace_bpf *skeleton, const struct devices *devices,
			     const struct driver_support *support)
{
	bool irq = false, fentry = false;

	for (size_t i = 0; i < devices->count; i++) {
		const struct device *device = &devices->list[i];

		fentry |= device->tracing == IOTRACE_FENTRY;
		if (device->tracing == IOTRACE_IRQ)
			irq |= driver_irqs(device->name, device->id, (__u32 *)skeleton->rodata->device_of_irq);
	}
	skeleton->rodata->uses_irqs = irq;
	bpf_program__set_autoload(skeleton->progs.irq_handler_entry, irq);
	bpf_program__set_autoload(skeleton->progs.nvme_setup_cmd, support->nvme);
	bpf_program__set_autoload(skeleton->progs.nvme_sq, support->nvme);
	bpf_program__set_autoload(skeleton->progs.scsi_dispatch_cmd_start, support->scsi);
	bpf_program__set_autoload(skeleton->progs.scsi_dispatch_cmd_done, support->scsi);
	bpf_program__set_autoload(skeleton->progs.virtio_queue_rq, fentry);
	bpf_program__set_autoload(skeleton->progs.virtio_queue_rqs, fentry && support->fentry_batch);
	bpf_program__set_autoload(skeleton->progs.blk_mq_complete_request_remote, fentry);
}

static void configure_context(struct iotrace_bpf *skeleton, bool wanted)
{
	bpf_program__set_autoload(skeleton->progs.sched_wakeup, wanted);
	bpf_program__set_autoload(skeleton->progs.sched_wakeup_new, wanted);
	bpf_program__set_autoload(skeleton->progs.sched_switch, wanted);
	bpf_program__set_autoload(skeleton->progs.tcp_probe, wanted);
	bpf_program__set_autoload(skeleton->progs.tcp_retransmit_skb, wanted);
	bpf_program__set_autoload(skeleton->progs.mm_filemap_add_to_page_cache, wanted);
}

static void configure(struct probe *probe, const struct options *options)
{
	struct iotrace_bpf *skeleton = probe->skeleton;

	probe->events_per_cpu = log_events_per_cpu(options->ring_bytes, probe->cpus);
	skeleton->rodata->log_events = probe->events_per_cpu;
	skeleton->rodata->can_cast = kernel_has_function("bpf_rdonly_cast", NULL);
	/* Before 6.12 they were macros: FLUSH_SEQ bit 4, IO_STAT bit 13. */
	skeleton->rodata->flush_seq_bit = kernel_enumerator("__RQF_FLUSH_SEQ", 4);
	skeleton->rodata->io_stat_bit = kernel_enumerator("__RQF_IO_STAT", 13);
	for (size_t i = 0; i < sizeof(CALLS) / sizeof(CALLS[0]); i++)
		skeleton->rodata->call_of[CALLS[i].number] = CALLS[i].kind;
	bpf_map__set_max_entries(skeleton->maps.heads, probe->cpus);
	bpf_map__set_max_entries(skeleton->maps.events, probe->cpus * probe->events_per_cpu);
	if (options->vfs)
		bpf_map__set_max_entries(skeleton->maps.waits, IOTRACE_WAITS);
	/* Since 6.5; only a safety net for interrupted completions. */
	bpf_program__set_autoload(skeleton->progs.block_io_done, kernel_has_tracepoint("block_io_done", NULL));
	bpf_program__set_autoload(skeleton->progs.block_rq_insert, options->scheduler);
	configure_context(skeleton, options->context);
	skeleton->rodata->measures_vfs = options->vfs;
	bpf_program__set_autoload(skeleton->progs.sys_exit, options->vfs);
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

static bool add_pids(const struct iotrace_bpf *skeleton, const struct options *options)
{
	__u8 yes = 1;

	for (size_t i = 0; i < options->pid_count; i++) {
		__u32 pid = options->pids[i];

		if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.pids), &pid, &yes, BPF_ANY))
			return false;
	}
	return true;
}

#define NO_SLOT IOTRACE_DEVICE_SLOTS

/* Where the BPF program looks for it; NO_SLOT: not there, `free_slot` is its place. */
static __u32 find_slot(const struct iotrace_bpf *skeleton, __u32 device, __u32 *free_slot)
{
	__u32 first = iotrace_device_slot(device);

	*free_slot = NO_SLOT;
	for (__u32 i = 0; i < IOTRACE_SLOT_TRIES; i++) {
		__u32 at = (first + i) % IOTRACE_DEVICE_SLOTS;

		if (skeleton->bss->device_slots[at] == device)
			return at;
		if (skeleton->bss->device_slots[at])
			continue;
		*free_slot = at;
		break;
	}
	return NO_SLOT;
}

static bool add_devices(const struct iotrace_bpf *skeleton, const struct devices *devices)
{
	__u32 slot;

	for (size_t i = 0; i < devices->count; i++) {
		__u32 id = devices->list[i].id;

		if (find_slot(skeleton, id, &slot) != NO_SLOT)
			continue;
		if (slot == NO_SLOT) {
			errno = ENOSPC;
			return false;
		}
		skeleton->bss->device_slots[slot] = id;
	}
	return true;
}

static int load(struct probe *probe, const struct options *options, const struct devices *devices,
		const struct log_reader *reader)
{
	struct iotrace_bpf *skeleton = probe->skeleton;
	int error = iotrace_bpf__load(skeleton);

	if (error)
		return error;
	if (!add_pids(skeleton, options) || !add_devices(skeleton, devices) || !add_cgroups(skeleton, options))
		return -errno;
	error = log_open(&probe->log, reader, bpf_map__fd(skeleton->maps.heads), bpf_map__fd(skeleton->maps.events),
			 bpf_map__fd(skeleton->maps.names), probe->cpus, probe->events_per_cpu);
	return error ? error : iotrace_bpf__attach(skeleton);
}

struct probe *probe_open(const struct options *options, const struct devices *devices,
			 const struct driver_support *support, const struct log_reader *reader, const char **why)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	int error;

	if (!probe)
		abort();
	libbpf_set_print(keep_warning);
	probe->cpus = libbpf_num_possible_cpus();
	probe->per_cpu = probe->cpus > 0 ? calloc(probe->cpus, sizeof(*probe->per_cpu)) : NULL;
	if (!probe->per_cpu) {
		*why = "the number of CPUs cannot be read";
		probe_close(probe);
		return NULL;
	}
	probe->skeleton = iotrace_bpf__open();
	error = probe->skeleton ? 0 : -errno;
	if (!error) {
		configure(probe, options);
		configure_filters(probe->skeleton, options);
		configure_driver(probe->skeleton, devices, support);
		kernel_forget();
		error = load(probe, options, devices, reader);
	}
	if (!error)
		return probe;
	*why = explain(error);
	probe_close(probe);
	return NULL;
}

void probe_switch(struct probe *probe, bool on, long long now_ns)
{
	if (on)
		probe->skeleton->bss->switched_on_ns = now_ns;
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
	__u32 slot, unused;

	*counters = (struct iotrace_counters){0};
	slot = find_slot(probe->skeleton, device, &unused);
	if (slot == NO_SLOT || bpf_map_lookup_elem(bpf_map__fd(probe->skeleton->maps.counters), &slot, probe->per_cpu))
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

/* The only value of a per-CPU map of u64s, all CPUs together. */
static void sum_cpus(const struct probe *probe, const struct bpf_map *map, void *sums, size_t bytes)
{
	__u64 *per_cpu = calloc(probe->cpus, bytes), *sum = sums;
	size_t numbers = bytes / sizeof(*sum);
	__u32 zero = 0;

	if (!per_cpu)
		abort();
	memset(sums, 0, bytes);
	if (bpf_map_lookup_elem(bpf_map__fd(map), &zero, per_cpu) == 0)
		for (size_t i = 0; i < probe->cpus * numbers; i++)
			sum[i % numbers] += per_cpu[i];
	free(per_cpu);
}

void probe_vfs(struct probe *probe, struct iotrace_vfs_table *table)
{
	sum_cpus(probe, probe->skeleton->maps.vfs_tables, table, sizeof(*table));
}

void probe_context(struct probe *probe, struct iotrace_context *context)
{
	sum_cpus(probe, probe->skeleton->maps.contexts, context, sizeof(*context));
}

unsigned long probe_consume(struct probe *probe, double *fullness)
{
	return log_consume(&probe->log, fullness);
}

unsigned long long probe_names_dropped(const struct probe *probe)
{
	return probe->skeleton->bss->names_dropped;
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

			if (!flight->key || (flight->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE)) != FLIGHT_COUNTED)
				continue;
			device = devices_find(devices, flight->event.device);
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
	log_close(&probe->log);
	iotrace_bpf__destroy(probe->skeleton);
	free(probe->per_cpu);
	free(probe);
}
