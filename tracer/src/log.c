// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define READ_TRIES 1000 /* a program takes less than a microsecond to fill its slot */

unsigned log_events_per_cpu(size_t bytes, unsigned cpus)
{
	unsigned events = 64;

	while ((size_t)events * 2 * cpus * sizeof(struct iotrace_event) <= bytes)
		events *= 2;
	return events;
}

static void *map_array(int fd, size_t bytes, int protection)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return mmap(NULL, (bytes + page - 1) / page * page, protection, MAP_SHARED, fd, 0);
}

static int handle_name(void *context, void *data, size_t size)
{
	struct log *log = context;

	if (size >= __builtin_offsetof(struct iotrace_name, names))
		log->reader.name(log->reader.context, data);
	return 0;
}

int log_open(struct log *log, const struct log_reader *reader, int heads_fd, int events_fd, int names_fd,
	     unsigned cpus, unsigned events_per_cpu)
{
	*log = (struct log){.reader = *reader, .cpus = cpus, .events_per_cpu = events_per_cpu};
	log->heads = map_array(heads_fd, cpus * sizeof(*log->heads), PROT_READ | PROT_WRITE);
	if (log->heads == MAP_FAILED) {
		log->heads = NULL;
		return -errno;
	}
	log->events = map_array(events_fd, (size_t)cpus * events_per_cpu * sizeof(*log->events), PROT_READ);
	if (log->events == MAP_FAILED) {
		log->events = NULL;
		return -errno;
	}
	log->names = ring_buffer__new(names_fd, handle_name, log, NULL);
	if (!log->names)
		return -errno;
	log->known = calloc(cpus, sizeof(*log->known));
	if (!log->known)
		abort();
	return 0;
}

/* Up to where all slots are whole; not further than before when a program is at work just now. */
static __u64 whole_until(const struct iotrace_head *head, __u64 before)
{
	for (int i = 0; i < READ_TRIES; i++) {
		__u64 committed = __atomic_load_n(&head->committed, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&head->reserved, __ATOMIC_ACQUIRE) == committed)
			return committed;
	}
	return before;
}

static unsigned long consume_cpu(struct log *log, unsigned cpu)
{
	const struct iotrace_event *events = log->events + (size_t)cpu * log->events_per_cpu;
	struct iotrace_head *head = &log->heads[cpu];
	__u64 from = head->consumed;

	for (__u64 i = from; i < log->known[cpu]; i++)
		log->reader.event(log->reader.context, &events[i & (log->events_per_cpu - 1)]);
	__atomic_store_n(&head->consumed, log->known[cpu], __ATOMIC_RELEASE);
	return log->known[cpu] - from;
}

unsigned long log_consume(struct log *log, double *fullness)
{
	unsigned long events = 0;
	__u64 most = 0;

	for (unsigned cpu = 0; cpu < log->cpus; cpu++) {
		log->known[cpu] = whole_until(&log->heads[cpu], log->known[cpu]);
		if (log->known[cpu] - log->heads[cpu].consumed > most)
			most = log->known[cpu] - log->heads[cpu].consumed;
	}
	*fullness = (double)most / log->events_per_cpu;
	/* After the look at the heads: what those events refer to has been told by now. */
	ring_buffer__consume(log->names);
	for (unsigned cpu = 0; cpu < log->cpus; cpu++)
		events += consume_cpu(log, cpu);
	return events;
}

void log_close(struct log *log)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)log->cpus * log->events_per_cpu * sizeof(*log->events);

	ring_buffer__free(log->names);
	if (log->events)
		munmap(log->events, (bytes + page - 1) / page * page);
	if (log->heads)
		munmap(log->heads, (log->cpus * sizeof(*log->heads) + page - 1) / page * page);
	free(log->known);
	*log = (struct log){0};
}
