// SPDX-License-Identifier: Apache-2.0
#include "options.h"

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
#define SEE_HELP "see strata-iotrace --help"

static const char HELP[] =
	"Times each request of the block devices and writes one record per completed request.\n"
	"\n"
	"  strata-iotrace --output FILE [--device DEV]... [filters] [--duration S] [--ready-fd FD]\n"
	"  strata-iotrace --check\n"
	"\n"
	"  --output FILE     records; FILE.json tells what was traced, counted and lost\n"
	"  --device DEV      only this disk: loop0, /dev/loop0 or 7:0; of a partition or volume, the whole disks\n"
	"                    below it (default: all disks)\n"
	"  --cgroup PATH     only requests of tasks in this cgroup (v2) or below it\n"
	"  --pid PID         only requests of this process and its threads\n"
	"  --comm NAME       only requests of threads of this name (at most 15 bytes)\n"
	"  --mode R|W|D|F    only reads, writes, discards, flushes\n"
	"  --min-latency US  only requests that took at least so many microseconds\n"
	"  --tracing MODE    time the drivers in this mode: block, irq, nvme, scsi, fentry, kprobe; disks without it get\n"
	"                    block (default: the best of each disk)\n"
	"  --sample N        only one of N requests, chosen at random\n"
	"  --scheduler       time in the I/O scheduler, too; costs a program more per request\n"
	"  --rotate-bytes N  begin a new file after so many bytes (1048576 or more), of each that is written; FILE.1,\n"
	"                    FILE.2 ... are the older ones\n"
	"  --keep-files N    delete all but the latest N older ones (default: keep all)\n"
	"  --min-free-bytes N  stop when the file system of a FILE has less left (default: 1 % of it, at most 1 GiB)\n"
	"  --vfs             count and time all reads, writes and syncs of files, cached or not, and record when those\n"
	"                    with requests returned; costs each system call\n"
	"  --no-vfs          leave system calls alone: vfs_ns stays empty, and tracing costs least; not with --spans\n"
	"  --context FILE    each second a line of CSV: run queue, TCP, page cache, pressure; costs each context switch\n"
	"  --without PART    of the context: run-queue, tcp, page-cache, memory, cpu-ticks or pressure; its columns stay\n"
	"                    empty, and it costs nothing\n"
	"  --peers FILE      each second a line of CSV for each address at the other end of TCP connections\n"
	"  --spans FILE      each second a line of CSV for each process that answers requests on sockets: what its threads\n"
	"                    did from request to response; single ones in FILE.samples; costs each context switch\n"
	"  --span-sample N   one of N spans, chosen at random, goes to FILE.samples (default 100)\n"
	"  --ring-bytes N    room for events on their way, all CPUs together (default 8388608, or 524288 for each CPU)\n"
	"  --backend NAME    core (needs Linux 5.15 and BTF), bcc (needs headers of this kernel and libbcc)\n"
	"                    or auto (default): core where the kernel can\n"
	"  --kernel-headers DIR  for bcc (default: $BCC_KERNEL_SOURCE, else those of /lib/modules)\n"
	"  --duration S      stop by itself after S seconds (default: on SIGINT, SIGTERM or SIGHUP)\n"
	"  --ready-fd FD     write the line \"ready\" there once the trace is on\n"
	"  --check           print as JSON whether this machine can be traced, and why not\n"
	"\n"
	"--device, --cgroup, --pid, --comm and --mode, given more than once, take what any of them names (of other\n"
	"options the last one counts); requests that do not pass are counted.\n"
	"Read it with: python -m tracer.summary FILE, or each record: python -m tracer.decode FILE --csv OUT\n"
	"Exit: 0 ok, 2 usage, 3 cannot trace here, 4 output failed.\n";

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
	{NULL, 0, NULL, 0},
};

void options_print_help(void)
{
	fputs(HELP, stdout);
}

static bool parse_whole(const char *text, long min, long max, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	return !errno && end != text && !*end && *value >= min && *value <= max;
}

static bool parse_bytes(const char *text, long min, long long *value)
{
	long number;

	if (!parse_whole(text, min, LONG_MAX, &number))
		return false;
	*value = number;
	return true;
}

static bool parse_seconds(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && isfinite(*value) && *value >= 1e-9 && *value <= MOST_SECONDS;
}

/* Of all CPUs together. */
static bool parse_ring_bytes(const char *text, size_t *bytes)
{
	long value;

	if (!parse_whole(text, sysconf(_SC_PAGESIZE), 1L << 30, &value))
		return false;
	*bytes = value;
	return true;
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
	long number;

	switch (option) {
	case 'o':
		options->output = argument;
		return *argument;
	case 'x':
		options->context = argument;
		return *argument;
	case 'w':
		return parse_part(argument, &options->without);
	case 'e':
		options->peers = argument;
		return *argument;
	case 'S':
		options->spans = argument;
		return *argument;
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
		return parse_bytes(argument, 1 << 20, &options->rotate_bytes);
	case 'K':
		return parse_whole(argument, 1, 1L << 20, &options->keep_files);
	case 'F':
		return parse_bytes(argument, 0, &options->min_free_bytes);
	case 't':
		return parse_seconds(argument, &options->duration_s);
	case 'r':
		if (!parse_whole(argument, 0, 1L << 20, &number))
			return false;
		options->ready_fd = number;
		return true;
	default:
		return parse_ring_bytes(argument, &options->ring_bytes);
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
		} else if (!apply(options, option, optarg)) {
			complain(SEE_HELP, "not a valid value, or too many", "--%s %s", LONG_OPTIONS[index].name, optarg);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		complain(SEE_HELP, "unexpected argument", "%s", argv[optind]);
		return EXIT_USAGE;
	}
	if (!options->output && !options->check && !options->help) {
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
