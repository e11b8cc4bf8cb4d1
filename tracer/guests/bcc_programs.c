// SPDX-License-Identifier: Apache-2.0
/*
 * Runs programs of the BCC backend on requests that are made up here, without a kernel of their headers: they read them
 * from this process's memory. Arguments: what strata-bcc-compile wrote, how many requests, and of struct request,
 * request_queue and gendisk, in the order of enum field, where their fields are. Prints what the programs have counted,
 * and how many requests they still know of, which all are over. See test_bcc_programs.py.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bcc/compiled.h"
#include "bcc.h"

#define DISK_BYTES (1 << 16) /* more than each of these structures has */
#define REQUEST_BYTES 1024
#define BYTES 4096
#define MAX_INSTRUCTIONS 4096
#define EARLIER 1000

enum field { QUEUE, RQ_FLAGS, LENGTH, START, IN_DISKSTATS, DISK, MAJOR, FIELDS };

static const struct {
	const char *name;
	enum bpf_map_type type;
	__u32 key_bytes, value_bytes, entries;
} MAPS[] = {
#define MAP_ENTRY(name, type, key, value, entries)                                                                    \
	{#name, BPF_MAP_TYPE_##type, sizeof(key), sizeof(value), entries},
	BCC_MAPS(MAP_ENTRY)};

static int maps[BCC_MAP_COUNT];

static int fail(const char *what)
{
	perror(what);
	exit(1);
}

static int load(const struct compiled_program *program, struct bpf_insn *instructions)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options);
	size_t count = program->bytes / sizeof(*instructions);
	int fd;

	for (size_t i = 0; i < count; i++)
		if (instructions[i].code == (BPF_LD | BPF_IMM | BPF_DW) && instructions[i].src_reg == BPF_PSEUDO_MAP_FD)
			instructions[i].imm = maps[instructions[i].imm];
	fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, program->name, "Dual BSD/GPL", instructions, count, &options);
	return fd < 0 ? fail(program->name) : fd;
}

/* The one that is named; the file is read from its beginning. */
static int load_named(FILE *file, const char *name)
{
	static struct bpf_insn instructions[MAX_INSTRUCTIONS];
	struct compiled_program program;

	rewind(file);
	while (fread(&program, sizeof(program), 1, file) == 1) {
		if (program.bytes > sizeof(instructions) || fread(instructions, program.bytes, 1, file) != 1)
			break;
		if (strcmp(program.name, name) == 0)
			return load(&program, instructions);
	}
	return fail(name);
}

static void run(int program, void *request, __u64 error, __u64 bytes)
{
	__u64 arguments[3] = {(__u64)request, error, bytes};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));

	if (bpf_prog_test_run_opts(program, &options))
		fail("running a program");
}

static void put(char *structure, const char *offset, const void *value, size_t bytes)
{
	memcpy(structure + atoi(offset), value, bytes);
}

static unsigned keys_of(int map)
{
	unsigned count = 0;
	__u64 key;

	while (bpf_map_get_next_key(map, count ? &key : NULL, &key) == 0)
		count++;
	return count;
}

int main(int argc, char **argv)
{
	struct bcc_settings settings = {.on_ns = EARLIER, .modes_wanted = 0xf, .sample_every = 1, .follows = 1};
	int cpus = libbpf_num_possible_cpus(), issue, complete, requests = argc == 3 + FIELDS ? atoi(argv[2]) : 0;
	struct iotrace_counters *counters = calloc(cpus, sizeof(*counters)), sum = {0};
	char *queue = calloc(1, DISK_BYTES), *disk = calloc(1, DISK_BYTES), *all, **at = argv + 3;
	__u32 zero = 0, device = 99U << 20, length = BYTES, major = 99, in_diskstats;
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;

	if (!file || !requests)
		return fail("bcc-programs COMPILED REQUESTS FIELD...");
	for (int i = 0; i < BCC_MAP_COUNT; i++) {
		maps[i] = bpf_map_create(MAPS[i].type, MAPS[i].name, MAPS[i].key_bytes, MAPS[i].value_bytes,
					 MAPS[i].entries, NULL);
		if (maps[i] < 0)
			fail(MAPS[i].name);
	}
	settings.cpu_count = cpus;
	if (bpf_map_update_elem(maps[MAP_settings], &zero, &settings, BPF_ANY))
		fail("settings");
	issue = load_named(file, "block_rq_issue");
	complete = load_named(file, "block_rq_complete");
	in_diskstats = atoi(at[IN_DISKSTATS]);
	put(queue, at[DISK], &disk, sizeof(disk));
	put(disk, at[MAJOR], &major, sizeof(major));
	all = calloc(requests, REQUEST_BYTES);
	for (int i = 0; i < requests; i++) {
		char *request = all + (size_t)i * REQUEST_BYTES;
		__u64 start_ns = EARLIER + 1 + i;

		put(request, at[QUEUE], &queue, sizeof(queue));
		put(request, at[RQ_FLAGS], &in_diskstats, sizeof(in_diskstats));
		put(request, at[LENGTH], &length, sizeof(length));
		put(request, at[START], &start_ns, sizeof(start_ns));
		run(issue, request, 0, 0);
		run(complete, request, 0, BYTES);
	}
	if (bpf_map_lookup_elem(maps[MAP_counters], &device, counters))
		fail("counters");
	for (int cpu = 0; cpu < cpus; cpu++) {
		sum.completions += counters[cpu].completions;
		sum.excluded[IOTRACE_EX_UNTRACKED] += counters[cpu].excluded[IOTRACE_EX_UNTRACKED];
	}
	printf("{\"completions\": %llu, \"untracked\": %llu, \"known\": %u}\n", sum.completions,
	       sum.excluded[IOTRACE_EX_UNTRACKED], keys_of(maps[MAP_requests]));
	return 0;
}
