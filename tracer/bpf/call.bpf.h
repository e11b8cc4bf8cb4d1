/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the calls that tasks are in are kept, and with --vfs what they wait for, with CO-RE. */
#ifndef CALL_BPF_H
#define CALL_BPF_H

#include "filter.bpf.h"
#include "peek.bpf.h"

/* Set before loading. */
const volatile bool times_calls; /* sys_enter is there */
const volatile bool measures_vfs;
const volatile __u8 call_of[IOTRACE_SYSCALLS];

static __always_inline __u8 kind_of_call(__u64 number)
{
	return number < IOTRACE_SYSCALLS ? call_of[number & (IOTRACE_SYSCALLS - 1)] : IOTRACE_CALL_NONE;
}

/*
 * The calls of the tasks, by their numbers: the kernel's task storage takes 45 ns more at each call and 10 more at each
 * bio. A task that is not among the four of its bucket takes the place of the one whose latest call began first.
 */
#define CALL_BUCKET_BITS 13
#define CALL_WAYS 4

struct call_bucket {
	struct call way[CALL_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << CALL_BUCKET_BITS);
	__type(key, __u32);
	__type(value, struct call_bucket);
} calls SEC(".maps");

static __always_inline struct call_bucket *calls_beside(__u32 tid)
{
	__u32 index = tid & ((1 << CALL_BUCKET_BITS) - 1);

	return bpf_map_lookup_elem(&calls, &index);
}

static __always_inline struct call *call_find(struct call_bucket *bucket, __u32 tid)
{
#pragma unroll
	for (int i = 0; i < CALL_WAYS; i++)
		if (bucket->way[i].tid == tid)
			return &bucket->way[i];
	return NULL;
}

static __noinline struct call *call_claim(__u32 tid)
{
	struct call_bucket *bucket = calls_beside(tid);
	struct call *oldest;
	__u32 before;

	if (!bucket)
		return NULL;
	oldest = &bucket->way[0];
#pragma unroll
	for (int i = 1; i < CALL_WAYS; i++)
		if (bucket->way[i].enter_ns < oldest->enter_ns)
			oldest = &bucket->way[i];
	before = oldest->tid;
	if (__sync_val_compare_and_swap(&oldest->tid, before, tid) != before)
		return NULL; /* another task took it at this instant */
	oldest->wait = 0;
	return oldest;
}

/* NULL: nothing is known of it. */
static __always_inline struct call *call_known(__u32 tid)
{
	struct call_bucket *bucket = times_calls ? calls_beside(tid) : NULL;

	return bucket ? call_find(bucket, tid) : NULL;
}

static __always_inline struct call *call_place(__u32 tid)
{
	struct call_bucket *bucket = calls_beside(tid);

	if (!bucket)
		return NULL;
	return call_find(bucket, tid) ?: call_claim(tid);
}

/* Where the user's registers lie, from the lowest address of a task's stack on; the same for all tasks. */
__u64 registers_offset = 0;

/* The number of the call that the task is in. The helper that finds the registers takes 30 ns where caches are cold. */
static __always_inline __u64 number_of_call(struct task_struct *current, __u64 *cell)
{
	__u64 stack = as_number(cell, current->stack);

	if (!registers_offset)
		registers_offset = as_number(cell, (void *)bpf_task_pt_regs(current)) - stack;
	return PEEK_SYSCALL_NUMBER(stack + registers_offset);
}

/* ---- with --vfs ---- */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iotrace_vfs_table);
} vfs_tables SEC(".maps");

/* Places go round: a task may lose its own to another one, and then has no return. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before loading: for tasks and requests of io_uring when it is used */
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

__u32 waits_taken = 0;

static __always_inline struct wait *wait_of(__u32 index, __u64 enter_ns, __u32 tid)
{
	struct wait *wait = index ? bpf_map_lookup_elem(&waits, &index) : NULL;

	return wait && wait->enter_ns == enter_ns && wait->tid == tid ? wait : NULL;
}

static __always_inline struct wait *wait_begin(struct call *call, __u32 tid)
{
	struct wait *wait;
	__u32 index;

	call->waits = true;
	if (!call->wait)
		call->wait = 1 + __sync_fetch_and_add(&waits_taken, 1) % (IOTRACE_WAITS - 1);
	index = call->wait;
	wait = bpf_map_lookup_elem(&waits, &index);
	if (!wait)
		return NULL;
	*wait = (struct wait){.enter_ns = call->enter_ns, .tid = tid};
	return wait;
}

/* Other CPUs may complete requests of the same call at this instant. */
static __always_inline void wait_until(struct wait *wait, __u64 now)
{
	__u64 last;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		last = wait->last_ns;
		if (last >= now || __sync_val_compare_and_swap(&wait->last_ns, last, now) == last)
			break;
	}
}

#endif
