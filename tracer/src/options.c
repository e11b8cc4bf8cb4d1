// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "kernel_types.h"
#include "log.h"
#include "say.h"

#define MOST_SECONDS 1e9 /* 31 years: nanoseconds fit into 64 bits */
#define SPAN_SAMPLE_EVERY 100
static char PROGRAM[] = "strata-iotrace";
#define SEE_HELP "see strata-iotrace --help"

static const struct option LONG_OPTIONS[] = {
	{"output", required_argument, NULL, 'o'},     {"device", required_argument, NULL, 'd'},
	{"cgroup", required_argument, NULL, 'c'},     {"pid", required_argument, NULL, 'p'},
	{"duration", required_argument, NULL, 't'},   {"ready-fd", required_argument, NULL, 'r'},
	{"ring-bytes", required_argument, NULL, 'b'},
	{"context", required_argument, NULL, 'x'},    {"without", required_argument, NULL, 'w'},
	{"peers", required_argument, NULL, 'e'},
	{"spans", required_argument, NULL, 'S'},      {"span-sample", required_argument, NULL, 'N'},
	{"comm", required_argument, NULL, 'n'},	      {"mode", required_argument, NULL, 'm'},
	{"min-latency", required_argument, NULL, 'l'}, {"tracing", required_argument, NULL, 'T'},
	{"sample", required_argument, NULL, 's'},
	{"rotate-bytes", required_argument, NULL, 'R'}, {"keep-files", required_argument, NULL, 'K'},
	{"min-free-bytes", required_argument, NULL, 'F'},
	{"backend", required_argument, NULL, 'B'},    {"kernel-headers", required_argument, NULL, 'H'},
	{"scheduler", no_argument, NULL, 'q'},	      {"vfs", no_argument, NULL, 'v'},
	{"no-vfs", no_argument, NULL, 'V'},
	{"check", no_argument, NULL, 'k'},	      {"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'Z'},
	{NULL, 0, NULL, 0},
};

static bool parse_whole(const char *text, long min, long max, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	return !errno && end != text && !*end && *value >= min && *value <= max;
}

static bool parse_bytes(const char *text, long long min, long long max, long long *value)
{
	static const char UNITS[] = "KMG";
	const char *unit;
	char *end;
	int shift = 0;

	errno = 0;
	*value = strtoll(text, &end, 10);
	if (*end && (unit = strchr(UNITS, toupper(*end)))) {
		shift = 10 * (unit - UNITS + 1);
		end++;
	}
	if (errno || end == text || *end || *value < 0 || *value > max >> shift)
		return false;
	*value <<= shift;
	return *value >= min;
}

/* False: there is no such unit. */
static bool unit_seconds(const char *unit, double *seconds)
{
	static const struct {
		const char *name;
		double seconds;
	} UNITS[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}};

	for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++)
		if (strcmp(unit, UNITS[i].name) == 0) {
			*seconds = UNITS[i].seconds;
			return true;
		}
	return false;
}

static bool parse_seconds(const char *text, double *value)
{
	double seconds;
	char *end;

	*value = strtod(text, &end);
	if (end == text || !unit_seconds(end, &seconds))
		return false;
	*value *= seconds;
	return isfinite(*value) && *value >= 1e-9 && *value <= MOST_SECONDS;
}

/* As elsewhere "-" is a stream, and to write a file of this name is a surprise. */
static bool parse_file(const char *text, const char **path)
{
	*path = text;
	return *text && strcmp(text, "-") != 0;
}

static bool append(const char **list, size_t *count, size_t max, const char *value)
{
	if (*count == max)
		return false;
	list[(*count)++] = value;
	return true;
}

static bool parse_mode(const char *text, unsigned *modes)
{
	static const char LETTERS[] = "RWDF"; /* as enum iotrace_mode */
	const char *letter = strchr(LETTERS, *text);

	if (!letter || !*text || text[1])
		return false;
	*modes |= 1U << (letter - LETTERS);
	return true;
}

static bool parse_tracing(const char *text, int *tracing)
{
	for (int mode = 0; mode < IOTRACE_TRACINGS; mode++)
		if (strcmp(text, driver_mode_name(mode)) == 0) {
			*tracing = mode;
			return true;
		}
	return false;
}

static bool parse_part(const char *text, unsigned *parts)
{
	static const char *const NAMES[CONTEXT_PARTS] = {
		[CONTEXT_RUN_QUEUE] = "run-queue",
		[CONTEXT_TCP] = "tcp",
		[CONTEXT_PAGE_CACHE] = "page-cache",
		[CONTEXT_MEMORY] = "memory",
		[CONTEXT_CPU_TICKS] = "cpu-ticks",
		[CONTEXT_PRESSURE] = "pressure",
	};

	for (int part = 0; part < CONTEXT_PARTS; part++)
		if (strcmp(text, NAMES[part]) == 0) {
			*parts |= 1U << part;
			return true;
		}
	return false;
}

static bool parse_backend(const char *text, enum backend_choice *backend)
{
	static const char *const NAMES[] = {"auto", "core", "bcc"}; /* as enum backend_choice */

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
		if (strcmp(text, NAMES[i]) == 0) {
			*backend = i;
			return true;
		}
	return false;
}

/* False when the argument of this option is not valid. */
static bool apply(struct options *options, int option, const char *argument)
{
	long long bytes;
	long number;

	switch (option) {
	case 'o':
		return parse_file(argument, &options->output);
	case 'x':
		return parse_file(argument, &options->context);
	case 'w':
		return parse_part(argument, &options->without);
	case 'e':
		return parse_file(argument, &options->peers);
	case 'S':
		return parse_file(argument, &options->spans);
	case 'N':
		if (!parse_whole(argument, 1, 1L << 30, &number))
			return false;
		options->span_sample_every = number;
		return true;
	case 'B':
		return parse_backend(argument, &options->backend);
	case 'H':
		options->kernel_headers = argument;
		return *argument;
	case 'd':
		return append(options->devices, &options->device_count, MAX_DEVICES, argument);
	case 'c':
		return append(options->cgroups, &options->cgroup_count, IOTRACE_MAX_CGROUPS, argument);
	case 'p':
		if (options->pid_count == MAX_PIDS || !parse_whole(argument, 1, 1L << 22, &number))
			return false;
		options->pids[options->pid_count++] = number;
		return true;
	case 'n':
		return *argument && strlen(argument) < IOTRACE_COMM_BYTES &&
		       append(options->comms, &options->comm_count, IOTRACE_MAX_COMMS, argument);
	case 'm':
		return parse_mode(argument, &options->modes);
	case 'l':
		return parse_whole(argument, 1, 1L << 40, &options->min_latency_us);
	case 'T':
		return parse_tracing(argument, &options->tracing);
	case 's':
		if (!parse_whole(argument, 1, 1L << 30, &number))
			return false;
		options->sample_every = number;
		return true;
	case 'R':
		return parse_bytes(argument, 1 << 20, LLONG_MAX, &options->rotate_bytes);
	case 'K':
		return parse_whole(argument, 1, 1L << 20, &options->keep_files);
	case 'F':
		return parse_bytes(argument, 0, LLONG_MAX, &options->min_free_bytes);
	case 't':
		return parse_seconds(argument, &options->duration_s);
	case 'r':
		if (!parse_whole(argument, 0, 1L << 20, &number))
			return false;
		options->ready_fd = number;
		return true;
	default:
		if (!parse_bytes(argument, sysconf(_SC_PAGESIZE), 1L << 30, &bytes))
			return false;
		options->ring_bytes = bytes;
		return true;
	}
}

/* What apply() would have taken. */
static const char *wanted(int option)
{
	switch (option) {
	case 'o':
		return "name a regular file; one that is called - is ./-";
	case 'x':
	case 'e':
	case 'S':
		return "name a file or pipe; standard output is /dev/stdout, a file that is called - is ./-";
	case 'w':
		return "run-queue, tcp, page-cache, memory, cpu-ticks or pressure";
	case 'B':
		return "auto, core or bcc";
	case 'd':
		return "at most 64 disks";
	case 'c':
		return "at most 16 cgroups";
	case 'p':
		return "a process number, at most 256 of them";
	case 'n':
		return "1 to 15 bytes, at most 16 names";
	case 'm':
		return "R, W, D or F; several: --mode R --mode W";
	case 'l':
		return "whole microseconds, 1 or more";
	case 'T':
		return "block, irq, nvme, scsi, fentry or kprobe";
	case 'R':
		return "bytes, 1M or more; or with K, M or G behind the number";
	case 'F':
	case 'b':
		return "bytes; or with K, M or G behind the number (--ring-bytes: a page to 1G)";
	case 't':
		return "seconds, as 10 or 0.5; or 500ms, 90s, 5m, 2h";
	case 'r':
		return "the number of an open file descriptor";
	default:
		return "a whole number, 1 or more";
	}
}

int options_parse(struct options *options, int argc, char **argv)
{
	int option, index;

	*options = (struct options){
		.ready_fd = -1,
		.tracing = ANY_TRACING,
		.ring_bytes = log_default_bytes(),
		.sample_every = 1,
		.min_free_bytes = -1,
	};
	argv[0] = PROGRAM; /* in getopt's messages, as in ours */
	while ((option = getopt_long(argc, argv, "h", LONG_OPTIONS, &index)) != -1) {
		if (option == '?')
			return EXIT_USAGE; /* getopt has said what is wrong */
		if (option == 'k') {
			options->check = true;
		} else if (option == 'q') {
			options->scheduler = true;
		} else if (option == 'v') {
			options->vfs = true;
		} else if (option == 'V') {
			options->no_vfs = true;
		} else if (option == 'h') {
			options->help = true;
		} else if (option == 'Z') {
			options->version = true;
		} else if (!apply(options, option, optarg)) {
			complain(wanted(option), "not a valid value, or too many", "--%s %s", LONG_OPTIONS[index].name, optarg);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		complain(SEE_HELP, "unexpected argument", "%s", argv[optind]);
		return EXIT_USAGE;
	}
	if (!options->output && !options->check && !options->help && !options->version) {
		complain(SEE_HELP, "missing", "--output");
		return EXIT_USAGE;
	}
	if (options->vfs && options->no_vfs) {
		complain("leave one out", "they contradict each other", "--vfs --no-vfs");
		return EXIT_USAGE;
	}
	if (options->ready_fd >= 0 && fcntl(options->ready_fd, F_GETFD) < 0) {
		complain("hand the tracer an open one", strerror(errno), "--ready-fd %d", options->ready_fd);
		return EXIT_USAGE;
	}
	if (options->spans && options->no_vfs) {
		complain("leave one out", "the system calls tell which waits are for a disk", "--spans --no-vfs");
		return EXIT_USAGE;
	}
	if (options->without && !options->context) {
		complain("leave it out, or add --context FILE", "there is no context to leave it out of", "--without");
		return EXIT_USAGE;
	}
	if (options->span_sample_every && !options->spans) {
		complain("leave it out, or add --spans FILE", "there are no spans to choose from", "--span-sample");
		return EXIT_USAGE;
	}
	if (options->keep_files && !options->rotate_bytes) {
		complain("leave it out, or add --rotate-bytes N", "there are no older files to delete", "--keep-files");
		return EXIT_USAGE;
	}
	if (!options->span_sample_every)
		options->span_sample_every = SPAN_SAMPLE_EVERY;
	if (options->backend == BACKEND_AUTO)
		options->backend = kernel_suits_core() ? BACKEND_CORE : BACKEND_BCC;
	return EXIT_OK;
}
