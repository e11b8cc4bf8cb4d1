/* SPDX-License-Identifier: Apache-2.0 */
/* Disks, and what the kernel counts for them. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "iotrace.h"

#define DEVICE_NAME_BYTES 64

struct diskstats {
	bool known;
	unsigned long long reads, read_sectors, writes, written_sectors, discards, discarded_sectors, flushes;
	unsigned long long in_flight;
};

struct device {
	char name[DEVICE_NAME_BYTES];
	__u32 id; /* as in the records: major << 20 | minor */
	bool chosen; /* named on the command line */
	enum iotrace_tracing tracing;
	struct diskstats before, after;
	unsigned long long identity; /* when it was put here, or `before` was read */
	bool before_settled, after_settled;
	__u64 idle_at_reading, idle_while_on;	  /* our count of what came while the trace was off */
	__u64 before_switch_on, after_switch_off; /* what came between reading the kernel's count and switching */
	__u64 never_completed; /* requests that were issued, and of whose completion we have not heard */
	__u64 emitted; /* records made */
	__u64 throttled; /* those of them that waited for their cgroup's limit */
	__u64 lost;    /* those of them that could not be written */
};

struct devices {
	struct device *list;
	size_t count;
	__u32 *heads; /* disks of NVMe multipath: bios enter there, and go on, unchanged, to disks of the list */
	size_t head_count;
};

static inline unsigned device_major(__u32 id)
{
	return id >> 20;
}

static inline unsigned device_minor(__u32 id)
{
	return id & 0xfffff;
}

/*
 * Adds the disk that `spec` (loop0, /dev/loop0, 7:0) names, or those below it when it is a partition, a volume or of NVMe
 * multipath; returns an exit code and says why not.
 */
int devices_add(struct devices *devices, const char *spec);

/* Adds all disks of this machine that take requests and are not in the list yet. */
void devices_add_all(struct devices *devices);

struct device *devices_find(struct devices *devices, __u32 id);

/* Also one that came after the start; when it has gone already, its name is its number. */
struct device *devices_find_or_add(struct devices *devices, __u32 id);

/* Tells a disk from others that have its name at another time; 0: there is none. */
unsigned long long device_identity(const char *name);

bool diskstats_read(const struct device *device, struct diskstats *stats);

/* True while a disk that owes us a completion has requests under way. */
bool devices_awaited(const struct devices *devices);

void devices_free(struct devices *devices);

#endif
