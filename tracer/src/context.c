// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <string.h>

#include "fine.h"
#include "say.h"

/* ---- what the kernel says under /proc ---- */

/* Where a number stands: behind `key` at the start of a line, the `field`th from there (0-based). */
static const struct source {
	enum context_part part;
	const char *column, *path, *key;
	int field;
	const char *field_key; /* the number behind this, "total=" */
	bool grows;	       /* a count since boot: the line tells the difference */
	const char *older_key; /* NULL = it always was called `key` */
} SOURCES[SYSTEM_COUNTERS] = {
	{CONTEXT_MEMORY, "dirty_pages", "/proc/vmstat", "nr_dirty ", 0, NULL, false, NULL},
	{CONTEXT_MEMORY, "writeback_pages", "/proc/vmstat", "nr_writeback ", 0, NULL, false, NULL},
	{CONTEXT_MEMORY, "major_faults", "/proc/vmstat", "pgmajfault ", 0, NULL, true, NULL},
	{CONTEXT_MEMORY, "refaulted_file_pages", "/proc/vmstat", "workingset_refault_file ", 0, NULL, true,
	 "workingset_refault "}, /* before 5.9, when there was no other */
	{CONTEXT_CPU_TICKS, "cpu_steal_ticks", "/proc/stat", "cpu ", 7, NULL, true, NULL},
	{CONTEXT_CPU_TICKS, "cpu_iowait_ticks", "/proc/stat", "cpu ", 4, NULL, true, NULL},
	{CONTEXT_PRESSURE, "pressure_cpu_some_us", "/proc/pressure/cpu", "some ", 0, "total=", true, NULL},
	{CONTEXT_PRESSURE, "pressure_io_some_us", "/proc/pressure/io", "some ", 0, "total=", true, NULL},
	{CONTEXT_PRESSURE, "pressure_io_full_us", "/proc/pressure/io", "full ", 0, "total=", true, NULL},
	{CONTEXT_PRESSURE, "pressure_memory_some_us", "/proc/pressure/memory", "some ", 0, "total=", true, NULL},
	{CONTEXT_PRESSURE, "pressure_memory_full_us", "/proc/pressure/memory", "full ", 0, "total=", true, NULL},
};

/* NULL: the line begins with another word. */
static const char *behind(const char *key, const char *line)
{
	return key && strncmp(line, key, strlen(key)) == 0 ? line + strlen(key) : NULL;
}

/* -1: it is not in this line. */
static long long number_in(const struct source *source, const char *line)
{
	const char *at = behind(source->key, line);
	long long value;

	if (!at)
		at = behind(source->older_key, line);
	if (at && source->field_key) {
		at = strstr(at, source->field_key);
		at = at ? at + strlen(source->field_key) : NULL;
	}
	if (!at)
		return -1;
	for (int i = 0; i < source->field; i++) {
		at += strspn(at, " ");
		at += strcspn(at, " ");
	}
	return sscanf(at, "%lld", &value) == 1 ? value : -1;
}

static long long read_source(const struct source *source)
{
	FILE *file = fopen(source->path, "re");
	long long value = -1;
	char line[512];

	if (!file)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), file))
		value = number_in(source, line);
	fclose(file);
	return value;
}

static bool is_left_out(const struct context_file *context, enum context_part part)
{
	return context->without & 1U << part;
}

static void read_sources(const struct context_file *context, struct context_sample *sample)
{
	for (int i = 0; i < SYSTEM_COUNTERS; i++)
		sample->counters[i] = is_left_out(context, SOURCES[i].part) ? -1 : read_source(&SOURCES[i]);
}

/* A column; empty when nobody counts it. */
static void write_growth(FILE *file, bool known, __u64 now, __u64 before)
{
	fputc(',', file);
	if (known)
		fprintf(file, "%llu", (unsigned long long)(now - before));
}

static void write_fine(FILE *file, bool known, const struct iotrace_fine *now, const struct iotrace_fine *before)
{
	write_growth(file, known, now->count, before->count);
	fine_write(file, now, before);
}

static void write_programs(const struct context_file *context, const struct context_sample *now)
{
	const struct iotrace_vfs *reads = now->calls.cell[IOTRACE_VFS_READ];
	const struct iotrace_vfs *reads_before = context->last.calls.cell[IOTRACE_VFS_READ];
	const struct iotrace_context *kernel = &now->kernel, *before = &context->last.kernel;
	bool tcp = !is_left_out(context, CONTEXT_TCP);
	FILE *file = context->csv.file;

	write_fine(file, !is_left_out(context, CONTEXT_RUN_QUEUE), &kernel->run_queue_ns, &before->run_queue_ns);
	write_fine(file, tcp, &kernel->tcp_rtt_us, &before->tcp_rtt_us);
	write_growth(file, tcp, kernel->tcp_retransmits, before->tcp_retransmits);
	write_growth(file, !is_left_out(context, CONTEXT_PAGE_CACHE), kernel->page_cache_added,
		     before->page_cache_added);
	write_growth(file, context->has_calls, reads[true].calls, reads_before[true].calls);
	write_growth(file, context->has_calls, reads[false].calls, reads_before[false].calls);
}

/* ---- the file ---- */

int context_open(struct context_file *context, const struct options *options)
{
	*context = (struct context_file){.without = options->without, .has_calls = options->vfs};
	return options->context ? csv_open(&context->csv, "context", options->context, options) : EXIT_OK;
}

static void write_columns(FILE *file)
{
	fputs("t_unix_ns,t_mono_ns,interval_ns,run_queue_waits,run_queue_mean_ns,run_queue_p50_ns,run_queue_p99_ns,"
	      "tcp_rtt_samples,tcp_rtt_mean_us,tcp_rtt_p50_us,tcp_rtt_p99_us,tcp_retransmits,page_cache_folios_added,"
	      "cached_reads,reads_with_io",
	      file);
	for (int i = 0; i < SYSTEM_COUNTERS; i++)
		fprintf(file, ",%s", SOURCES[i].column);
	fputc('\n', file);
}

int context_write_columns(struct context_file *context)
{
	return csv_begin(&context->csv, write_columns);
}

void context_begin(struct context_file *context, long long mono_ns)
{
	context->last = (struct context_sample){.mono_ns = mono_ns};
	read_sources(context, &context->last);
}

static void write_counter(FILE *file, const struct source *source, long long now, long long before)
{
	fputc(',', file);
	if (now >= 0 && (!source->grows || before >= 0))
		fprintf(file, "%lld", source->grows ? now - before : now);
}

bool context_step(struct context_file *context, const struct iotrace_context *kernel,
		  const struct iotrace_vfs_table *calls, const struct anchor *anchor, long long mono_ns)
{
	const struct context_sample *last = &context->last;
	struct context_sample now = {.mono_ns = mono_ns, .kernel = *kernel, .calls = *calls};
	FILE *file = context->csv.file;

	read_sources(context, &now);
	fprintf(file, "%lld,%lld,%lld", clock_to_unix(anchor, now.mono_ns), now.mono_ns, now.mono_ns - last->mono_ns);
	write_programs(context, &now);
	for (int i = 0; i < SYSTEM_COUNTERS; i++)
		write_counter(file, &SOURCES[i], now.counters[i], last->counters[i]);
	fputc('\n', file);
	context->last = now;
	return csv_flush(&context->csv);
}

void context_close(struct context_file *context)
{
	csv_close(&context->csv);
}
