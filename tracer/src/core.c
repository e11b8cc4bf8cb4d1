// SPDX-License-Identifier: Apache-2.0
/* The CO-RE backend: one object for all kernels that have BTF. */
#define _GNU_SOURCE
#include "backend.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "iotrace.skel.h"
#include "kernel_types.h"
#include "kprobe.h"
#include "targets.h"

struct core {
	struct probe probe;
	struct iotrace_bpf *skeleton;
	struct log log;
	struct kprobes kprobes;
	unsigned log_cpus, log_bits;
	struct ring_buffer *samples; /* NULL = without spans */
	const struct span_reader *span_reader; /* while they are read */
};

static struct core *core_of(const struct probe *probe)
{
	return (struct core *)probe;
}

static char first_warning[256], reason[1024];

/* libbpf explains itself in many warnings: the first one holds the cause, and the verifier's log that of a refusal. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char *text;

	if (level != LIBBPF_WARN || vasprintf(&text, format, arguments) < 0)
		return 0;
	if (strstr(text, "BEGIN PROG LOAD LOG"))
		snprintf(reason, sizeof(reason), "%s: %.500s", first_warning, backend_cause(text));
	else if (!first_warning[0])
		snprintf(first_warning, sizeof(first_warning), "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
	return 0;
}

static const char *explain(int error)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return "this kernel has no BTF (/sys/kernel/btf/vmlinux)";
	if (error == -EPERM) /* the verifier says EACCES */
		return "not permitted to load BPF programs (needs root, or CAP_BPF and CAP_PERFMON)";
	if (reason[0])
		return reason;
	return first_warning[0] ? first_warning : strerror(-error);
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
	bpf_program__set_autoload(skeleton->progs.throttled, support->throttler);
	skeleton->rodata->sees_throttling = support->throttler;
	if (support->throttler)
		bpf_program__set_attach_target(skeleton->progs.throttled, 0, support->throttler);
	bpf_program__set_autoload(skeleton->progs.kprobe_queue_rq, kprobes_wanted(devices));
	bpf_program__set_autoload(skeleton->progs.kprobe_queue_rqs,
				  kprobes_wanted(devices) && kernel_has_member("request", "rq_next"));
	bpf_program__set_autoload(skeleton->progs.kprobe_complete, kprobes_wanted(devices));
}

static void configure_context(struct iotrace_bpf *skeleton, const struct options *options)
{
	unsigned parts = options->context ? ~options->without : 0;
	bool run_queue = parts & 1U << CONTEXT_RUN_QUEUE, tcp = parts & 1U << CONTEXT_TCP;

	bpf_program__set_autoload(skeleton->progs.sched_wakeup, run_queue);
	bpf_program__set_autoload(skeleton->progs.sched_wakeup_new, run_queue);
	bpf_program__set_autoload(skeleton->progs.sched_switch, run_queue);
	if (run_queue)
		bpf_map__set_max_entries(skeleton->maps.waiting, 1 << IOTRACE_WAITING_BUCKET_BITS);
	bpf_program__set_autoload(skeleton->progs.tcp_probe, tcp);
	bpf_program__set_autoload(skeleton->progs.tcp_retransmit, tcp);
	bpf_program__set_autoload(skeleton->progs.mm_filemap_add_to_page_cache, parts & 1U << CONTEXT_PAGE_CACHE);
}

static void configure_peers(struct iotrace_bpf *skeleton, bool wanted)
{
	bpf_program__set_autoload(skeleton->progs.peer_segment, wanted);
	bpf_program__set_autoload(skeleton->progs.peer_retransmit, wanted);
	if (wanted)
		bpf_map__set_max_entries(skeleton->maps.peers, IOTRACE_PEERS);
}

static void configure_spans(struct iotrace_bpf *skeleton, const struct options *options)
{
	bool wanted = options->spans;

	bpf_program__set_autoload(skeleton->progs.span_enter, wanted);
	bpf_program__set_autoload(skeleton->progs.span_exit, wanted);
	bpf_program__set_autoload(skeleton->progs.span_switch, wanted);
	bpf_program__set_autoload(skeleton->progs.span_wakeup, wanted);
	if (!wanted)
		return;
	skeleton->rodata->span_sample_every = options->span_sample_every;
	calls_of_spans((__u8 *)skeleton->rodata->span_call_of);
	bpf_map__set_max_entries(skeleton->maps.receivers, IOTRACE_SPAN_SOCKETS);
	bpf_map__set_max_entries(skeleton->maps.processes, IOTRACE_SPAN_PROCESSES);
	bpf_map__set_max_entries(skeleton->maps.samples, IOTRACE_SAMPLE_BYTES);
}

static void configure_uring(struct iotrace_bpf *skeleton, const struct options *options)
{
	/* Until 6.2 io_uring_submit_sqe: of `req` and `force_nonblock`, before 6.0 of seven, `req` the second. */
	int earlier = kernel_tracepoint_arguments("io_uring_submit_sqe");
	bool now = kernel_has_tracepoint("io_uring_submit_req", NULL);
	bool wanted = !options->no_vfs && (now || earlier == 2 || earlier == 7);
	bool returns = wanted && options->vfs && (now || earlier == 2);

	skeleton->rodata->traces_uring = wanted;
	skeleton->rodata->uring_returns = returns;
	skeleton->rodata->uring_names_second = earlier == 7;
	skeleton->rodata->async_data_bit = kernel_enumerator("REQ_F_ASYNC_DATA_BIT", 0);
	bpf_program__set_autoload(skeleton->progs.io_uring_submit_req, wanted && now);
	bpf_program__set_autoload(skeleton->progs.io_uring_submit_sqe, wanted && !now);
	bpf_program__set_autoload(skeleton->progs.io_uring_link, returns);
	bpf_program__set_autoload(skeleton->progs.io_uring_req_failed, returns);
	bpf_program__set_autoload(skeleton->progs.io_uring_complete, returns);
	if (wanted)
		bpf_map__set_max_entries(skeleton->maps.uring_requests, 1 << IOTRACE_URING_BUCKET_BITS);
	if (returns)
		bpf_map__set_max_entries(skeleton->maps.uring_unnamed, IOTRACE_URING_PROCESSES);
}

static void configure(struct core *core, const struct options *options)
{
	struct iotrace_bpf *skeleton = core->skeleton;
	bool io_done = kernel_has_tracepoint("block_io_done", NULL), preempted = kernel_preempts_programs();

	core->log_cpus = log_cpus();
	core->log_bits = log_bits(options->ring_bytes, core->log_cpus);
	skeleton->rodata->log_bits = core->log_bits;
	skeleton->rodata->can_cast = kernel_has_function("bpf_rdonly_cast", NULL);
	/* Before 6.12 they were macros: FLUSH_SEQ bit 4, IO_STAT bit 13. */
	skeleton->rodata->flush_seq_bit = kernel_enumerator("__RQF_FLUSH_SEQ", 4);
	skeleton->rodata->io_stat_bit = kernel_enumerator("__RQF_IO_STAT", 13);
	skeleton->rodata->completes_with_errno = kernel_tracepoint_takes("block_rq_complete", 1, "int");
	skeleton->rodata->switch_tells_state = kernel_tracepoint_arguments("sched_switch") == 4;
	skeleton->rodata->retransmit_tells_error = kernel_tracepoint_arguments("tcp_retransmit_skb") == 3;
	skeleton->rodata->pinned_bit = kernel_enumerator("BIO_PAGE_PINNED", 16);
	skeleton->rodata->queued_bit = kernel_enumerator("BIO_TRACE_COMPLETION", 0);
	calls_of_io((__u8 *)skeleton->rodata->call_of);
	if (!kernel_has_tracepoint("writeback_dirty_folio", NULL)) /* before 5.18 */
		bpf_program__set_attach_target(skeleton->progs.writeback_dirty_folio, 0, "writeback_dirty_page");
	bpf_map__set_max_entries(skeleton->maps.heads, core->log_cpus);
	bpf_map__set_max_entries(skeleton->maps.events, core->log_cpus << core->log_bits);
	if (options->vfs)
		bpf_map__set_max_entries(skeleton->maps.waits, IOTRACE_WAITS + IOTRACE_URING_REQUESTS);
	bpf_program__set_autoload(skeleton->progs.block_bio_queue_again, preempted);
	bpf_program__set_autoload(skeleton->progs.block_rq_issue_again, preempted);
	/* Only a safety net for completions that interrupt others, or whose program is left out; since 6.5. */
	skeleton->rodata->io_done_follows = io_done && (preempted || driver_completions_nest());
	bpf_program__set_autoload(skeleton->progs.block_io_done, skeleton->rodata->io_done_follows);
	/*
	 * The kernel leaves out a program that would interrupt itself since "bpf: Prevent bpf program recursion for raw
	 * tracepoint probes", which is older than block_io_done.
	 */
	skeleton->rodata->counts_alone = io_done && !skeleton->rodata->io_done_follows;
	skeleton->rodata->logs_alone = skeleton->rodata->counts_alone && !options->vfs;
	bpf_program__set_autoload(skeleton->progs.block_rq_insert, options->scheduler);
	bpf_program__set_autoload(skeleton->progs.block_rq_insert_again, preempted && options->scheduler);
	configure_context(skeleton, options);
	configure_peers(skeleton, options->peers);
	configure_spans(skeleton, options);
	configure_uring(skeleton, options);
	skeleton->rodata->measures_vfs = options->vfs;
	skeleton->rodata->times_calls = !options->no_vfs;
	bpf_program__set_autoload(skeleton->progs.sys_enter, !options->no_vfs);
	bpf_program__set_autoload(skeleton->progs.sys_enter_again, preempted && !options->no_vfs);
	bpf_program__set_autoload(skeleton->progs.sys_exit, options->vfs);
}

static int handle_sample(void *context, void *data, size_t size)
{
	struct core *core = context;

	if (size == sizeof(struct iotrace_span))
		core->span_reader->sample(core->span_reader->context, data);
	return 0;
}

static int attach(struct core *core, const struct devices *devices)
{
	const struct iotrace_bpf *skeleton = core->skeleton;
	int error = iotrace_bpf__attach(core->skeleton);

	if (error || !kprobes_wanted(devices))
		return error;
	return kprobes_attach(&core->kprobes, devices,
			      &(struct kprobe_programs){
				      .queue_rq = bpf_program__fd(skeleton->progs.kprobe_queue_rq),
				      .queue_rqs = bpf_program__fd(skeleton->progs.kprobe_queue_rqs),
				      .complete = bpf_program__fd(skeleton->progs.kprobe_complete),
			      })
		       ? 0
		       : -errno;
}

static int load(struct core *core, const struct options *options, const struct devices *devices,
		const struct log_reader *reader)
{
	struct iotrace_bpf *skeleton = core->skeleton;
	int error = iotrace_bpf__load(skeleton);

	if (error)
		return error;
	if (!targets_add(bpf_map__fd(skeleton->maps.pids), bpf_map__fd(skeleton->maps.cgroups), options))
		return -errno;
	if (!targets_add_devices(skeleton->bss->device_slots, devices)) {
		snprintf(reason, sizeof(reason), TOO_MANY_DISKS, IOTRACE_DEVICE_SLOTS);
		return -errno;
	}
	if (options->spans) {
		core->samples = ring_buffer__new(bpf_map__fd(skeleton->maps.samples), handle_sample, core, NULL);
		if (!core->samples)
			return -errno;
	}
	error = log_open(&core->log, reader, bpf_map__fd(skeleton->maps.heads), bpf_map__fd(skeleton->maps.events),
			 bpf_map__fd(skeleton->maps.names), core->log_cpus, core->log_bits);
	return error ? error : attach(core, devices);
}

static void core_close(struct probe *probe)
{
	struct core *core = core_of(probe);

	kprobes_close(&core->kprobes);
	ring_buffer__free(core->samples);
	log_close(&core->log);
	iotrace_bpf__destroy(core->skeleton);
}

static struct probe *core_open(const struct options *options, const struct devices *devices,
			       const struct driver_support *support, const struct log_reader *reader, int cpus,
			       const char **why)
{
	struct core *core = calloc(1, sizeof(*core));
	int error;

	if (!core)
		abort();
	core->probe.cpus = cpus;
	libbpf_set_print(keep_warning);
	core->skeleton = iotrace_bpf__open();
	error = core->skeleton ? 0 : -errno;
	if (!error) {
		configure(core, options);
		configure_filters(core->skeleton, options);
		configure_driver(core->skeleton, devices, support);
		kernel_forget();
		error = load(core, options, devices, reader);
	}
	if (!error)
		return &core->probe;
	*why = explain(error);
	core_close(&core->probe);
	free(core);
	return NULL;
}

static void core_switch(struct probe *probe, enum phase phase, long long now_ns)
{
	struct iotrace_bpf *skeleton = core_of(probe)->skeleton;

	skeleton->bss->follows = phase != PHASE_OFF;
	if (phase == PHASE_ON)
		skeleton->bss->switched_on_ns = now_ns;
	__sync_synchronize();
	skeleton->bss->switched_on = phase == PHASE_ON;
}

static bool core_counters(struct probe *probe, __u32 device, struct iotrace_counters *per_cpu)
{
	const struct iotrace_bpf *skeleton = core_of(probe)->skeleton;
	__u32 unused, slot = targets_slot(skeleton->bss->device_slots, device, &unused);

	return slot != TARGETS_NO_SLOT && bpf_map_lookup_elem(bpf_map__fd(skeleton->maps.counters), &slot, per_cpu) == 0;
}

static bool core_is_full(const struct probe *probe)
{
	const __u32 *slots = core_of(probe)->skeleton->bss->device_slots;

	for (size_t i = 0; i < IOTRACE_DEVICE_SLOTS; i++)
		if (!slots[i])
			return false;
	return true;
}

static void core_vfs(struct probe *probe, struct iotrace_vfs_table *table)
{
	backend_sum(probe, bpf_map__fd(core_of(probe)->skeleton->maps.vfs_tables), table, sizeof(*table));
}

static void core_context(struct probe *probe, struct iotrace_context *context)
{
	backend_sum(probe, bpf_map__fd(core_of(probe)->skeleton->maps.contexts), context, sizeof(*context));
}

static int core_peers(const struct probe *probe)
{
	return bpf_map__fd(core_of(probe)->skeleton->maps.peers);
}

static void core_samples(struct probe *probe, const struct span_reader *reader)
{
	core_of(probe)->span_reader = reader;
	ring_buffer__consume(core_of(probe)->samples);
}

static int core_processes(const struct probe *probe)
{
	return bpf_map__fd(core_of(probe)->skeleton->maps.processes);
}

static void core_spans_lost(const struct probe *probe, unsigned long long *not_counted, unsigned long long *samples)
{
	*not_counted = core_of(probe)->skeleton->bss->processes_not_counted;
	*samples = core_of(probe)->skeleton->bss->samples_dropped;
}

static unsigned long core_consume(struct probe *probe, double *fullness)
{
	return log_consume(&core_of(probe)->log, fullness);
}

static unsigned long long core_names_dropped(struct probe *probe)
{
	return core_of(probe)->skeleton->bss->names_dropped;
}

static void core_flights(struct probe *probe, void (*visit)(void *context, const struct iotrace_flight *flight),
			 void *context)
{
	int flights = bpf_map__fd(core_of(probe)->skeleton->maps.flights);
	struct iotrace_bucket bucket;

	for (__u32 i = 0; i < 1 << IOTRACE_BUCKET_BITS; i++) {
		if (bpf_map_lookup_elem(flights, &i, &bucket))
			continue;
		for (int way = 0; way < IOTRACE_WAYS; way++)
			if (bucket.way[way].key)
				visit(context, &bucket.way[way]);
	}
}

static void core_programs(struct probe *probe,
			  void (*visit)(void *context, const char *name, unsigned long long misses), void *context)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, core_of(probe)->skeleton->obj)
		if (bpf_program__autoload(program))
			visit(context, bpf_program__name(program), backend_misses(bpf_program__fd(program)));
}

const struct backend CORE = {
	.name = "core",
	.open = core_open,
	.switch_to = core_switch,
	.counters = core_counters,
	.is_full = core_is_full,
	.vfs = core_vfs,
	.context = core_context,
	.peers = core_peers,
	.samples = core_samples,
	.processes = core_processes,
	.spans_lost = core_spans_lost,
	.consume = core_consume,
	.names_dropped = core_names_dropped,
	.flights = core_flights,
	.programs = core_programs,
	.close = core_close,
};
