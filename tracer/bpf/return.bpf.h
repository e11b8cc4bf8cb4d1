/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * With --vfs: a system call that waits for requests, from its first bio to its return. Of both backends.
 *
 *   block_bio_queue ...... what the call has asked for is added up
 *   block_rq_complete .... and what of it is complete; mostly on another CPU, while the task sleeps
 *   sys_exit ............. when all of it is, the last completion began the way back to the caller
 */
#ifndef RETURN_BPF_H
#define RETURN_BPF_H

#include "call.bpf.h"
#include "log.bpf.h"

/*
 * A bio is queued within the call. One for a volume is none to wait for: others will come, of its disks, or of none. The
 * disk of NVMe multipath is likewise one that hands bios on.
 */
static __always_inline void wait_for(struct call *call, struct iotrace_flight *flight, struct bio *bio)
{
	__u32 tid = flight->event.task.tid, size_bytes = FIELD(bio, bi_iter.bi_size);
	struct wait *wait;

	if (goes_to_volume(bio))
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
	return one->event.wait && one->event.wait == other->event.wait && one->event.enter_ns == other->event.enter_ns &&
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

	if (!wait)
		return;
	wait_until(wait, now);
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
	slot = log_begin((struct iotrace_event *)&event, &lap);
	if (!slot) {
		table->returns_dropped++;
		return;
	}
	slot->mode = IOTRACE_RETURN;
	if (!log_end(ctx, slot, lap))
		table->returns_dropped++;
}

#endif
