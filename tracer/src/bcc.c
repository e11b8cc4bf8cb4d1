// SPDX-License-Identifier: Apache-2.0
/*
 * The BCC backend: for kernels without BTF. The programs are the same text, compiled here against the kernel's headers;
 * maps and programs are made by this process, so that nothing stays when it ends.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bcc/compiled.h"
#include "backend.h"
#include "bcc.h"
#include "calls.h"
#include "compiler.h"
#include "kernel_types.h"
#include "kprobe.h"
#include "perf_log.h"
#include "targets.h"

#define MAX_PROGRAMS 32
#define MAX_INSTRUCTIONS 4096 /* what Linux 4.18 takes */

/* The text of the programs. */
__asm__(".pushsection .rodata\n"
	".global bcc_text\n.global bcc_text_end\n"
	"bcc_text: .incbin \"" BCC_TEXT "\"\n"
	"bcc_text_end:\n"
	".popsection");
extern const char bcc_text[], bcc_text_end[];

static const char *const FUNCTIONS[] = {
#define FUNCTION_NAME(name) #name,
	BCC_FUNCTIONS(FUNCTION_NAME)};

static const struct {
	const char *name;
	enum bpf_map_type type;
	__u32 key_bytes, value_bytes, entries;
} MAPS[] = {
#define MAP_ENTRY(name, type, key, value, entries)                                                                    \
	{#name, BPF_MAP_TYPE_##type, sizeof(key), sizeof(value), entries},
	BCC_MAPS(MAP_ENTRY)};

struct program {
	char name[64];
	int fd, link; /* -1 = none: see kprobes */
};

struct bcc {
	struct probe probe;
	struct bcc_settings settings;
	int maps[BCC_MAP_COUNT];
	struct program programs[MAX_PROGRAMS];
	size_t program_count;
	struct kprobes kprobes;
	struct perf_log *log;
	struct perf_buffer *samples; /* NULL = without spans */
	unsigned long long samples_read, samples_lost;
	const struct span_reader *span_reader; /* while they are read */
};

static char reason[1024];

/* `what` has failed with errno. */
static bool failed(const char *what)
{
	if (errno == EPERM)
		snprintf(reason, sizeof(reason), "not permitted to load BPF programs (needs root)");
	else
		snprintf(reason, sizeof(reason), "%s: %s", what, strerror(errno));
	return false;
}

static struct bcc *bcc_of(const struct probe *probe)
{
	return (struct bcc *)probe;
}

/* ---- maps ---- */

static bool is_used(int map, const struct options *options)
{
	switch (map) {
	case MAP_waiting:
		return options->context;
	case MAP_peers:
		return options->peers;
	case MAP_spans:
	case MAP_receivers:
	case MAP_processes:
		return options->spans;
	default:
		return true;
	}
}

static bool make_maps(struct bcc *bcc, const struct options *options)
{
	for (int i = 0; i < BCC_MAP_COUNT; i++) {
		bcc->maps[i] = bpf_map_create(MAPS[i].type, MAPS[i].name, MAPS[i].key_bytes, MAPS[i].value_bytes,
					      is_used(i, options) ? MAPS[i].entries : 1, NULL);
		if (bcc->maps[i] < 0)
			return false;
	}
	return true;
}

static bool add_devices(struct bcc *bcc, const struct devices *devices, const struct driver_support *support)
{
	struct iotrace_counters *nothing = calloc(bcc->probe.cpus, sizeof(*nothing));
	__u32 *device_of_irq = calloc(IOTRACE_IRQS, sizeof(*device_of_irq));
	bool ok = nothing && device_of_irq;

	for (size_t i = 0; ok && i < devices->count; i++) {
		const struct device *device = &devices->list[i];

		ok = bpf_map_update_elem(bcc->maps[MAP_counters], &device->id, nothing, BPF_ANY) == 0;
		if (support->irq && device->tracing == IOTRACE_IRQ)
			driver_irqs(device->name, device->id, device_of_irq);
	}
	for (size_t i = 0; ok && i < devices->head_count; i++)
		ok = bpf_map_update_elem(bcc->maps[MAP_counters], &devices->heads[i], nothing, BPF_ANY) == 0;
	for (__u32 irq = 0; ok && irq < IOTRACE_IRQS; irq++)
		ok = !device_of_irq[irq] ||
		     bpf_map_update_elem(bcc->maps[MAP_irqs], &irq, &device_of_irq[irq], BPF_ANY) == 0;
	free(nothing);
	free(device_of_irq);
	return ok;
}

static bool add_calls(int map, void (*fill)(__u8 *table))
{
	__u8 table[IOTRACE_SYSCALLS] = {0};

	fill(table);
	for (__u32 number = 0; number < IOTRACE_SYSCALLS; number++) {
		__u32 kind = table[number];

		if (kind && bpf_map_update_elem(map, &number, &kind, BPF_ANY))
			return false;
	}
	return true;
}

/* ---- settings ---- */

static bool uses_irqs(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing == IOTRACE_IRQ)
			return true;
	return false;
}

/* Whether a program may write to user space while another one does that it has interrupted: see write_out(). */
static bool writes_nest(void)
{
	static const char *const DEPTH[] = {"bpf_trace_nest_level"};
	__u64 address = 0;

	kernel_addresses(DEPTH, &address, 1);
	return address;
}

static void configure(struct bcc *bcc, const struct options *options, const struct devices *devices)
{
	bcc->settings = (struct bcc_settings){
		.min_latency_ns = options->min_latency_us * 1000,
		.comm_count = options->comm_count,
		.cgroup_count = options->cgroup_count,
		.modes_wanted = options->modes ? options->modes : 0xf,
		.sample_every = options->sample_every,
		.span_sample_every = options->span_sample_every,
		.log_events = perf_log_events(bcc->log),
		.cpu_count = bcc->probe.cpus,
		.filter_devices = options->device_count > 0,
		.filter_pids = options->pid_count > 0,
		.uses_irqs = uses_irqs(devices),
		.measures_vfs = options->vfs,
		.io_done_follows = kernel_has_raw_tracepoint("block_io_done"),
		.writes_alone = !writes_nest(),
	};
	for (size_t i = 0; i < options->comm_count; i++)
		memcpy(bcc->settings.comms[i], options->comms[i], strlen(options->comms[i]));
	kernel_addresses(FUNCTIONS, bcc->settings.addresses, BCC_FUNCTION_COUNT);
}

static bool set(struct bcc *bcc)
{
	__u32 zero = 0;

	return bpf_map_update_elem(bcc->maps[MAP_settings], &zero, &bcc->settings, BPF_ANY) == 0;
}

/* ---- programs ---- */

static bool is_kprobe(const char *name)
{
	return strncmp(name, "kprobe_", 7) == 0;
}

/* Programs that are not named after their tracepoint. */
static const struct {
	const char *program, *tracepoint;
} SHARED_TRACEPOINTS[] = {
	{"peer_segment", "tcp_probe"},
	{"peer_retransmit", "tcp_retransmit_skb"},
	{"span_enter", "sys_enter"},
	{"span_exit", "sys_exit"},
	{"span_switch", "sched_switch"},
	{"span_wakeup", "sched_wakeup"},
	{"tcp_retransmit", "tcp_retransmit_skb"},
};

static const char *tracepoint_of(const char *program)
{
	for (size_t i = 0; i < sizeof(SHARED_TRACEPOINTS) / sizeof(SHARED_TRACEPOINTS[0]); i++)
		if (strcmp(program, SHARED_TRACEPOINTS[i].program) == 0)
			return SHARED_TRACEPOINTS[i].tracepoint;
	return program;
}

static bool is_wanted(const char *name, const struct options *options, const struct devices *devices,
		      const struct driver_support *support)
{
	unsigned parts = options->context ? ~options->without : 0;

	if (strcmp(name, "block_io_done") == 0)
		return kernel_has_raw_tracepoint(name);
	if (strcmp(name, "block_rq_insert") == 0)
		return options->scheduler;
	if (strcmp(name, "sys_enter") == 0)
		return !options->no_vfs;
	if (strcmp(name, "sys_exit") == 0)
		return options->vfs;
	if (strcmp(name, "irq_handler_entry") == 0)
		return uses_irqs(devices);
	if (strncmp(name, "sched_", 6) == 0)
		return parts & 1U << CONTEXT_RUN_QUEUE;
	if (strncmp(name, "tcp_", 4) == 0)
		return parts & 1U << CONTEXT_TCP;
	if (strcmp(name, "mm_filemap_add_to_page_cache") == 0)
		return parts & 1U << CONTEXT_PAGE_CACHE;
	if (strncmp(name, "peer_", 5) == 0)
		return options->peers;
	if (strncmp(name, "span_", 5) == 0)
		return options->spans;
	if (is_kprobe(name))
		return kprobes_wanted(devices);
	if (strncmp(name, "nvme_", 5) == 0)
		return support->nvme;
	if (strncmp(name, "scsi_", 5) == 0)
		return support->scsi;
	return true;
}

#define LOG_BYTES ((16 << 20) - 1) /* Linux takes no larger one before 5.2 */

static int load(const struct compiled_program *program, const struct bpf_insn *instructions, char *log)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .kern_version = program->kern_version, .log_buf = log,
		    .log_size = log ? LOG_BYTES : 0, .log_level = log ? 1 : 0);

	return bpf_prog_load(is_kprobe(program->name) ? BPF_PROG_TYPE_KPROBE : BPF_PROG_TYPE_RAW_TRACEPOINT,
			     program->name, "Dual BSD/GPL", instructions, program->bytes / sizeof(*instructions), &options);
}

static bool explain_refusal(const struct compiled_program *program, const struct bpf_insn *instructions)
{
	int error = errno;
	char *log = calloc(1, LOG_BYTES);

	if (!log)
		abort();
	load(program, instructions, log);
	snprintf(reason, sizeof(reason), "program %s: %s: %.500s", program->name, strerror(error), backend_cause(log));
	free(log);
	return false;
}

static void insert_maps(const struct bcc *bcc, struct bpf_insn *instructions, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (instructions[i].code == (BPF_LD | BPF_IMM | BPF_DW) &&
		    instructions[i].src_reg == BPF_PSEUDO_MAP_FD && (__u32)instructions[i].imm < BCC_MAP_COUNT)
			instructions[i].imm = bcc->maps[instructions[i].imm];
}

static bool attach(struct bcc *bcc, const struct compiled_program *compiled, struct bpf_insn *instructions)
{
	struct program *program = &bcc->programs[bcc->program_count];
	const char *name = compiled->name;

	insert_maps(bcc, instructions, compiled->bytes / sizeof(*instructions));
	snprintf(program->name, sizeof(program->name), "%s", name);
	program->fd = load(compiled, instructions, NULL);
	if (program->fd < 0)
		return errno == EPERM ? failed(name) : explain_refusal(compiled, instructions);
	bcc->program_count++;
	program->link = is_kprobe(name) ? -1 : bpf_raw_tracepoint_open(tracepoint_of(name), program->fd);
	return program->link >= 0 || is_kprobe(name) || failed(name);
}

static int descriptor_of(const struct bcc *bcc, const char *name)
{
	for (size_t i = 0; i < bcc->program_count; i++)
		if (strcmp(bcc->programs[i].name, name) == 0)
			return bcc->programs[i].fd;
	return -1;
}

static bool attach_kprobes(struct bcc *bcc, const struct devices *devices)
{
	const struct kprobe_programs programs = {
		.queue_rq = descriptor_of(bcc, "kprobe_queue_rq"),
		.queue_rqs = descriptor_of(bcc, "kprobe_queue_rqs"),
		.complete = descriptor_of(bcc, "kprobe_complete"),
	};

	return kprobes_attach(&bcc->kprobes, devices, &programs) || failed("kprobes");
}

/* `compiled` is what the compiler wrote. */
static bool attach_all(struct bcc *bcc, FILE *compiled, const struct options *options, const struct devices *devices,
		       const struct driver_support *support)
{
	static struct bpf_insn instructions[MAX_INSTRUCTIONS];
	struct compiled_program program;

	while (fread(&program, sizeof(program), 1, compiled) == 1) {
		program.name[sizeof(program.name) - 1] = 0;
		if (program.bytes > sizeof(instructions) || bcc->program_count == MAX_PROGRAMS ||
		    fread(instructions, program.bytes, 1, compiled) != 1) {
			snprintf(reason, sizeof(reason), "program %s: larger than it may be", program.name);
			return false;
		}
		if (is_wanted(program.name, options, devices, support) &&
		    !attach(bcc, &program, instructions))
			return false;
	}
	snprintf(reason, sizeof(reason), "libbcc made no programs");
	return bcc->program_count && attach_kprobes(bcc, devices);
}

static bool compile_and_attach(struct bcc *bcc, const struct options *options, const struct devices *devices,
			       const struct driver_support *support, const char **why)
{
	FILE *compiled = compiler_run(options->kernel_headers, bcc_text, bcc_text_end - bcc_text, why);
	bool ok;

	if (!compiled)
		return false;
	*why = reason;
	ok = attach_all(bcc, compiled, options, devices, support);
	fclose(compiled);
	return ok;
}

/* ---- what probe.c asks for ---- */

#define SAMPLE_PAGES 8 /* of each CPU */

static void handle_sample(void *context, int cpu, void *data, __u32 bytes)
{
	struct bcc *bcc = context;
	struct iotrace_span span;

	(void)cpu;
	if (bytes < sizeof(span))
		return;
	memcpy(&span, data, sizeof(span)); /* not aligned to 8 bytes */
	bcc->samples_read++;
	bcc->span_reader->sample(bcc->span_reader->context, &span);
}

static bool open_samples(struct bcc *bcc, const struct options *options)
{
	if (options->spans)
		bcc->samples = perf_buffer__new(bcc->maps[MAP_samples], SAMPLE_PAGES, handle_sample, NULL, bcc, NULL);
	return bcc->samples || !options->spans;
}

static void bcc_close(struct probe *probe)
{
	struct bcc *bcc = bcc_of(probe);

	kprobes_close(&bcc->kprobes);
	for (size_t i = 0; i < bcc->program_count; i++) {
		if (bcc->programs[i].link >= 0)
			close(bcc->programs[i].link);
		close(bcc->programs[i].fd);
	}
	perf_log_close(bcc->log);
	perf_buffer__free(bcc->samples);
	for (int i = 0; i < BCC_MAP_COUNT; i++)
		if (bcc->maps[i] >= 0)
			close(bcc->maps[i]);
}

static bool open_all(struct bcc *bcc, const struct options *options, const struct devices *devices,
		     const struct driver_support *support, const struct log_reader *reader, const char **why)
{
	*why = reason;
	if (!compiler_has_headers(options->kernel_headers, why))
		return false;
	if (!make_maps(bcc, options) || !add_calls(bcc->maps[MAP_call_kinds], calls_of_io) ||
	    !add_calls(bcc->maps[MAP_span_calls], calls_of_spans))
		return failed("BPF maps");
	if (!add_devices(bcc, devices, support)) {
		if (errno != E2BIG)
			return failed("BPF maps");
		snprintf(reason, sizeof(reason), TOO_MANY_DISKS, IOTRACE_DEVICE_SLOTS);
		return false;
	}
	if (!targets_add(bcc->maps[MAP_pids], bcc->maps[MAP_cgroups], options))
		return failed("BPF maps");
	bcc->log = perf_log_open(reader, bcc->maps[MAP_events], bcc->maps[MAP_names], bcc->maps[MAP_consumed],
				 bcc->probe.cpus, options->ring_bytes);
	if (!bcc->log || !open_samples(bcc, options))
		return failed("buffers for the records");
	configure(bcc, options, devices);
	if (!set(bcc))
		return failed("BPF maps");
	return compile_and_attach(bcc, options, devices, support, why);
}

static struct probe *bcc_open(const struct options *options, const struct devices *devices,
			      const struct driver_support *support, const struct log_reader *reader, int cpus,
			      const char **why)
{
	struct bcc *bcc = calloc(1, sizeof(*bcc));

	if (!bcc)
		abort();
	libbpf_set_print(NULL);
	bcc->probe.cpus = cpus;
	memset(bcc->maps, -1, sizeof(bcc->maps));
	if (open_all(bcc, options, devices, support, reader, why))
		return &bcc->probe;
	bcc_close(&bcc->probe);
	free(bcc);
	return NULL;
}

static void bcc_switch(struct probe *probe, enum phase phase, long long now_ns)
{
	bcc_of(probe)->settings.follows = phase != PHASE_OFF;
	bcc_of(probe)->settings.on_ns = phase == PHASE_ON ? now_ns : 0;
	set(bcc_of(probe));
}

static bool bcc_counters(struct probe *probe, __u32 device, struct iotrace_counters *per_cpu)
{
	return bpf_map_lookup_elem(bcc_of(probe)->maps[MAP_counters], &device, per_cpu) == 0;
}

static unsigned long bcc_consume(struct probe *probe, double *fullness)
{
	return perf_log_consume(bcc_of(probe)->log, fullness);
}

static bool bcc_is_full(const struct probe *probe)
{
	int map = bcc_of(probe)->maps[MAP_counters];
	__u32 device, count = 0;

	while (bpf_map_get_next_key(map, count ? &device : NULL, &device) == 0)
		count++;
	return count >= IOTRACE_DEVICE_SLOTS;
}

static void bcc_vfs(struct probe *probe, struct iotrace_vfs_table *table)
{
	backend_sum(probe, bcc_of(probe)->maps[MAP_vfs_tables], table, sizeof(*table));
}

static void bcc_context(struct probe *probe, struct iotrace_context *context)
{
	backend_sum(probe, bcc_of(probe)->maps[MAP_contexts], context, sizeof(*context));
}

static int bcc_peers(const struct probe *probe)
{
	return bcc_of(probe)->maps[MAP_peers];
}

static struct bcc_cpu sum_of_cpus(const struct probe *probe)
{
	struct bcc_cpu sum;

	backend_sum(probe, bcc_of(probe)->maps[MAP_cpus], &sum, sizeof(sum));
	return sum;
}

/*
 * Those that were sent before, and are not there, found no room. Before 5.1 the kernel does not tell the program, and
 * user space only when it has written another one.
 */
static void bcc_samples(struct probe *probe, const struct span_reader *reader)
{
	struct bcc *bcc = bcc_of(probe);
	unsigned long long sent = sum_of_cpus(probe).samples;

	bcc->span_reader = reader;
	perf_buffer__consume(bcc->samples);
	if (sent > bcc->samples_read + bcc->samples_lost)
		bcc->samples_lost = sent - bcc->samples_read;
}

static int bcc_processes(const struct probe *probe)
{
	return bcc_of(probe)->maps[MAP_processes];
}

/*
 * What a program was told that there was no room for, and what the kernel has told of (PERF_RECORD_LOST): where it tells
 * the program, too (newer kernels), not twice as much is lost.
 */
static unsigned long long more(unsigned long long one, unsigned long long other)
{
	return one > other ? one : other;
}

static void bcc_spans_lost(const struct probe *probe, unsigned long long *not_counted, unsigned long long *samples)
{
	*not_counted = sum_of_cpus(probe).processes_not_counted;
	*samples = bcc_of(probe)->samples_lost;
}

static unsigned long long bcc_names_dropped(struct probe *probe)
{
	return more(perf_log_names_lost(bcc_of(probe)->log), sum_of_cpus(probe).names_dropped);
}

static void visit_map(int map, void (*visit)(void *context, const struct iotrace_flight *flight), void *context)
{
	struct iotrace_flight flight;
	const __u64 *last = NULL;
	__u64 key;

	for (; bpf_map_get_next_key(map, last, &key) == 0; last = &key)
		if (bpf_map_lookup_elem(map, &key, &flight) == 0)
			visit(context, &flight);
}

static void bcc_flights(struct probe *probe, void (*visit)(void *context, const struct iotrace_flight *flight),
			void *context)
{
	visit_map(bcc_of(probe)->maps[MAP_requests], visit, context);
	visit_map(bcc_of(probe)->maps[MAP_bios], visit, context);
}

static void bcc_programs(struct probe *probe,
			 void (*visit)(void *context, const char *name, unsigned long long misses), void *context)
{
	const struct bcc *bcc = bcc_of(probe);

	for (size_t i = 0; i < bcc->program_count; i++)
		visit(context, bcc->programs[i].name, backend_misses(bcc->programs[i].fd));
}

const struct backend BCC = {
	.name = "bcc",
	.open = bcc_open,
	.switch_to = bcc_switch,
	.counters = bcc_counters,
	.is_full = bcc_is_full,
	.vfs = bcc_vfs,
	.context = bcc_context,
	.peers = bcc_peers,
	.samples = bcc_samples,
	.processes = bcc_processes,
	.spans_lost = bcc_spans_lost,
	.consume = bcc_consume,
	.names_dropped = bcc_names_dropped,
	.flights = bcc_flights,
	.programs = bcc_programs,
	.close = bcc_close,
};
