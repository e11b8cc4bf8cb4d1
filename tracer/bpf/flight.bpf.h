/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is known about bios and requests under way. */
#ifndef FLIGHT_BPF_H
#define FLIGHT_BPF_H

#include "device.bpf.h"

/*
 * A hash table of BPF costs 1.3 us per request, an array indexed by the hashed address 0.8 us.
 * Four ways per bucket make it practically never full; when one is, its oldest flight is lost, and the
 * request it belonged to is counted as untracked or has no block layer.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << IOTRACE_BUCKET_BITS);
	__type(key, __u32);
	__type(value, struct iotrace_bucket);
} flights SEC(".maps");

static __always_inline struct iotrace_bucket *bucket_of(__u64 key)
{
	__u32 index = (key * 0x9e3779b97f4a7c15ULL) >> (64 - IOTRACE_BUCKET_BITS);

	return bpf_map_lookup_elem(&flights, &index);
}

static __always_inline struct iotrace_flight *flight_find(__u64 key)
{
	struct iotrace_bucket *bucket = bucket_of(key);

	if (!bucket || !key)
		return NULL;
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (bucket->way[i].key == key)
			return &bucket->way[i];
	return NULL;
}

/* The flight of `key`, or a free one, or the oldest one of its bucket. Several CPUs may claim at a time. */
static __always_inline struct iotrace_flight *flight_claim(__u64 key)
{
	struct iotrace_bucket *bucket = bucket_of(key);
	struct iotrace_flight *oldest;
	__u64 oldest_key;

	if (!bucket)
		return NULL;
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (bucket->way[i].key == key)
			return &bucket->way[i];
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (__sync_val_compare_and_swap(&bucket->way[i].key, 0, key) == 0)
			return &bucket->way[i];
	oldest = &bucket->way[0];
#pragma unroll
	for (int i = 1; i < IOTRACE_WAYS; i++)
		if (bucket->way[i].touched_ns < oldest->touched_ns)
			oldest = &bucket->way[i];
	oldest_key = oldest->key;
	if (__sync_val_compare_and_swap(&oldest->key, oldest_key, key) != oldest_key)
		return NULL;
	oldest->touched_ns = 0; /* what it holds is not about `key` */
	return oldest;
}

static __always_inline void flight_free(struct iotrace_flight *flight)
{
	flight->touched_ns = 0;
	__sync_lock_test_and_set(&flight->key, 0);
}

/* Everything but the key. */
static __always_inline void flight_clear(struct iotrace_flight *flight, __u64 now, __u64 generation)
{
	__builtin_memset(&flight->generation, 0, sizeof(*flight) - __builtin_offsetof(struct iotrace_flight, generation));
	flight->touched_ns = now;
	flight->generation = generation;
}

/* Who and when, from the flight of a bio to that of a request or of another bio. */
static __always_inline void flight_inherit(struct iotrace_flight *to, const struct iotrace_flight *from)
{
	to->event.enter_ns = from->event.enter_ns;
	to->event.queue_ns = from->event.queue_ns;
	to->event.task = from->event.task;
	to->event.file = from->event.file;
	to->event.origin = from->event.origin;
	to->event.flags = from->event.flags;
	to->event.wait = from->event.wait;
}

/* The verifier allows no arithmetic on a pointer that it trusts, and hashing is arithmetic. */
static __always_inline __u64 address_of(void *ctx)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), ctx);
	return address;
}

/*
 * The address is used again, so what was there before is over. If diskstats has counted it, and we have
 * not, then its completion has escaped us. It happens: see docs/tracer.md.
 */
static __always_inline void count_unseen(struct iotrace_flight *old)
{
	struct iotrace_counters *of_device;

	if (!old->touched_ns || (old->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE)) != FLIGHT_COUNTED)
		return;
	of_device = counters_of(old->event.device);
	if (of_device)
		count(&of_device->excluded[IOTRACE_EX_COMPLETION_NOT_SEEN]);
}

/* The flight of this very request: cleared when it still tells of an older one at the same address. */
static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 key, __u64 now)
{
	struct iotrace_flight *flight = flight_claim(key);

	if (!flight)
		return NULL;
	if (flight->generation == rq->start_time_ns && !(flight->event.flags & FLIGHT_DONE) && flight->touched_ns)
		return flight;
	count_unseen(flight);
	flight_clear(flight, now, rq->start_time_ns);
	return flight;
}

#endif
