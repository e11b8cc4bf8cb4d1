/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where the programs of context.bpf.h, peer.bpf.h and span.bpf.h keep what they know, with CO-RE; bcc_beside.bpf.h is the
 * same for BCC.
 */
#ifndef BESIDE_BPF_H
#define BESIDE_BPF_H

#include "iotrace.h"
#include "peek.bpf.h"

/* ---- context ---- */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iotrace_context);
} contexts SEC(".maps");

/*
 * The tasks that wait for a CPU, and since when: their numbers, of 22 bits at most (PID_MAX_LIMIT), before the last 42
 * bits of the time, 73 minutes; 0 = nobody. One word, so that who loses a place to another task has no wrong time. Not
 * the kernel's task storage: before 6.4 (08a7ce384e33) a new one is memory asked for with the run queue's lock held,
 * and when memory is short that wakes kswapd, which takes such a lock.
 */
#define WAITING_WAYS 4 /* without a larger pid_max than 32768 no bucket has more tasks */
#define WAITING_TIME_BITS 42
#define WAITING_TIME ((1ULL << WAITING_TIME_BITS) - 1)

struct waiting_bucket {
	__u64 way[WAITING_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before loading: 1 << IOTRACE_WAITING_BUCKET_BITS when it is used */
	__type(key, __u32);
	__type(value, struct waiting_bucket);
} waiting SEC(".maps");

static __always_inline struct waiting_bucket *waiting_beside(__u32 tid)
{
	__u32 index = tid & ((1 << IOTRACE_WAITING_BUCKET_BITS) - 1);

	return bpf_map_lookup_elem(&waiting, &index);
}

static __always_inline __u64 *waiting_find(struct waiting_bucket *bucket, __u32 tid)
{
#pragma unroll
	for (int i = 0; i < WAITING_WAYS; i++)
		if (bucket->way[i] >> WAITING_TIME_BITS == tid)
			return &bucket->way[i];
	return NULL;
}

/* A free place, or that of the one that waits longest. */
static __always_inline void waiting_claim(struct waiting_bucket *bucket, __u64 waits)
{
	__u64 *longest = &bucket->way[0], before;

#pragma unroll
	for (int i = 0; i < WAITING_WAYS; i++)
		if (!bucket->way[i] && __sync_val_compare_and_swap(&bucket->way[i], 0, waits) == 0)
			return;
#pragma unroll
	for (int i = 1; i < WAITING_WAYS; i++)
		if (((waits - bucket->way[i]) & WAITING_TIME) > ((waits - *longest) & WAITING_TIME))
			longest = &bucket->way[i];
	before = *longest;
	__sync_val_compare_and_swap(longest, before, waits);
}

static __always_inline void waiting_begin(__u32 tid)
{
	struct waiting_bucket *bucket = waiting_beside(tid);
	__u64 waits, *place;

	if (!bucket)
		return;
	waits = (__u64)tid << WAITING_TIME_BITS | (bpf_ktime_get_ns() & WAITING_TIME);
	place = waiting_find(bucket, tid);
	if (place)
		*place = waits;
	else
		waiting_claim(bucket, waits);
}

/* Since when it has waited, and no longer does; 0: nobody knows. */
static __always_inline __u64 waiting_end(__u32 tid)
{
	struct waiting_bucket *bucket = tid ? waiting_beside(tid) : NULL; /* the idle task never waits */
	__u64 *place = bucket ? waiting_find(bucket, tid) : NULL, waits = place ? *place : 0;

	if (!waits || waits >> WAITING_TIME_BITS != tid)
		return 0;
	__sync_val_compare_and_swap(place, waits, 0); /* unless another task has just taken the place */
	return waits;
}

/* ---- peers ---- */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* IOTRACE_PEERS with --peers */
	__type(key, struct iotrace_address);
	__type(value, struct iotrace_peer);
} peers SEC(".maps");

static const struct iotrace_peer new_peer; /* too large for the stack */

/* False: the kernel has no IPv6. */
static __always_inline bool read_address_6(const struct sock_common *common, struct iotrace_address *address)
{
	if (!bpf_core_field_exists(common->skc_v6_daddr))
		return false;
	bpf_core_read(address->bytes, sizeof(address->bytes), &common->skc_v6_daddr);
	return true;
}

static __always_inline void peer_begin(const struct iotrace_address *address)
{
	bpf_map_update_elem(&peers, address, &new_peer, BPF_NOEXIST);
}

/* ---- spans ---- */

/* Set before loading. */
const volatile __u8 span_call_of[IOTRACE_SYSCALLS]; /* enum iotrace_span_call */
const volatile __u32 span_sample_every = 1;

volatile __u64 processes_not_counted = 0; /* spans of more processes than there is room for */
volatile __u64 samples_dropped = 0;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct span);
} spans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading: IOTRACE_SPAN_SOCKETS when it is used */
	__type(key, __u64);
	__type(value, struct receiver);
} receivers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before loading: IOTRACE_SPAN_PROCESSES when it is used */
	__type(key, __u32);
	__type(value, struct iotrace_process);
} processes SEC(".maps");

/* Never written: what a new process begins with. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iotrace_process);
} new_process SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set before loading: IOTRACE_SAMPLE_BYTES when it is used */
} samples SEC(".maps");

static __always_inline __u8 span_call(__u64 number)
{
	return number < IOTRACE_SYSCALLS ? span_call_of[number & (IOTRACE_SYSCALLS - 1)] : IOTRACE_SPAN_NONE;
}

/* NULL: it has had none. */
static __always_inline struct span *span_known(struct task_struct *task)
{
	return bpf_task_storage_get(&spans, task, NULL, 0);
}

static __always_inline struct span *span_place(struct task_struct *task)
{
	return bpf_task_storage_get(&spans, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* `task` is about to sleep. */
static __always_inline bool waits_for_disk(__u64 *sched_switch, struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
}

static __always_inline void count_process_left_out(void)
{
	count((__u64 *)&processes_not_counted);
}

static __always_inline void send_sample(void *ctx, const struct iotrace_span *sample)
{
	if (bpf_ringbuf_output(&samples, (void *)sample, sizeof(*sample), BPF_RB_NO_WAKEUP))
		count((__u64 *)&samples_dropped);
}

#endif
