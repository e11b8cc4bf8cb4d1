// SPDX-License-Identifier: Apache-2.0
/*
 * The BCC backend: for kernels without BTF. The programs are the same text, compiled here against the kernel's headers
 * with the options as constants; maps and programs are made by this process, so that nothing stays when it ends.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bcc/compiled.h"
#include "backend.h"
#include "bcc.h"
#include "calls.h"
#include "compiler.h"
#include "kernel_types.h"
#include "perf_log.h"
#include "targets.h"

#define MAX_PROGRAMS 32
#define MAX_INSTRUCTIONS 4096 /* what Linux 4.18 takes */

/* The text of the programs, without what configure() writes before it. */
__asm__(".pushsection .rodata\n"
	".global bcc_text\n.global bcc_text_end\n"
	"bcc_text: .incbin \"" BCC_TEXT "\"\n"
	"bcc_text_end:\n"
	".popsection");
extern const char bcc_text[], bcc_text_end[];

/* Functions whose address tells whose bio it is. */
static const char *const FUNCTIONS[] = {"iomap_dio_bio_end_io", "blkdev_bio_end_io", "blkdev_bio_end_io_async",
					"blkdev_bio_end_io_simple", "xlog_bio_end_io"};
#define FUNCTION_COUNT (sizeof(FUNCTIONS) / sizeof(FUNCTIONS[0]))

enum map {
#define MAP_NUMBER(name, type, key, value, entries) MAP_##name,
	BCC_MAPS(MAP_NUMBER) MAP_COUNT
};

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
	int fd, link;
};

struct bcc {
	struct probe probe;
	int maps[MAP_COUNT];
	struct program programs[MAX_PROGRAMS];
	size_t program_count;
	struct perf_log *log;
};

static char reason[1024];

static struct bcc *bcc_of(struct probe *probe)
{
	return (struct bcc *)probe;
}

/* ---- maps ---- */

static bool make_maps(struct bcc *bcc)
{
	for (int i = 0; i < MAP_COUNT; i++) {
		bcc->maps[i] = bpf_map_create(MAPS[i].type, MAPS[i].name, MAPS[i].key_bytes, MAPS[i].value_bytes,
					      MAPS[i].entries, NULL);
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
	for (__u32 irq = 0; ok && irq < IOTRACE_IRQS; irq++)
		ok = !device_of_irq[irq] ||
		     bpf_map_update_elem(bcc->maps[MAP_irqs], &irq, &device_of_irq[irq], BPF_ANY) == 0;
	free(nothing);
	free(device_of_irq);
	return ok;
}

static bool add_calls(struct bcc *bcc)
{
	__u8 table[IOTRACE_SYSCALLS] = {0};

	calls_of_io(table);
	for (__u32 number = 0; number < IOTRACE_SYSCALLS; number++) {
		__u32 kind = table[number];

		if (kind && bpf_map_update_elem(bcc->maps[MAP_call_kinds], &number, &kind, BPF_ANY))
			return false;
	}
	return true;
}

/* ---- the text ---- */

static bool uses_irqs(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing == IOTRACE_IRQ)
			return true;
	return false;
}

static void write_comms(FILE *text, const struct options *options)
{
	fprintf(text, "static __inline__ bool comm_selected(const u64 *comm)\n{\n\treturn !filter_comms");
	for (size_t i = 0; i < options->comm_count; i++) {
		__u64 words[IOTRACE_COMM_BYTES / 8] = {0};

		memcpy(words, options->comms[i], strlen(options->comms[i]));
		fprintf(text, " || (comm[0] == 0x%" PRIx64 "ULL && comm[1] == 0x%" PRIx64 "ULL)", (uint64_t)words[0],
			(uint64_t)words[1]);
	}
	fputs(";\n}\n", text);
}

static void write_addresses(FILE *text)
{
	__u64 addresses[FUNCTION_COUNT] = {0};

	kernel_addresses(FUNCTIONS, addresses, FUNCTION_COUNT);
	for (size_t i = 0; i < FUNCTION_COUNT; i++)
		fprintf(text, "#define ADDRESS_%s 0x%" PRIx64 "ULL\n", FUNCTIONS[i], (uint64_t)addresses[i]);
}

static void configure(FILE *text, const struct bcc *bcc, const struct options *options, const struct devices *devices)
{
	static const char *const HEADERS[] = {"version", "blkdev", "blk-mq", "fs", "sched"};

	for (size_t i = 0; i < sizeof(HEADERS) / sizeof(HEADERS[0]); i++)
		fprintf(text, "#include <linux/%s.h>\n", HEADERS[i]);
	fprintf(text, "#define filter_devices %d\n", options->device_count > 0);
	fprintf(text, "#define filter_pids %d\n", options->pid_count > 0);
	fprintf(text, "#define filter_comms %d\n", options->comm_count > 0);
	fprintf(text, "#define cgroup_count %zu\n", options->cgroup_count);
	fprintf(text, "#define min_latency_ns %ldULL\n", options->min_latency_us * 1000);
	fprintf(text, "#define modes_wanted %u\n", options->modes ? options->modes : 0xf);
	fprintf(text, "#define sample_every %u\n", options->sample_every);
	fprintf(text, "#define log_events %u\n", perf_log_events(bcc->log));
	fprintf(text, "#define uses_irqs %d\n", uses_irqs(devices));
	fprintf(text, "#define cpu_count %d\n", bcc->probe.cpus);
	for (int i = 0; i < MAP_COUNT; i++)
		fprintf(text, "#define FD_%s %d\n", MAPS[i].name, bcc->maps[i]);
	write_comms(text, options);
	write_addresses(text);
}

/* ---- programs ---- */

static bool is_wanted(const char *name, const struct options *options, const struct devices *devices,
		      const struct driver_support *support)
{
	if (strcmp(name, "block_io_done") == 0)
		return kernel_has_raw_tracepoint(name);
	if (strcmp(name, "block_rq_insert") == 0)
		return options->scheduler;
	if (strcmp(name, "irq_handler_entry") == 0)
		return uses_irqs(devices);
	if (strncmp(name, "nvme_", 5) == 0)
		return support->nvme;
	if (strncmp(name, "scsi_", 5) == 0)
		return support->scsi;
	return true;
}

#define LOG_BYTES (16 << 20)

/* The verifier's last line, but for its statistics, is the cause. */
static void explain_refusal(const char *name, const struct bpf_insn *instructions, size_t count, int error)
{
	char *log = calloc(1, LOG_BYTES), *line, *rest = log, *cause = "";
	LIBBPF_OPTS(bpf_prog_load_opts, options, .log_buf = log, .log_size = LOG_BYTES, .log_level = 1);

	if (!log)
		abort();
	bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, "Dual BSD/GPL", instructions, count, &options);
	while ((line = strsep(&rest, "\n")))
		if (*line && strncmp(line, "processed ", 10) != 0)
			cause = line;
	snprintf(reason, sizeof(reason), "program %s: %s: %.500s", name, strerror(error), cause);
	free(log);
}

static bool attach(struct bcc *bcc, const char *name, const struct bpf_insn *instructions, size_t count)
{
	struct program *program = &bcc->programs[bcc->program_count];

	snprintf(program->name, sizeof(program->name), "%s", name);
	program->fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, name, "Dual BSD/GPL", instructions, count, NULL);
	if (program->fd < 0) {
		explain_refusal(name, instructions, count, -program->fd);
		return false;
	}
	bcc->program_count++;
	program->link = bpf_raw_tracepoint_open(name, program->fd);
	if (program->link >= 0)
		return true;
	snprintf(reason, sizeof(reason), "tracepoint %s: %s", name, strerror(-program->link));
	return false;
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
		    !attach(bcc, program.name, instructions, program.bytes / sizeof(*instructions)))
			return false;
	}
	return true;
}

static bool compile_and_attach(struct bcc *bcc, const struct options *options, const struct devices *devices,
			       const struct driver_support *support, const char **why)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length), *compiled;
	bool ok;

	if (!file)
		abort();
	configure(file, bcc, options, devices);
	fwrite(bcc_text, bcc_text_end - bcc_text, 1, file);
	fclose(file);
	compiled = compiler_run(options->kernel_headers, text, length, why);
	free(text);
	if (!compiled)
		return false;
	*why = reason;
	ok = attach_all(bcc, compiled, options, devices, support);
	fclose(compiled);
	return ok;
}

/* ---- what probe.c asks for ---- */

static void bcc_close(struct probe *probe)
{
	struct bcc *bcc = bcc_of(probe);

	for (size_t i = 0; i < bcc->program_count; i++) {
		if (bcc->programs[i].link >= 0)
			close(bcc->programs[i].link);
		close(bcc->programs[i].fd);
	}
	perf_log_close(bcc->log);
	for (int i = 0; i < MAP_COUNT; i++)
		if (bcc->maps[i] >= 0)
			close(bcc->maps[i]);
}

static bool open_all(struct bcc *bcc, const struct options *options, const struct devices *devices,
		     const struct driver_support *support, const struct log_reader *reader, const char **why)
{
	*why = reason;
	if (!compiler_has_headers(options->kernel_headers, why))
		return false;
	if (!make_maps(bcc) || !add_calls(bcc) || !add_devices(bcc, devices, support) ||
	    !targets_add(bcc->maps[MAP_pids], bcc->maps[MAP_cgroups], options)) {
		snprintf(reason, sizeof(reason), "BPF maps: %s", strerror(errno));
		if (errno == EPERM)
			strcpy(reason, "not permitted to load BPF programs (needs root)");
		return false;
	}
	bcc->log = perf_log_open(reader, bcc->maps[MAP_events], bcc->maps[MAP_names], bcc->maps[MAP_consumed],
				 bcc->probe.cpus, options->ring_bytes);
	if (!bcc->log) {
		snprintf(reason, sizeof(reason), "buffers for the records: %s", strerror(errno));
		return false;
	}
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

static void bcc_switch(struct probe *probe, bool on, long long now_ns)
{
	struct bcc_switch value = {.on_ns = on ? now_ns : 0};
	__u32 zero = 0;

	bpf_map_update_elem(bcc_of(probe)->maps[MAP_switches], &zero, &value, BPF_ANY);
}

static bool bcc_counters(struct probe *probe, __u32 device, struct iotrace_counters *per_cpu)
{
	return bpf_map_lookup_elem(bcc_of(probe)->maps[MAP_counters], &device, per_cpu) == 0;
}

static unsigned long bcc_consume(struct probe *probe, double *fullness)
{
	return perf_log_consume(bcc_of(probe)->log, fullness);
}

static unsigned long long bcc_names_dropped(struct probe *probe)
{
	struct bcc_cpu *per_cpu = calloc(probe->cpus, sizeof(*per_cpu));
	unsigned long long dropped = perf_log_names_lost(bcc_of(probe)->log);
	__u32 zero = 0;

	if (!per_cpu)
		abort();
	if (bpf_map_lookup_elem(bcc_of(probe)->maps[MAP_cpus], &zero, per_cpu) == 0)
		for (int cpu = 0; cpu < probe->cpus; cpu++)
			dropped += per_cpu[cpu].names_dropped;
	free(per_cpu);
	return dropped;
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
	.consume = bcc_consume,
	.names_dropped = bcc_names_dropped,
	.flights = bcc_flights,
	.programs = bcc_programs,
	.close = bcc_close,
};
