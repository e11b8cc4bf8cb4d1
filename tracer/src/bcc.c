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

#include "backend.h"
#include "bcc_maps.h"
#include "bcc_programs.h"
#include "compiler.h"
#include "kernel_types.h"
#include "perf_log.h"

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

struct bcc {
	struct probe probe;
	struct bcc_settings settings;
	int maps[BCC_MAP_COUNT];
	struct bcc_programs programs;
	struct perf_log *log;
	struct perf_buffer *samples; /* NULL = without spans */
	unsigned long long samples_read;
	_Atomic unsigned long long samples_lost; /* told by the writer */
	const struct span_reader *span_reader; /* while they are read */
};

static char reason[1024];

/* `what` has failed with errno. */
static bool failed(const char *what)
{
	snprintf(reason, sizeof(reason), "%s", backend_failure(what));
	return false;
}

static struct bcc *bcc_of(const struct probe *probe)
{
	return (struct bcc *)probe;
}

/* ---- settings ---- */

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
		.uses_irqs = bcc_uses_irqs(devices),
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

static bool compile_and_attach(struct bcc *bcc, const struct options *options, const struct devices *devices,
			       const struct driver_support *support, const char **why)
{
	FILE *compiled = compiler_run(options->kernel_headers, bcc_text, bcc_text_end - bcc_text, why);
	bool ok;

	if (!compiled)
		return false;
	ok = bcc_programs_attach(&bcc->programs, compiled, bcc->maps, options, devices, support, why);
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

	bcc_programs_close(&bcc->programs);
	perf_log_close(bcc->log);
	perf_buffer__free(bcc->samples);
	bcc_maps_close(bcc->maps);
}

static bool open_all(struct bcc *bcc, const struct options *options, const struct devices *devices,
		     const struct driver_support *support, const struct log_reader *reader, const char **why)
{
	*why = reason;
	if (!compiler_has_headers(options->kernel_headers, why))
		return false;
	if (!bcc_maps_make(bcc->maps, options))
		return failed("BPF maps");
	if (!bcc_maps_fill(bcc->maps, options, devices, support, bcc->probe.cpus)) {
		if (errno != E2BIG)
			return failed("BPF maps");
		snprintf(reason, sizeof(reason), TOO_MANY_DISKS, IOTRACE_DEVICE_SLOTS);
		return false;
	}
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

	for (size_t i = 0; i < bcc->programs.count; i++)
		visit(context, bcc->programs.list[i].name, backend_misses(bcc->programs.list[i].fd));
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
