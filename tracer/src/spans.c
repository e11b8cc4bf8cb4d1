// SPDX-License-Identifier: Apache-2.0
#include "spans.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fine.h"
#include "say.h"

static const char *const PARTS[IOTRACE_SPAN_PARTS] = {
	[IOTRACE_SPAN_COMPUTE] = "compute", [IOTRACE_SPAN_VFS] = "vfs",		  [IOTRACE_SPAN_IO] = "io",
	[IOTRACE_SPAN_LOCKED] = "lock",	    [IOTRACE_SPAN_RUN_QUEUE] = "run_queue", [IOTRACE_SPAN_OTHER] = "other",
};

int spans_open(struct spans_file *spans, const struct options *options)
{
	char samples[PATH_MAX];
	int code;

	*spans = (struct spans_file){0};
	if (!options->spans)
		return EXIT_OK;
	snprintf(samples, sizeof(samples), "%s.samples", options->spans);
	spans->known = calloc(IOTRACE_SPAN_PROCESSES, sizeof(*spans->known));
	if (!spans->known)
		abort();
	code = csv_open(&spans->processes, "spans", options->spans, options);
	return code == EXIT_OK ? csv_open(&spans->samples, "spans", samples, options) : code;
}

static void write_process_columns(FILE *file)
{
	fputs("t_unix_ns,t_mono_ns,interval_ns,pid,comm,spans,handed_over,interleaved,switch_not_seen,"
	      "total_mean_ns,total_p50_ns,total_p99_ns",
	      file);
	for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
		fprintf(file, ",%s_mean_ns,%s_p50_ns,%s_p99_ns", PARTS[i], PARTS[i], PARTS[i]);
	fputc('\n', file);
}

static void write_sample_columns(FILE *file)
{
	fputs("t_unix_ns,t_mono_ns,pid,tid,comm,socket_inode,total_ns", file);
	for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
		fprintf(file, ",%s_ns", PARTS[i]);
	fputc('\n', file);
}

int spans_write_columns(struct spans_file *spans)
{
	int code = csv_begin(&spans->processes, write_process_columns);

	return code == EXIT_OK ? csv_begin(&spans->samples, write_sample_columns) : code;
}

void spans_begin(struct spans_file *spans, long long mono_ns)
{
	spans->last_mono_ns = mono_ns;
}

/* Empty when the process is gone. */
static void write_name(FILE *file, __u32 pid)
{
	char path[64], name[64] = "";
	size_t length = 0;
	FILE *comm;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	comm = fopen(path, "re");
	if (comm) {
		length = fread(name, 1, sizeof(name) - 1, comm);
		fclose(comm);
	}
	name[length ? length - 1 : 0] = 0; /* without the newline behind it */
	fputc(',', file);
	if (name[0])
		csv_text(file, name);
}

static struct known_process *find(struct spans_file *spans, __u32 pid)
{
	for (size_t i = 0; i < spans->count; i++)
		if (spans->known[i].pid == pid)
			return &spans->known[i];
	if (spans->count == IOTRACE_SPAN_PROCESSES)
		return NULL; /* the kernel keeps no more, either */
	spans->known[spans->count] = (struct known_process){.pid = pid};
	return &spans->known[spans->count++];
}

void spans_process(struct spans_file *spans, __u32 pid, const struct iotrace_process *now, const struct anchor *anchor,
		   long long mono_ns)
{
	struct known_process *known = find(spans, pid);
	const struct iotrace_process *before;
	FILE *file = spans->processes.file;

	if (!known)
		return;
	before = &known->counted;
	if (memcmp(now, before, sizeof(*now)) == 0)
		return; /* it answered nothing */
	fprintf(file, "%lld,%lld,%lld,%u", clock_to_unix(anchor, mono_ns), mono_ns, mono_ns - spans->last_mono_ns, pid);
	write_name(file, pid);
	fprintf(file, ",%llu,%llu,%llu,%llu", (unsigned long long)(now->total_ns.count - before->total_ns.count),
		(unsigned long long)(now->handed_over - before->handed_over),
		(unsigned long long)(now->interleaved - before->interleaved),
		(unsigned long long)(now->switch_not_seen - before->switch_not_seen));
	fine_write(file, &now->total_ns, &before->total_ns);
	for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
		fine_write(file, &now->parts_ns[i], &before->parts_ns[i]);
	fputc('\n', file);
	known->counted = *now;
}

void spans_sample(struct spans_file *spans, const struct iotrace_span *span, const struct anchor *anchor)
{
	char comm[IOTRACE_COMM_BYTES + 1] = "";
	unsigned long long total = 0;
	FILE *file = spans->samples.file;

	for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
		total += span->parts[i];
	memcpy(comm, span->comm, IOTRACE_COMM_BYTES);
	fprintf(file, "%lld,%llu,%u,%u", clock_to_unix(anchor, span->begin_ns), (unsigned long long)span->begin_ns,
		span->pid, span->tid);
	fputc(',', file);
	csv_text(file, comm);
	fprintf(file, ",%llu,%llu", (unsigned long long)span->socket, total);
	for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
		fprintf(file, ",%llu", (unsigned long long)span->parts[i]);
	fputc('\n', file);
}

void spans_forget(struct spans_file *spans, __u32 pid)
{
	struct known_process *known = find(spans, pid);

	if (known)
		*known = spans->known[--spans->count];
}

bool spans_end(struct spans_file *spans, long long mono_ns)
{
	spans->last_mono_ns = mono_ns;
	return csv_flush(&spans->processes) && csv_flush(&spans->samples);
}

void spans_close(struct spans_file *spans)
{
	csv_close(&spans->processes);
	csv_close(&spans->samples);
	free(spans->known);
	*spans = (struct spans_file){0};
}
