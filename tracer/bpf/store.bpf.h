/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the programs that both backends have keep what they know, with CO-RE; bcc_store.bpf.h is the same for BCC. */
#ifndef STORE_BPF_H
#define STORE_BPF_H

#include "device.bpf.h"
#include "peek.bpf.h"

/*
 * The bucket of an address, one of 2^bits. Objects side by side have buckets near each other, so that what is under way at
 * a time lies in few pages: to find one that no CPU knows takes longer than what is done there. Every 64 KiB begin
 * elsewhere, and so do addresses of another offset within 64 bytes, for a bio on a stack lies anywhere within 1 KiB
 * (randomize_kstack_offset), and those whose ends were not seen stay until the same address comes again.
 */
static __always_inline __u32 bucket_at(__u64 address, __u32 bits)
{
	__u32 low = low_half(address), begin = low >> 16 | (low & 0x38) << 16;

	return ((low >> 7) + (begin * 0x9e3779b1U >> (32 - bits))) & ((1U << bits) - 1);
}

/* Where in its bucket the way is that begins with `key`, in bytes; where the bucket ends when none does. */
static __always_inline __u64 way_with(const void *bucket, __u64 key, __u64 way_bytes)
{
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (*(const __u64 *)(bucket + i * way_bytes) == key)
			return i * way_bytes;
	return IOTRACE_WAYS * way_bytes;
}

/* NULL: where the bucket ends. */
static __always_inline void *way_at(void *bucket, __u64 offset_bytes, __u64 way_bytes)
{
	offset_bytes = forget(offset_bytes) & -8ULL; /* aligned, as atomic instructions want it */
	if (offset_bytes > (IOTRACE_WAYS - 1) * way_bytes)
		return NULL;
	barrier_var(offset_bytes); /* else the compiler adds it before it is known to be one */
	return bucket + offset_bytes;
}

/* ---- bios and requests under way ---- */

/*
 * A hash table of BPF costs 1.3 us per request, an array indexed by the hashed address 0.8 us.
 * Four ways per bucket are rarely all taken; when they are, one flight is lost, mostly of a bio on a stack whose end nobody
 * has seen. The request of another one is counted as untracked or has no block layer (count_without_flight).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << IOTRACE_BUCKET_BITS);
	__type(key, __u32);
	__type(value, struct iotrace_bucket);
} flights SEC(".maps");

static __always_inline struct iotrace_bucket *bucket_of(__u64 key)
{
	__u32 index = bucket_at(key, IOTRACE_BUCKET_BITS);

	return bpf_map_lookup_elem(&flights, &index);
}

/* Of a way in its bucket. */
#define OFFSET_BYTES(way) ((way) * sizeof(struct iotrace_flight))
#define NO_WAY OFFSET_BYTES(IOTRACE_WAYS)

static __always_inline struct iotrace_flight *flight_at(struct iotrace_bucket *bucket, __u64 offset_bytes)
{
	return way_at(bucket, offset_bytes, sizeof(struct iotrace_flight));
}

static __always_inline __u64 way_of(const struct iotrace_bucket *bucket, __u64 key)
{
	return way_with(bucket, key, sizeof(struct iotrace_flight));
}

/* Several CPUs may take one at a time. */
static __always_inline __u64 way_taken(struct iotrace_bucket *bucket, __u64 key)
{
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (__sync_val_compare_and_swap(&bucket->way[i].key, 0, key) == 0)
			return OFFSET_BYTES(i);
	return NO_WAY;
}

/* A request that was issued is free, or another one by now. */
static __always_inline bool is_over(const struct iotrace_flight *flight)
{
	struct request *rq = (struct request *)flight->request;

	return rq && flight->event.flags & FLIGHT_COUNTED &&
	       (PEEK(request, rq, start_time_ns) != flight->generation || PEEK(request, rq, state) == MQ_RQ_IDLE);
}

#define LEFT_OVER_NS 2000000000ULL /* user space waits as long for requests under way */

/*
 * Those go first whose end nobody has seen, and last one that another program is about to fill. An empty flush is in no
 * request that could tell, so others go before it, and when all of a bucket are such ones the oldest is over.
 */
static __always_inline __u64 goes_ns(const struct iotrace_flight *flight)
{
	if (!flight->touched_ns)
		return ~0ULL;
	if (!flight->request && flight->event.flags & FLIGHT_COUNTED)
		return flight->touched_ns + LEFT_OVER_NS;
	return is_over(flight) ? 0 : flight->touched_ns;
}

/* bio_claim has taken the first place for this bio, which so has come again: what is known here is over. */
static __always_inline bool has_come_again(const struct iotrace_bucket *bucket, const struct iotrace_flight *flight)
{
	return flight != &bucket->way[0] && flight->key == bucket->way[0].key;
}

/* Before the first place, if that is the same bio's: what is left over must not be taken for what it is now. */
static __always_inline __u64 way_to_free(const struct iotrace_bucket *bucket)
{
	__u64 first_ns = goes_ns(&bucket->way[0]), way_ns;
	int first = 0;

#pragma unroll
	for (int i = 1; i < IOTRACE_WAYS; i++) {
		if (has_come_again(bucket, &bucket->way[i]))
			return OFFSET_BYTES(i);
		way_ns = goes_ns(&bucket->way[i]);
		if (way_ns < first_ns) {
			first_ns = way_ns;
			first = i;
		}
	}
	return OFFSET_BYTES(first);
}

/* flight.bpf.h */
static __always_inline bool awaits_end(const struct iotrace_flight *flight);
static __always_inline void count_unseen(struct iotrace_flight *old);

/*
 * Requests under way, and empty flushes, whose flights have given way. They are counted at that instant, and not when they
 * complete: those whose ends nobody sees would be in no count.
 */
struct {
	__u64 address; /* of the request, or of the flush's bio */
	__u64 generation;
} without_flight[1024];

static __always_inline __u32 place_without_flight(__u64 address)
{
	return low_half(address) * 0x9e3779b1U >> 22;
}

/* `key`: what the flight had. */
static __always_inline void count_without_flight(struct iotrace_flight *flight, __u64 key)
{
	struct iotrace_counters *of_device = counters_of(flight->event.device);
	__u64 address = flight->request ?: key;
	__u32 at = place_without_flight(address);

	if (!of_device || !awaits_end(flight))
		return;
	/* One that ends after the trace belongs to none. The flush has rather ended before, for those go last. */
	if (flight->request && !switched_on)
		return;
	without_flight[at].generation = flight->generation;
	without_flight[at].address = address;
	count(&of_device->excluded[flight->request ? IOTRACE_EX_UNTRACKED : IOTRACE_EX_COMPLETION_NOT_SEEN]);
}

/* True only once. `address`: a flush command has no bio, 0. */
static __always_inline bool was_counted_without_flight(__u64 address, __u64 generation)
{
	__u32 at = place_without_flight(address);

	if (!address || without_flight[at].address != address || without_flight[at].generation != generation)
		return false;
	without_flight[at].address = 0;
	return true;
}

#define GIVEN_WAY 1 /* no address: whoever has put it there has the place */

/*
 * One of a full bucket gives way: where its place is, NO_WAY when another program has taken it at this instant. Not static:
 * the verifier then looks at it once, and not again on each way that leads here.
 */
__noinline __u64 way_given(__u32 index)
{
	struct iotrace_bucket *bucket = bpf_map_lookup_elem(&flights, &index);
	struct iotrace_flight *flight;
	__u64 way, key;
	bool again;

	if (!bucket)
		return NO_WAY;
	way = way_to_free(bucket);
	flight = flight_at(bucket, way);
	if (!flight)
		return NO_WAY;
	again = has_come_again(bucket, flight);
	key = flight->key;
	if (key == GIVEN_WAY || __sync_val_compare_and_swap(&flight->key, key, GIVEN_WAY) != key)
		return NO_WAY;
	if (again || is_over(flight))
		count_unseen(flight);
	else
		count_without_flight(flight, key);
	flight->touched_ns = 0; /* what it holds is not about the next key */
	return way;
}

static __always_inline struct iotrace_flight *flight_find(__u64 key)
{
	struct iotrace_bucket *bucket = bucket_of(key);

	return bucket && key ? flight_at(bucket, way_of(bucket, key)) : NULL;
}

/* The flight of `key`, or a free one, or one of its bucket that gives way. */
static __always_inline struct iotrace_flight *flight_claim(__u64 key)
{
	struct iotrace_bucket *bucket = bucket_of(key);
	struct iotrace_flight *flight;
	__u64 way;

	if (!bucket)
		return NULL;
	way = way_of(bucket, key);
	if (way == NO_WAY)
		way = way_taken(bucket, key);
	flight = flight_at(bucket, way);
	if (flight)
		return flight;
	flight = flight_at(bucket, way_given(bucket_at(key, IOTRACE_BUCKET_BITS)));
	if (flight)
		flight->key = key;
	return flight;
}

static __always_inline void flight_free(struct iotrace_flight *flight)
{
	flight->touched_ns = 0;
	order_writes(&flight->touched_ns);
	*(volatile __u64 *)&flight->key = 0;
}

/* One table holds both, and the flight of a bio may become that of its request. */
#define BIOS_FLIGHTS_GO_ON true

/* Set before loading: block_io_done frees the flights. */
const volatile bool io_done_follows;

/* Set before loading: only block_rq_complete, of which one at a time runs on a CPU, counts completions; writes to the log. */
const volatile bool counts_alone, logs_alone;

#define flight_note flight_inherit
#define bio_find flight_find
#define bio_free flight_free

/*
 * Mostly the first place of the bucket is free, and the cache lines of the others, which may be another CPU's, are not even
 * looked at. When the bio has one of these, its end was not seen: that is counted when the place is given away, or last of all.
 */
static __always_inline struct iotrace_flight *bio_claim(__u64 key)
{
	struct iotrace_bucket *bucket = bucket_of(key);

	if (bucket && __sync_val_compare_and_swap(&bucket->way[0].key, 0, key) == 0)
		return &bucket->way[0];
	return flight_claim(key);
}

/* ---- the request that has ended ---- */

/* The last one whose end a CPU has seen, for block_io_done, which comes next. */
struct ended {
	__u64 request;
	__u64 generation;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ended);
} ended_last SEC(".maps");

static __always_inline void ended_note(__u64 request, __u64 generation)
{
	__u32 zero = 0;
	struct ended *last = bpf_map_lookup_elem(&ended_last, &zero);

	if (!last)
		return;
	last->request = request;
	last->generation = generation;
}

/* True only once. An interrupt may have noted another one since: then nothing is known. */
static __always_inline bool ended_forget(__u64 request, __u64 generation)
{
	__u32 zero = 0;
	struct ended *last = bpf_map_lookup_elem(&ended_last, &zero);

	if (!last || last->request != request || last->generation != generation)
		return false;
	last->request = 0;
	return true;
}

/* ---- interrupts ---- */

/* Set before loading: the disk whose interrupt it is, 0 = no disk's. */
const volatile __u32 device_of_irq[IOTRACE_IRQS];
const volatile bool uses_irqs;

/* The last disk interrupt of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iotrace_interrupt);
} interrupts SEC(".maps");

/* 0: of no disk that is split by its interrupts. */
static __always_inline __u32 device_of_interrupt(int irq)
{
	__u64 number = (__u32)irq;

	barrier_var(number); /* else the compiler loses what the verifier must see */
	return number < IOTRACE_IRQS ? device_of_irq[number] : 0;
}

#endif
