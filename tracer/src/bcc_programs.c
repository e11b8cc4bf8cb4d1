// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "bcc_programs.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bcc/compiled.h"
#include "backend.h"
#include "bcc.h"
#include "kernel_types.h"

#define MAX_INSTRUCTIONS 4096 /* what Linux 4.18 takes */

static char reason[1024];

/* `what` has failed with errno. */
static bool failed(const char *what)
{
	snprintf(reason, sizeof(reason), "%s", backend_failure(what));
	return false;
}

bool bcc_uses_irqs(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing == IOTRACE_IRQ)
			return true;
	return false;
}

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
		return bcc_uses_irqs(devices);
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

static void insert_maps(const int *maps, struct bpf_insn *instructions, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (instructions[i].code == (BPF_LD | BPF_IMM | BPF_DW) &&
		    instructions[i].src_reg == BPF_PSEUDO_MAP_FD && (__u32)instructions[i].imm < BCC_MAP_COUNT)
			instructions[i].imm = maps[instructions[i].imm];
}

static bool attach(struct bcc_programs *programs, const struct compiled_program *compiled,
		   struct bpf_insn *instructions, const int *maps)
{
	struct bcc_program *program = &programs->list[programs->count];
	const char *name = compiled->name;

	insert_maps(maps, instructions, compiled->bytes / sizeof(*instructions));
	snprintf(program->name, sizeof(program->name), "%s", name);
	program->fd = load(compiled, instructions, NULL);
	if (program->fd < 0)
		return errno == EPERM ? failed(name) : explain_refusal(compiled, instructions);
	programs->count++;
	program->link = is_kprobe(name) ? -1 : bpf_raw_tracepoint_open(tracepoint_of(name), program->fd);
	return program->link >= 0 || is_kprobe(name) || failed(name);
}

static int descriptor_of(const struct bcc_programs *programs, const char *name)
{
	for (size_t i = 0; i < programs->count; i++)
		if (strcmp(programs->list[i].name, name) == 0)
			return programs->list[i].fd;
	return -1;
}

static bool attach_kprobes(struct bcc_programs *programs, const struct devices *devices)
{
	const struct kprobe_programs of_kprobes = {
		.queue_rq = descriptor_of(programs, "kprobe_queue_rq"),
		.queue_rqs = descriptor_of(programs, "kprobe_queue_rqs"),
		.complete = descriptor_of(programs, "kprobe_complete"),
	};

	return kprobes_attach(&programs->kprobes, devices, &of_kprobes) || failed("kprobes");
}

bool bcc_programs_attach(struct bcc_programs *programs, FILE *compiled, const int *maps, const struct options *options,
			 const struct devices *devices, const struct driver_support *support, const char **why)
{
	static struct bpf_insn instructions[MAX_INSTRUCTIONS];
	struct compiled_program program;

	*why = reason;
	while (fread(&program, sizeof(program), 1, compiled) == 1) {
		program.name[sizeof(program.name) - 1] = 0;
		if (program.bytes > sizeof(instructions) || programs->count == BCC_MAX_PROGRAMS ||
		    fread(instructions, program.bytes, 1, compiled) != 1) {
			snprintf(reason, sizeof(reason), "program %s: larger than it may be", program.name);
			return false;
		}
		if (is_wanted(program.name, options, devices, support) && !attach(programs, &program, instructions, maps))
			return false;
	}
	snprintf(reason, sizeof(reason), "libbcc made no programs");
	return programs->count && attach_kprobes(programs, devices);
}

void bcc_programs_close(struct bcc_programs *programs)
{
	kprobes_close(&programs->kprobes);
	for (size_t i = 0; i < programs->count; i++) {
		if (programs->list[i].link >= 0)
			close(programs->list[i].link);
		close(programs->list[i].fd);
	}
}
