// SPDX-License-Identifier: Apache-2.0
#include "status.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "json.h"
#include "kernel_types.h"
#include "namespaces.h"
#include "record.h"

static const char *const EXCLUDED_NAMES[IOTRACE_EX_COUNT] = {
	[IOTRACE_EX_IN_FLIGHT_AT_START] = "in_flight_at_start",
	[IOTRACE_EX_FILTERED] = "filtered",
	[IOTRACE_EX_SAMPLED_OUT] = "sampled_out",
	[IOTRACE_EX_PASSTHROUGH] = "passthrough",
	[IOTRACE_EX_UNTRACKED] = "untracked",
	[IOTRACE_EX_COMPLETION_NOT_SEEN] = "completion_not_seen",
	[IOTRACE_EX_NOT_IN_DISKSTATS] = "not_in_diskstats",
};

static void write_strings(FILE *file, const char *name, const char *const *list, size_t count)
{
	fprintf(file, "\"%s\": [", name);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ", " : "", file);
		json_string(file, list[i]);
	}
	fputc(']', file);
}

static void write_filters(FILE *file, const struct trace *trace)
{
	const struct options *options = &trace->options;
	bool first = true;

	fputs("  \"filters\": {\"devices\": [", file);
	for (size_t i = 0; i < trace->devices.count; i++) {
		if (!trace->devices.list[i].chosen)
			continue;
		fputs(first ? "" : ", ", file);
		json_string(file, trace->devices.list[i].name);
		first = false;
	}
	fputs("], ", file);
	write_strings(file, "cgroups", options->cgroups, options->cgroup_count);
	fputs(", \"pids\": [", file);
	for (size_t i = 0; i < options->pid_count; i++)
		fprintf(file, "%s%d", i ? ", " : "", options->pids[i]);
	fputs("], ", file);
	write_strings(file, "comms", options->comms, options->comm_count);
	fputs(", \"modes\": [", file);
	for (int i = 0, any = 0; i < 4; i++)
		if (options->modes & 1U << i)
			fprintf(file, "%s\"%c\"", any++ ? ", " : "", "RWDF"[i]);
	fprintf(file, "], \"min_latency_us\": %ld, \"sample_every\": %u},\n", options->min_latency_us,
		options->sample_every);
}

static void write_diskstats(FILE *file, const char *name, const struct diskstats *stats)
{
	fprintf(file, "     \"%s\": ", name);
	if (!stats->known) {
		fputs("null,\n", file);
		return;
	}
	fprintf(file,
		"{\"reads\": %llu, \"read_sectors\": %llu, \"writes\": %llu, \"written_sectors\": %llu, "
		"\"discards\": %llu, \"discarded_sectors\": %llu, \"flushes\": %llu},\n",
		stats->reads, stats->read_sectors, stats->writes, stats->written_sectors, stats->discards,
		stats->discarded_sectors, stats->flushes);
}

static void write_excluded(FILE *file, const struct device *device, const struct iotrace_counters *counters)
{
	fprintf(file, "     \"excluded\": {\"before_switch_on\": %lld, \"after_switch_off\": %lld",
		(long long)device->before_switch_on, (long long)device->after_switch_off);
	for (int i = 0; i < IOTRACE_EX_COUNT; i++)
		fprintf(file, ", \"%s\": %lld", EXCLUDED_NAMES[i],
			(long long)counters->excluded[i] +
				(i == IOTRACE_EX_COMPLETION_NOT_SEEN ? (long long)device->never_completed : 0));
	fputs("},\n", file);
}

/* Why a layer is not seen, or not whole; NULL = it is. */
static void write_layers(FILE *file, const char *name, const char *vfs, const char *driver)
{
	fprintf(file, "     \"%s\": {", name);
	if (vfs) {
		fputs("\"vfs\": ", file);
		json_string(file, vfs);
	}
	if (driver) {
		fprintf(file, "%s\"driver\": ", vfs ? ", " : "");
		json_string(file, driver);
	}
	fputs("},\n", file);
}

static void write_device(FILE *file, const struct trace *trace, const struct device *device,
			 const struct iotrace_counters *counters)
{
	const char *driver = driver_not_visible(device->tracing, trace->options.tracing);
	bool no_driver = device->tracing == IOTRACE_BLOCK;
	bool stopped = trace->stopped_mono_ns;

	fputs("    {\"device\": ", file);
	json_string(file, device->name);
	fprintf(file, ", \"major\": %u, \"minor\": %u, \"tracing_mode\": \"%s\",\n", device_major(device->id),
		device_minor(device->id), driver_mode_name(device->tracing));
	write_layers(file, "layers_missing", trace->options.no_vfs ? "left out (--no-vfs)" : NULL,
		     no_driver ? driver : NULL);
	write_layers(file, "layers_partial", NULL, no_driver ? NULL : driver);
	if (trace->options.backend == BACKEND_BCC)
		fputs("     \"throttled\": null,\n", file);
	else
		fprintf(file, "     \"throttled\": %llu,\n", (unsigned long long)device->throttled);
	fprintf(file, "     \"completions\": %llu, \"emitted\": %llu, \"dropped\": %llu,\n",
		(unsigned long long)counters->completions, (unsigned long long)(device->emitted - device->lost),
		(unsigned long long)(counters->dropped + device->lost));
	write_excluded(file, device, counters);
	write_diskstats(file, "diskstats_before", &device->before);
	write_diskstats(file, "diskstats_after", &device->after);
	if (stopped)
		fprintf(file, "     \"diskstats_settled\": %s}",
			device->before_settled && device->after_settled ? "true" : "false");
	else
		fputs("     \"diskstats_settled\": null}", file);
}

/* A disk that nobody named and that did nothing is not worth a line. */
static bool is_worth_listing(const struct device *device, const struct iotrace_counters *counters)
{
	struct iotrace_counters none = {.idle = counters->idle};

	return device->chosen || memcmp(counters, &none, sizeof(none)) != 0 || device->never_completed ||
	       device->before_switch_on || device->after_switch_off;
}

static void write_devices(FILE *file, const struct trace *trace)
{
	struct iotrace_counters total = {0}, counters;
	unsigned long long emitted = 0;
	bool first = true;

	fputs("  \"devices\": [", file);
	for (size_t i = 0; i < trace->devices.count; i++) {
		const struct device *device = &trace->devices.list[i];

		probe_counters(trace->probe, device->id, &counters);
		if (!is_worth_listing(device, &counters))
			continue;
		fputs(first ? "\n" : ",\n", file);
		first = false;
		write_device(file, trace, device, &counters);
		total.completions += counters.completions;
		emitted += device->emitted - device->lost;
		total.dropped += counters.dropped + device->lost;
	}
	fputs("],\n", file);
	fprintf(file, "  \"completions\": %llu, \"emitted\": %llu, \"dropped\": %llu\n",
		(unsigned long long)total.completions, emitted,
		(unsigned long long)total.dropped);
}

struct program_list {
	FILE *file;
	bool first, with_misses;
};

static void write_program(void *context, const char *name, unsigned long long misses)
{
	struct program_list *list = context;

	fputs(list->first ? "" : ", ", list->file);
	list->first = false;
	json_string(list->file, name);
	if (list->with_misses)
		fprintf(list->file, ": %llu", misses);
}

static void write_programs(FILE *file, struct probe *probe)
{
	struct program_list list = {.file = file, .first = true};

	fputs("  \"probes\": [", file);
	probe_programs(probe, write_program, &list);
	fputs("],\n  \"program_misses\": {", file);
	list = (struct program_list){.file = file, .first = true, .with_misses = true};
	probe_programs(probe, write_program, &list);
	fputs("},\n", file);
}

static void write_histogram(FILE *file, const char *name, const struct iotrace_vfs *vfs)
{
	bool first = true;

	fprintf(file, "\"%s\": {\"calls\": %llu, \"sum_ns\": %llu, \"log2_ns\": {", name,
		(unsigned long long)vfs->calls, (unsigned long long)vfs->sum_ns);
	for (int i = 0; i < IOTRACE_VFS_BUCKETS; i++) {
		if (!vfs->buckets[i])
			continue;
		fprintf(file, "%s\"%d\": %llu", first ? "" : ", ", i, (unsigned long long)vfs->buckets[i]);
		first = false;
	}
	fputs("}}", file);
}

static void write_vfs(FILE *file, const struct trace *trace)
{
	static const char *const NAMES[IOTRACE_VFS_CLASSES] = {"read", "write", "sync"};
	struct iotrace_vfs_table table;

	if (!trace->options.vfs)
		return;
	probe_vfs(trace->probe, &table);
	fputs("  \"vfs\": {", file);
	for (int i = 0; i < IOTRACE_VFS_CLASSES; i++) {
		__u64 cached = table.cell[i][1].calls, all = cached + table.cell[i][0].calls;

		fprintf(file, "%s\n    \"%s\": {\"hit_ratio\": ", i ? "," : "", NAMES[i]);
		if (all)
			fprintf(file, "%.6f, ", (double)cached / all);
		else
			fputs("null, ", file);
		write_histogram(file, "cached", &table.cell[i][1]);
		fputs(", ", file);
		write_histogram(file, "with_io", &table.cell[i][0]);
		fputc('}', file);
	}
	fprintf(file, "},\n  \"returns\": {\"returned\": %llu, \"emitted\": %llu, \"dropped\": %llu},\n",
		(unsigned long long)table.returns, trace->output.returns - trace->output.returns_lost,
		(unsigned long long)table.returns_dropped + trace->output.returns_lost);
}

static void write_spans(FILE *file, const struct trace *trace)
{
	unsigned long long not_counted, samples;

	if (!trace->options.spans)
		return;
	probe_spans_lost(trace->probe, &not_counted, &samples);
	fprintf(file, "  \"spans\": {\"sample_every\": %u, \"samples_dropped\": %llu, \"not_counted\": %llu},\n",
		trace->options.span_sample_every, samples, not_counted);
}

static void write_limits(FILE *file, const struct trace *trace)
{
	const char *limits[6];
	size_t count = 0;
	char full[80];

	if (!kernel_shows_addresses())
		limits[count++] = "the files of O_DIRECT requests are not known: /proc/kallsyms hides addresses (CAP_SYSLOG)";
	if (!trace->support.modules)
		limits[count++] = "no driver layer where the driver is a module: its types are hidden (CAP_SYS_ADMIN)";
	if (trace->support.hides_throttling)
		limits[count++] = "neither task nor block layer of what a cgroup's limit holds back (io.max): no function may be attached to";
	if (!trace->turn.may_go_first)
		limits[count++] = "with more threads than CPUs records may be dropped: no priority for reading them (CAP_SYS_NICE)";
	if (!namespaces_share_pids())
		limits[count++] = "process numbers are the machine's, not those of this container";
	if (!trace->options.device_count && probe_is_full(trace->probe)) {
		snprintf(full, sizeof(full), "room for %u disks is used up: those that come are not traced (--device)",
			 IOTRACE_DEVICE_SLOTS);
		limits[count++] = full;
	}
	fputs("  ", file);
	write_strings(file, "limits", limits, count);
	fputs(",\n", file);
}

static void write_instant(FILE *file, const struct trace *trace, const char *name, long long mono_ns)
{
	if (mono_ns)
		fprintf(file, "  \"%s_unix_ns\": %lld, \"%s_mono_ns\": %lld,\n", name,
			clock_to_unix(&trace->anchor, mono_ns), name, mono_ns);
	else
		fprintf(file, "  \"%s_unix_ns\": null, \"%s_mono_ns\": null,\n", name, name);
}

char *status_text(const struct trace *trace, size_t *length)
{
	const char *state = trace->reason ? "failed" : trace->stopped_mono_ns ? "stopped" : "running";
	struct utsname system;
	char *text = NULL;
	FILE *file = open_memstream(&text, length);

	if (!file)
		abort();
	uname(&system);
	fprintf(file, "{\n  \"schema_version\": 1, \"tracer_version\": \"" TRACER_VERSION "\", \"kernel\": ");
	json_string(file, system.release);
	fprintf(file, ",\n  \"backend\": \"%s\"", probe_backend(&trace->options));
	fprintf(file, ",\n  \"state\": \"%s\", \"reason\": ", state);
	json_string(file, trace->reason ? trace->reason : "");
	fputs(",\n", file);
	write_instant(file, trace, "started", trace->started_mono_ns);
	write_instant(file, trace, "stopped", trace->stopped_mono_ns);
	write_filters(file, trace);
	write_limits(file, trace);
	write_vfs(file, trace);
	write_spans(file, trace);
	write_programs(file, trace->probe);
	fprintf(file, "  \"rotation\": {\"older_files\": %lu, \"deleted_files\": %lu, \"deleted_records\": %llu},\n",
		trace->older.files, trace->older.deleted, trace->older.deleted_records);
	fprintf(file, "  \"names_dropped\": %llu,\n", probe_names_dropped(trace->probe));
	fprintf(file, "  \"layers_negative\": %llu,\n", records_negative());
	write_devices(file, trace);
	fputs("}\n", file);
	fclose(file);
	return text;
}

bool status_write(struct trace *trace, const char *text, size_t length)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s.json", trace->options.output);
	return output_replace(&trace->output, path, text, length);
}

static bool any_driver_layer(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing != IOTRACE_BLOCK)
			return true;
	return false;
}

void status_print_check(const struct options *options, const struct devices *devices, const char *why_not)
{
	static const char *const LAYERS[] = {"vfs", "block", "device", "driver"};
	int visible = why_not ? 0 : any_driver_layer(devices) ? 4 : 3;

	printf("{\"can_trace\": %s, \"backend\": \"%s\", \"reason\": ", why_not ? "false" : "true",
	       probe_backend(options));
	json_string(stdout, why_not ? why_not : "");
	printf(", ");
	write_strings(stdout, "layers", LAYERS, visible);
	printf(", \"layers_missing\": {");
	for (int i = visible; i < 4; i++) {
		printf("%s\"%s\": ", i > visible ? ", " : "", LAYERS[i]);
		json_string(stdout, why_not ? why_not : driver_not_visible(IOTRACE_BLOCK, options->tracing));
	}
	printf("}, \"tracing_modes\": {");
	for (size_t i = 0; !why_not && i < devices->count; i++) {
		fputs(i ? ", " : "", stdout);
		json_string(stdout, devices->list[i].name);
		printf(": \"%s\"", driver_mode_name(devices->list[i].tracing));
	}
	printf("}}\n");
}
