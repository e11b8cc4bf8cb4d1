/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which devices are traced, and their counters, with CO-RE. */
#ifndef DEVICE_BPF_H
#define DEVICE_BPF_H

#include "iotrace.h"
#include "peek.bpf.h"
#include <stddef.h>

/* Set before loading. */
const volatile bool filter_devices;

/* Set while running. Requests are followed a little longer than the trace is on (enum phase of src/probe.h). */
volatile __u32 follows = 0;
volatile __u32 switched_on = 0;
volatile __u64 switched_on_ns = 0;

/* The device in each slot; 0 = free. User space fills it when devices are filtered by. */
__u32 device_slots[IOTRACE_DEVICE_SLOTS] = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, IOTRACE_DEVICE_SLOTS);
	__type(key, __u32);
	__type(value, struct iotrace_counters);
} counters SEC(".maps");

static __always_inline __u32 device_of(struct gendisk *disk)
{
	return (__u32)disk->major << 20 | (__u32)disk->first_minor;
}

#define NOT_TRACED IOTRACE_DEVICE_SLOTS

/* Without a filter, a new device begins to count when it is first seen. */
LOOKED_AT_ONCE __u32 slot_searched(__u32 device)
{
	__u32 slot = iotrace_device_slot(device);

	for (__u64 i = 0; device && i < IOTRACE_DEVICE_SLOTS; i++) { /* 64 bits: see UNTIL */
		__u32 at = (slot + i) & (IOTRACE_DEVICE_SLOTS - 1);

		if (device_slots[at] == device)
			return at;
		if (device_slots[at])
			continue;
		if (filter_devices)
			break;
		if (__sync_val_compare_and_swap(&device_slots[at], 0, device) == 0 || device_slots[at] == device)
			return at;
	}
	return NOT_TRACED;
}

/* Nearly always the first place. */
static __always_inline __u32 slot_of(__u32 device)
{
	__u32 slot = iotrace_device_slot(device);

	return device && device_slots[slot] == device ? slot : slot_searched(device);
}

static __always_inline bool is_traced(__u32 device)
{
	return slot_of(device) != NOT_TRACED;
}

/* NULL: not a device to trace. */
static __always_inline struct iotrace_counters *counters_of(__u32 device)
{
	__u32 slot = slot_of(device);

	return bpf_map_lookup_elem(&counters, &slot);
}

/* 0 for a bare controller queue. */
static __always_inline __u32 device_of_request(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	return disk ? device_of(disk) : 0;
}

/* The same through a pointer that the verifier does not trust. */
static __always_inline __u32 device_of_untrusted(struct request *rq)
{
	struct gendisk *disk = PEEK(request_queue, PEEK(request, rq, q), disk);

	return disk ? (__u32)PEEK(gendisk, disk, major) << 20 | (__u32)PEEK(gendisk, disk, first_minor) : 0;
}

static __always_inline __u32 device_of_bio(struct bio *bio)
{
	return device_of(bio->bi_bdev->bd_disk);
}

#endif
