// SPDX-License-Identifier: Apache-2.0
#include "perf_log.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

#define NAME_PAGES 16 /* of each CPU */
#define RECORD_BYTES (sizeof(struct perf_event_header) + sizeof(__u32) + sizeof(struct iotrace_event) + 4) /* of 8 */

_Static_assert(RECORD_BYTES % 8 == 0, "the kernel fills up to this");

struct sample {
	struct perf_event_header header;
	__u32 bytes;
	unsigned char data[];
};

struct lost {
	struct perf_event_header header;
	__u64 id, count;
};

struct perf_log {
	struct log_reader reader;
	struct perf_buffer *events, *names;
	int consumed_fd;
	unsigned cpus, room;
	__u64 *consumed; /* by CPU */
	struct iotrace_event *waiting; /* until the names have been read that they refer to */
	size_t count, capacity;
	unsigned long long names_lost;
};

static enum bpf_perf_event_ret handle_event(void *context, int cpu, struct perf_event_header *header)
{
	struct perf_log *log = context;

	if (header->type == PERF_RECORD_LOST) /* the programs keep within the room: cannot be */
		complain("the sums of this trace do not hold", "the kernel has dropped them", "%llu events of CPU %d",
			 (unsigned long long)((struct lost *)header)->count, cpu);
	if (header->type != PERF_RECORD_SAMPLE)
		return LIBBPF_PERF_EVENT_CONT;
	if (log->count == log->capacity) {
		log->capacity = log->capacity ? log->capacity * 2 : 1024;
		log->waiting = realloc(log->waiting, log->capacity * sizeof(*log->waiting));
		if (!log->waiting)
			abort();
	}
	/* Samples are not aligned to 8 bytes. */
	memcpy(&log->waiting[log->count++], ((struct sample *)header)->data, sizeof(*log->waiting));
	log->consumed[cpu]++;
	return LIBBPF_PERF_EVENT_CONT;
}

static enum bpf_perf_event_ret handle_name(void *context, int cpu, struct perf_event_header *header)
{
	struct perf_log *log = context;
	struct iotrace_name name;
	struct sample *sample = (struct sample *)header;

	(void)cpu;
	if (header->type == PERF_RECORD_LOST)
		log->names_lost += ((struct lost *)header)->count;
	if (header->type != PERF_RECORD_SAMPLE || sample->bytes < __builtin_offsetof(struct iotrace_name, names))
		return LIBBPF_PERF_EVENT_CONT;
	memcpy(&name, sample->data, sample->bytes < sizeof(name) ? sample->bytes : sizeof(name));
	log->reader.name(log->reader.context, &name);
	return LIBBPF_PERF_EVENT_CONT;
}

static struct perf_buffer *open_buffer(struct perf_log *log, int fd, size_t pages, perf_buffer_event_fn handle)
{
	/* Nobody waits for it: we look every few milliseconds. */
	struct perf_event_attr attributes = {
		.size = sizeof(attributes),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1,
		.wakeup_events = ~0U,
	};

	return perf_buffer__new_raw(fd, pages, &attributes, handle, log, NULL);
}

struct perf_log *perf_log_open(const struct log_reader *reader, int events_fd, int names_fd, int consumed_fd,
			       unsigned cpus, size_t bytes)
{
	struct perf_log *log = calloc(1, sizeof(*log));
	size_t page = sysconf(_SC_PAGESIZE), pages = 1, present = log_cpus();

	if (!log)
		abort();
	while (pages * 2 * page * present <= bytes)
		pages *= 2;
	log->reader = *reader;
	log->consumed_fd = consumed_fd;
	log->cpus = cpus;
	log->room = pages * page / RECORD_BYTES - 1;
	log->consumed = calloc(cpus, sizeof(*log->consumed));
	if (!log->consumed)
		abort();
	log->events = open_buffer(log, events_fd, pages, handle_event);
	if (log->events)
		log->names = open_buffer(log, names_fd, NAME_PAGES, handle_name);
	if (log->names)
		return log;
	perf_log_close(log);
	return NULL;
}

unsigned perf_log_events(const struct perf_log *log)
{
	return log->room;
}

unsigned long perf_log_consume(struct perf_log *log, double *fullness)
{
	__u64 before[log->cpus], most = 0;
	size_t count;

	memcpy(before, log->consumed, sizeof(before));
	perf_buffer__consume(log->events);
	for (__u32 cpu = 0; cpu < log->cpus; cpu++) {
		__u64 read = log->consumed[cpu] - before[cpu];

		if (read)
			bpf_map_update_elem(log->consumed_fd, &cpu, &log->consumed[cpu], BPF_ANY);
		if (read > most)
			most = read;
	}
	*fullness = (double)most / log->room;
	/* After the look at the events: what they refer to has been told by now. */
	perf_buffer__consume(log->names);
	for (size_t i = 0; i < log->count; i++)
		log->reader.event(log->reader.context, &log->waiting[i]);
	count = log->count;
	log->count = 0;
	return count;
}

unsigned long long perf_log_names_lost(const struct perf_log *log)
{
	return log->names_lost;
}

void perf_log_close(struct perf_log *log)
{
	if (!log)
		return;
	perf_buffer__free(log->names);
	perf_buffer__free(log->events);
	free(log->consumed);
	free(log->waiting);
	free(log);
}
