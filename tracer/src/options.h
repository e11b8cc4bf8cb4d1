/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "iotrace.h"

#define TRACER_VERSION "0.3.0"
#define MAX_DEVICES 64
#define MAX_PIDS 256
#define ANY_TRACING -1

enum backend_choice { BACKEND_AUTO, BACKEND_CORE, BACKEND_BCC };

enum context_part { /* the first three have programs, the others are read under /proc */
	CONTEXT_RUN_QUEUE,
	CONTEXT_TCP,
	CONTEXT_PAGE_CACHE,
	CONTEXT_MEMORY,
	CONTEXT_CPU_TICKS,
	CONTEXT_PRESSURE,
	CONTEXT_PARTS,
};

struct options {
	enum backend_choice backend; /* once parsed, no longer BACKEND_AUTO */
	const char *kernel_headers;  /* for the bcc backend; NULL = where they usually are */
	const char *output;
	const char *context; /* NULL = none */
	unsigned without;    /* a bit for each enum context_part that is left out of it */
	const char *peers;   /* the same */
	const char *spans;   /* NULL = none */
	unsigned span_sample_every;
	const char *devices[MAX_DEVICES];
	size_t device_count;
	const char *cgroups[IOTRACE_MAX_CGROUPS];
	size_t cgroup_count;
	int pids[MAX_PIDS];
	size_t pid_count;
	const char *comms[IOTRACE_MAX_COMMS];
	size_t comm_count;
	long min_latency_us;
	unsigned modes; /* a bit for each enum iotrace_mode; 0 = all */
	int tracing; /* enum iotrace_tracing, or the best of each disk: ANY_TRACING */
	unsigned sample_every; /* one of so many requests; 1 = all */
	bool vfs;    /* histograms of system calls on files */
	bool no_vfs; /* system calls are left alone: no VFS layer */
	bool scheduler; /* time in the I/O scheduler, too */
	long long rotate_bytes;	  /* a new file after so many bytes; 0 = never */
	long keep_files;	  /* how many older ones stay; 0 = all */
	long long min_free_bytes; /* stop when the file system has less left; -1 = 1 % of it, at most 1 GiB */
	double duration_s; /* 0 = until a signal comes */
	int ready_fd;	   /* -1 = none */
	size_t ring_bytes;
	bool check;
	bool help, version;
};

/* Fills `options`; returns an exit code, EXIT_OK to go on. */
int options_parse(struct options *options, int argc, char **argv);
void options_print_help(void);

#endif
