// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READ_TRIES 1000 /* a program takes less than a microsecond to fill its slot */
#define PREFETCH 8 /* events ahead */
#define LEAST_BYTES (8UL << 20) /* 65,536 events: at 300,000 a second, all on one of two CPUs, 109 ms */
#define LEAST_CPU_BYTES (512UL << 10) /* 4,096 events: of 300,000 a second one CPU has 3,000 until they are read */

unsigned log_cpus(void)
{
	FILE *file = fopen("/sys/devices/system/cpu/present", "re");
	char text[4096] = ""; /* "0-3,8-11" */
	const char *last;

	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = 0;
		fclose(file);
	}
	last = text + strlen(text);
	while (last > text && !strchr(",-", last[-1]))
		last--;
	return *last ? strtoul(last, NULL, 10) + 1 : (unsigned)libbpf_num_possible_cpus();
}

size_t log_default_bytes(void)
{
	size_t bytes = log_cpus() * LEAST_CPU_BYTES;

	return bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
}

unsigned log_bits(size_t bytes, unsigned cpus)
{
	unsigned bits = 6;

	while ((cpus * sizeof(struct iotrace_event)) << (bits + 1) <= bytes)
		bits++;
	return bits;
}

static size_t events_bytes(const struct log *log)
{
	return (log->cpus * sizeof(*log->events)) << log->bits;
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
	     unsigned cpus, unsigned bits)
{
	*log = (struct log){.reader = *reader, .cpus = cpus, .bits = bits};
	log->heads = map_array(heads_fd, cpus * sizeof(*log->heads), PROT_READ | PROT_WRITE);
	if (log->heads == MAP_FAILED) {
		log->heads = NULL;
		return -errno;
	}
	log->events = map_array(events_fd, events_bytes(log), PROT_READ);
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

static bool is_whole(const struct iotrace_event *slot, __u16 lap)
{
	for (int i = 0; i < READ_TRIES; i++)
		if (__atomic_load_n(&slot->wait, __ATOMIC_ACQUIRE) == lap)
			return true;
	return false;
}

/* Up to a slot that a program has taken and not yet filled. */
static unsigned long consume_cpu(struct log *log, unsigned cpu)
{
	const struct iotrace_event *events = log->events + ((size_t)cpu << log->bits);
	struct iotrace_head *head = &log->heads[cpu];
	__u64 from = head->consumed, to = from;

	for (; to < log->known[cpu]; to++) {
		const struct iotrace_event *slot = &events[to & ((1U << log->bits) - 1)];

		/* Another CPU has written it; this takes longer than all that is done with an event. */
		__builtin_prefetch(&events[(to + PREFETCH) & ((1U << log->bits) - 1)]);
		__builtin_prefetch(&events[(to + PREFETCH) & ((1U << log->bits) - 1)].task);
		if (!is_whole(slot, iotrace_lap(to, log->bits)))
			break;
		log->reader.event(log->reader.context, slot);
	}
	__atomic_store_n(&head->consumed, to, __ATOMIC_RELEASE);
	return to - from;
}

unsigned long log_consume(struct log *log, double *fullness)
{
	unsigned long events = 0;
	__u64 most = 0;

	for (unsigned cpu = 0; cpu < log->cpus; cpu++) {
		log->known[cpu] = __atomic_load_n(&log->heads[cpu].reserved, __ATOMIC_ACQUIRE);
		if (log->known[cpu] - log->heads[cpu].consumed > most)
			most = log->known[cpu] - log->heads[cpu].consumed;
	}
	*fullness = (double)most / (1U << log->bits);
	/* After the look at the heads: what those events refer to has been told by now. */
	ring_buffer__consume(log->names);
	for (unsigned cpu = 0; cpu < log->cpus; cpu++)
		events += consume_cpu(log, cpu);
	return events;
}

void log_close(struct log *log)
{
	size_t page = sysconf(_SC_PAGESIZE);

	ring_buffer__free(log->names);
	if (log->events)
		munmap(log->events, (events_bytes(log) + page - 1) / page * page);
	if (log->heads)
		munmap(log->heads, (log->cpus * sizeof(*log->heads) + page - 1) / page * page);
	free(log->known);
	*log = (struct log){0};
}
