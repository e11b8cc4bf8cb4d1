/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * With --vfs: a system call that waits for requests, from its first bio to its return.
 *
 *   block_bio_queue ...... what the call has asked for is added up
 *   block_rq_complete .... and what of it is complete; mostly on another CPU, while the task sleeps
 *   sys_exit ............. when all of it is, the last completion began the way back to the caller
 */
#ifndef RETURN_BPF_H
#define RETURN_BPF_H

#include "filter.bpf.h"
#include "log.bpf.h"

/* Set before loading. */
const volatile bool measures_vfs;

/* The system call that a task is in. */
struct call {
	__u64 enter_ns;
	__u64 stamp; /* see is_whole() */
	__u32 tid;
	__u32 bios; /* queued within the call */
	__u16 number;
	__u16 wait; /* the task's place among the waits, from its first one on; 0 = none yet */
	__u8 kind;  /* enum iotrace_call */
	bool on_file;
	bool waits; /* for requests: has a place, or had */
	bool is_new; /* see again.bpf.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iotrace_vfs_table);
} vfs_tables SEC(".maps");

/* Of the call that entered then. Places go round: a task may lose its own to another one, and then has no return. */
struct wait {
	__u64 enter_ns;
	__u64 bytes;	/* of its bios */
	__u64 asked;	/* the same, but an empty bio is 1 */
	__u64 others;	/* bytes of others' bios that were merged into its requests */
	__u64 complete; /* like `asked`, of its requests that are, with others' bios */
	__u64 last_ns;	/* the latest completion */
	__u32 tid;
	__u32 requests; /* complete */
	__u32 recorded; /* of these, the ones that pass the filters and the sample */
	__u32 bios;	/* that the requests are made of */
};

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

/*
 * A bio is queued within the call. One for a volume is none to wait for: others will come, of its disks, or of none. The
 * disk of NVMe multipath is likewise one that hands bios on.
 */
static __always_inline void wait_for(struct call *call, struct iotrace_flight *flight, struct bio *bio)
{
	__u32 tid = flight->event.task.tid, size_bytes = bio->bi_iter.bi_size;
	struct wait *wait;

	if (bio->bi_bdev->bd_disk->fops->submit_bio)
		return;
	wait = call->waits ? wait_of(call->wait, call->enter_ns, tid) : wait_begin(call, tid);
	if (!wait)
		return;
	wait->bios++;
	wait->bytes += size_bytes;
	wait->asked += size_bytes ?: 1;
	flight->event.wait = call->wait;
}

static __always_inline bool is_same_call(const struct iotrace_flight *one, const struct iotrace_flight *other)
{
	return measures_vfs && one->event.wait == other->event.wait && one->event.enter_ns == other->event.enter_ns &&
	       one->event.task.tid == other->event.task.tid;
}

/* So many bytes of the request are of bios that are not the call's. */
static __always_inline void wait_share(const struct iotrace_flight *flight, __u64 bytes)
{
	struct wait *wait = wait_of(flight->event.wait, flight->event.enter_ns, flight->event.task.tid);

	if (wait && bytes)
		__sync_fetch_and_add(&wait->others, bytes);
}

/* A request is complete. */
static __always_inline void wait_note(const struct iotrace_flight *flight, __u64 now, bool recorded)
{
	struct wait *wait = wait_of(flight->event.wait, flight->event.enter_ns, flight->event.task.tid);
	__u64 last;

	if (!wait)
		return;
	/* Other CPUs may complete requests of the same call at this instant. */
#pragma unroll
	for (int i = 0; i < 4; i++) {
		last = wait->last_ns;
		if (last >= now || __sync_val_compare_and_swap(&wait->last_ns, last, now) == last)
			break;
	}
	__sync_fetch_and_add(&wait->requests, 1);
	if (recorded)
		__sync_fetch_and_add(&wait->recorded, 1);
	__sync_fetch_and_add(&wait->complete, flight->event.size_bytes ?: 1);
}

/* Made only when there are records that it completes. */
static __always_inline void emit_return(void *ctx, struct iotrace_vfs_table *table, const struct call *call,
					const struct iotrace_task *task, __u64 now)
{
	struct wait *wait = wait_of(call->wait, call->enter_ns, task->tid);
	struct iotrace_return event = {
		.enter_ns = call->enter_ns,
		.exit_ns = now,
		.kind = call->kind,
	};
	struct iotrace_event *slot;
	__u16 lap;

	if (!wait || !wait->recorded)
		return;
	/* What completes from now on was not waited for. */
	event.done_ns = wait->complete >= wait->asked + wait->others && wait->last_ns <= now ? wait->last_ns : 0;
	event.bios = wait->bios;
	event.bytes = wait->bytes;
	event.requests = wait->requests;
	event.task = *task;
	table->returns++;
	slot = log_begin((const struct iotrace_event *)&event, &lap);
	if (!slot) {
		table->returns_dropped++;
		return;
	}
	slot->mode = IOTRACE_RETURN;
	log_end(ctx, slot, lap);
}

#endif
