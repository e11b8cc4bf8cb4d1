// SPDX-License-Identifier: Apache-2.0
/*
 * strata-iotrace: the main path. Open the output, load the probes, read the disks' counters, switch on,
 * move records until told to stop, switch off, read the counters again, say what happened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "namespaces.h"
#include "places.h"
#include "record.h"
#include "say.h"
#include "status.h"
#include "targets.h"
#include "tell.h"
#include "trace.h"
#include "window.h"

#define PAUSE_NS 10000000LL
#define SHORT_PAUSE_NS 1000000LL /* while a log is more than a quarter full */
#define LONG_PAUSE_NS 50000000LL /* while all are next to empty: waking up costs more than the few events then */
#define ROOM_FOR_LONG_PAUSE 16384 /* events of a CPU; so many may come within a long pause: 330,000 a second */
#define SECOND_NS 1000000000LL

static void handle_return(struct trace *trace, const struct iotrace_return *event)
{
	struct return_record record;

	return_record_fill(&record, event);
	record.task = catalog_task(&trace->catalog, &event->task);
	output_append_return(&trace->output, &record);
}

static void handle_event(void *context, const struct iotrace_event *event)
{
	struct trace *trace = context;
	struct record record;

	if (event->mode == IOTRACE_RETURN) {
		handle_return(trace, (const struct iotrace_return *)event);
		return;
	}
	record_fill(&record, event);
	record.device = catalog_device(&trace->catalog, event->device);
	record.task = event->flags & IOTRACE_OWNED ? catalog_task(&trace->catalog, &event->task) : 0;
	record.file = catalog_file(&trace->catalog, event->file);
	trace->devices.list[record.device].emitted++;
	trace->devices.list[record.device].throttled += !!(event->flags & IOTRACE_THROTTLED);
	output_append(&trace->output, &record);
}

static void handle_name(void *context, const struct iotrace_name *name)
{
	struct trace *trace = context;

	catalog_name(&trace->catalog, name);
}

/* False: a disk that was named does not have the mode that was asked for. */
static bool choose_modes(const struct options *options, struct devices *devices, const struct driver_support *support)
{
	for (size_t i = 0; i < devices->count; i++) {
		struct device *device = &devices->list[i];

		device->tracing = driver_mode(support, device->name);
		if (!device->chosen || options->tracing == ANY_TRACING || (int)device->tracing == options->tracing)
			continue;
		complain("leave it out: the best mode of the disk is chosen then", "this disk or kernel does not have it",
			 "--device %s --tracing %s", device->name, driver_mode_name(options->tracing));
		return false;
	}
	return true;
}

/* Lines about the time since the last ones. */
static bool step_beside(struct trace *trace)
{
	const struct claim *failed = beside_step(&trace->beside, trace->probe, &trace->anchor);

	trace->failed_beside_why = errno;
	trace->failed_beside = failed;
	return !failed;
}

static void tell_ready(int fd)
{
	if (fd < 0)
		return;
	if (write(fd, "ready\n", 6) != 6)
		complain("nobody waits; tracing goes on", strerror(errno), "--ready-fd %d", fd);
	if (fd != STDERR_FILENO)
		close(fd);
}

/* `fullness`: of the fullest log before it was read. */
static long long pause_ns(const struct probe *probe, double fullness)
{
	if (fullness > 0.25)
		return SHORT_PAUSE_NS;
	return fullness > 0.02 || probe_room(probe) < ROOM_FOR_LONG_PAUSE ? PAUSE_NS : LONG_PAUSE_NS;
}

/* Once a second: the status of when it was put, and what stands beside it. Writing both may have to wait for a disk. */
struct second {
	struct job job;
	struct trace *trace;
	char *status;
	size_t length;
};

static void do_second(struct job *job)
{
	struct second *second = (struct second *)job;
	struct trace *trace = second->trace;

	if (!trace->output.error && !trace->failed_beside && status_write(trace, second->status, second->length) &&
	    step_beside(trace))
		trace->short_of_space = claim_is_short_of_space(&trace->output.claim, &trace->options) ?
						&trace->output.claim :
						beside_short_of_space(&trace->beside, &trace->options);
	free(second->status);
	free(second);
	trace->is_in_second = false;
}

static void put_second(struct trace *trace)
{
	struct second *second;

	output_flush(&trace->output);
	if (trace->is_in_second)
		return;
	second = malloc(sizeof(*second));
	if (!second)
		abort();
	*second = (struct second){.job = {.run = do_second}, .trace = trace};
	second->status = status_text(trace, &second->length);
	trace->is_in_second = true;
	writer_put(&trace->output.writer, &second->job);
}

static void fail(struct trace *trace, const char *reason, const char *place)
{
	trace->reason = reason;
	trace->place = place;
}

/* Until a signal, the end of the duration, or an almost full disk. */
static void run(struct trace *trace, const sigset_t *signals)
{
	double fullness = 0;
	long long duration_ns = trace->options.duration_s * 1e9;
	long long next_second = trace->started_mono_ns + SECOND_NS;

	if (duration_ns)
		claims_end_at(trace->started_mono_ns + duration_ns);

	while (!trace->output.error && !trace->failed_beside && !trace->short_of_space &&
	       turn_await(&trace->turn, signals, pause_ns(trace->probe, fullness))) {
		long long now = clock_now(CLOCK_MONOTONIC);

		probe_consume(trace->probe, &fullness);
		if (!rotation_step(&trace->older, &trace->options, &trace->output, &trace->catalog, &trace->anchor,
				   trace->started_mono_ns))
			return;
		if (duration_ns && now - trace->started_mono_ns >= duration_ns)
			return;
		if (now < next_second)
			continue;
		next_second = now + SECOND_NS;
		put_second(trace);
	}
	if (trace->short_of_space)
		fail(trace, "the file system is almost full (--min-free-bytes)", trace->short_of_space->path);
}

static bool write_status_now(struct trace *trace)
{
	size_t length;
	char *text = status_text(trace, &length);
	bool ok = status_write(trace, text, length);

	free(text);
	return ok;
}

static int finish(struct trace *trace)
{
	const struct claim *lost;
	double fullness;

	window_stop(trace);
	claims_end_at(trace->stopped_mono_ns);
	writer_wait(&trace->output.writer);
	/* The last lines, when nothing moves any more: a span is then in the counts and among the samples. */
	if (!trace->output.error && !trace->failed_beside)
		step_beside(trace);
	window_close(trace);
	while (probe_consume(trace->probe, &fullness) > 0 || fullness > 0)
		;
	output_settle(&trace->output);
	output_release_reserve(&trace->output);
	lost = places_lost(trace);
	if (trace->output.error)
		fail(trace, strerror(trace->output.error), trace->output.failed);
	else if (trace->failed_beside)
		fail(trace, claim_why(trace->failed_beside_why), trace->failed_beside->path);
	else if (lost && !trace->reason)
		fail(trace, "somebody has moved or removed it", lost->path);
	if (!write_status_now(trace) && !trace->reason)
		fail(trace, strerror(trace->output.error), trace->output.failed);
	if (!trace->reason) {
		tell_ended(trace);
		return EXIT_OK;
	}
	complain("make room or name another place; what was written is whole", trace->reason, "writing %s",
		 trace->place);
	return EXIT_OUTPUT;
}

static int trace_run(struct trace *trace, const sigset_t *signals)
{
	const struct log_reader reader = {handle_event, handle_name, trace};
	const char *why = NULL;
	int code;

	catalog_open(&trace->catalog, &trace->output);
	trace->probe = probe_open(&trace->options, &trace->devices, &trace->support, &reader, &why);
	if (!trace->probe) {
		complain("strata-iotrace --check tells more", why, "cannot trace here");
		return EXIT_CANNOT_TRACE;
	}
	code = output_begin(&trace->output);
	if (code == EXIT_OK)
		code = beside_write_columns(&trace->beside);
	if (code != EXIT_OK)
		return code;
	turn_begin(&trace->turn, trace->output.writer.tid);
	trace->anchor = clock_anchor();
	window_open(trace);
	beside_begin(&trace->beside, trace->started_mono_ns);
	output_write_header(&trace->output, &trace->anchor, trace->started_mono_ns);
	output_settle(&trace->output);
	if (!trace->output.error && write_status_now(trace)) {
		tell_ready(trace->options.ready_fd);
		tell_begun(trace);
		run(trace, signals);
	}
	return finish(trace);
}

/* An answer that nobody got is no answer. */
static int finish_answer(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	complain("give it a standard output that can be written", strerror(errno), "writing the answer");
	return EXIT_OUTPUT;
}

static int check(const struct options *options)
{
	const struct log_reader reader = {0};
	struct driver_support support;
	struct devices devices = {0};
	const char *why = NULL;
	struct probe *probe;

	driver_probe(&support, options);
	devices_add_all(&devices);
	choose_modes(options, &devices, &support);
	probe = probe_open(options, &devices, &support, &reader, &why);
	status_print_check(options, &devices, probe ? NULL : why);
	devices_free(&devices);
	probe_close(probe);
	return finish_answer(probe ? EXIT_OK : EXIT_CANNOT_TRACE);
}

/* Says what is wrong with the filters before anything is loaded or written. */
static int resolve_filters(struct trace *trace)
{
	const struct options *options = &trace->options;
	const char *why;

	if (options->pid_count && !namespaces_share_pids()) {
		complain("start it with the machine's process numbers, or choose by --cgroup or --comm",
			 "in this container processes have numbers of their own", "--pid %d", options->pids[0]);
		return EXIT_USAGE;
	}
	if (options->spans && !namespaces_share_pids()) {
		complain("start it with the machine's process numbers", "in this container processes have numbers of their own",
			 "--spans %s", options->spans);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < options->device_count; i++) {
		int code = devices_add(&trace->devices, options->devices[i]);

		if (code != EXIT_OK)
			return code;
	}
	if (!options->device_count)
		devices_add_all(&trace->devices);
	for (size_t i = 0; i < options->cgroup_count; i++) {
		if (targets_accepts_cgroup(options->cgroups[i], &why))
			continue;
		complain("name a directory below the cgroup2 mount", why, "--cgroup %s", options->cgroups[i]);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int trace_all(struct trace *trace, const sigset_t *signals)
{
	int code = resolve_filters(trace);

	if (code != EXIT_OK)
		return code;
	driver_probe(&trace->support, &trace->options);
	if (!choose_modes(&trace->options, &trace->devices, &trace->support))
		return EXIT_CANNOT_TRACE;
	code = output_open(&trace->output, &trace->options, &trace->devices);
	if (code == EXIT_OK)
		code = beside_open(&trace->beside, &trace->options);
	if (code == EXIT_OK)
		code = places_check(trace);
	if (code == EXIT_OK)
		code = trace_run(trace, signals);
	output_close(&trace->output);
	beside_close(&trace->beside);
	return code;
}

/* By nohup. A blocked signal comes even then. */
static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Who starts it with a closed standard error would have its messages in the file that gets this number: the trace. */
static void open_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct trace trace = {0};
	sigset_t signals;
	int code = options_parse(&trace.options, argc, argv);

	if (code != EXIT_OK)
		return code;
	if (trace.options.help) {
		options_print_help();
		return finish_answer(EXIT_OK);
	}
	if (trace.options.version) {
		puts("strata-iotrace " TRACER_VERSION);
		return finish_answer(EXIT_OK);
	}
	if (trace.options.check)
		return check(&trace.options);
	open_standard_streams();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow further (RLIMIT_FSIZE) is one that cannot be written */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (!is_ignored(SIGHUP))
		sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	code = trace_all(&trace, &signals);
	probe_close(trace.probe);
	catalog_close(&trace.catalog);
	older_free(&trace.older);
	devices_free(&trace.devices);
	return code;
}
