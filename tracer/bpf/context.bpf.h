/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is not I/O but may make a moment slow: histograms and counters, never a record each. Loaded with --context. */
#ifndef CONTEXT_BPF_H
#define CONTEXT_BPF_H

#include "device.bpf.h"
#include "histogram.bpf.h"
#include "peek.bpf.h"
#include "tcp.bpf.h"

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

static __always_inline struct iotrace_context *context_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&contexts, &zero);
}

static __always_inline void becomes_runnable(struct task_struct *task)
{
	__u32 tid = task->pid;
	struct waiting_bucket *bucket;
	__u64 waits, *place;

	if (!switched_on || !tid) /* the idle task never waits */
		return;
	bucket = waiting_beside(tid);
	if (!bucket)
		return;
	waits = (__u64)tid << WAITING_TIME_BITS | (bpf_ktime_get_ns() & WAITING_TIME);
	place = waiting_find(bucket, tid);
	if (place)
		*place = waits;
	else
		waiting_claim(bucket, waits);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	becomes_runnable(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	becomes_runnable(task);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempted, struct task_struct *from, struct task_struct *to)
{
	struct iotrace_context *context;
	__u64 waits;

	if (!switched_on)
		return 0;
	if (stays_runnable(ctx, from))
		becomes_runnable(from);
	else
		waiting_end(from->pid); /* it still waits when nobody saw the thread get this CPU */
	waits = waiting_end(to->pid);
	context = waits ? context_of_cpu() : NULL;
	if (context)
		fine_add(&context->run_queue_ns, (bpf_ktime_get_ns() - waits) & WAITING_TIME);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock *sock)
{
	struct iotrace_context *context;

	if (!switched_on)
		return 0;
	context = context_of_cpu();
	if (context)
		fine_add(&context->tcp_rtt_us, rtt_us(sock));
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sock, struct sk_buff *buffer)
{
	struct iotrace_context *context = switched_on ? context_of_cpu() : NULL;

	if (context && in_retrans_segs(ctx))
		context->tcp_retransmits += segments_of(buffer);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int mm_filemap_add_to_page_cache(void *ctx)
{
	struct iotrace_context *context = switched_on ? context_of_cpu() : NULL;

	if (context)
		count(&context->page_cache_added);
	return 0;
}

#endif
