// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Follows every request from the system call to its completion and hands one record to user space.
 *
 *   sys_enter ........ remember when the task entered a read, write or sync call
 *   block_bio_queue .. a bio enters the block layer: who, when, which file     -> flight of the bio
 *   block_split ...... the split-off part inherits its parent's flight
 *   block_rq_insert .. the request enters the I/O scheduler
 *   block_rq_issue ... the driver gets it: bios' flights become the request's -> flight of the request
 *   block_rq_requeue . the driver gives it back
 *   block_rq_complete  the record is written, and counted
 *   block_io_done .... safety net, see there
 */
#include "owner.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- system calls ---- */

const volatile __u8 call_of[IOTRACE_SYSCALLS]; /* set before loading */

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct call *call;
	__u8 kind;

	if (!switched_on || (__u64)number >= IOTRACE_SYSCALLS)
		return 0;
	kind = call_of[number & (IOTRACE_SYSCALLS - 1)];
	if (!kind)
		return 0;
	call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return 0;
	call->enter_ns = bpf_ktime_get_ns();
	call->kind = kind;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit)
{
	struct call *call;

	if (!switched_on)
		return 0;
	call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
	if (call)
		call->kind = IOTRACE_CALL_NONE;
	return 0;
}

/* ---- bios ---- */

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	__u32 device = device_of(bio->bi_bdev->bd_disk);
	struct iotrace_flight *flight;
	__u64 now;

	if (!switched_on || !counters_of(device))
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_claim(address_of(ctx));
	if (!flight)
		return 0;
	count_unseen(flight);
	flight_clear(flight, now, 0);
	flight->queue_ns = now;
	flight->device = device;
	flight_own(flight, bio);
	/* An empty flush is never issued itself: its bio is all that we see of it before it completes. */
	if (flight->flags & FLIGHT_PREFLUSH && !bio->bi_iter.bi_size)
		flight->flags |= FLIGHT_COUNTED;
	return 0;
}

/* The kernel passes the part that was split off; bio_chain() has made the rest its bi_private. */
SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *bio, unsigned int new_sector)
{
	struct iotrace_flight *parent, *flight;
	__u64 now;

	if (!switched_on)
		return 0;
	parent = flight_find((__u64)BPF_CORE_READ(bio, bi_private));
	if (!parent)
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_claim(address_of(ctx));
	if (!flight || flight == parent)
		return 0;
	flight_clear(flight, now, 0);
	flight_inherit(flight, parent);
	return 0;
}

/* ---- requests ---- */

static __always_inline bool has_flag(struct request *rq, __u32 bit_by_name, __u32 bit_before_names)
{
	/* Before 6.10 the flags were macros: FLUSH_SEQ bit 4, IO_STAT bit 13. */
	__u32 bit = bpf_core_type_exists(enum rqf_flags) ? bit_by_name : bit_before_names;

	return rq->rq_flags & 1U << bit;
}

static __always_inline bool in_flush_sequence(struct request *rq)
{
	return has_flag(rq, bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ), 4);
}

static __always_inline bool in_diskstats(struct request *rq)
{
	return has_flag(rq, bpf_core_enum_value(enum rqf_flags, __RQF_IO_STAT), 13);
}

/* The kernel's own flush command, which serves all requests that wait for a flush on this queue. */
static __always_inline bool is_flush_command(struct request *rq)
{
	return (rq->cmd_flags & OP_MASK) == OP_FLUSH;
}

struct flush {
	__u64 issue_ns;
};

/* The last flush command that completed, by hardware queue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct flush);
} flushes SEC(".maps");

/*
 * A request that asked for a flush before it waits until the kernel's flush command is done. That is
 * time of the device, so the first command issued for the request is that flush. It cannot have been
 * issued before the request was queued: the kernel starts a new flush for those that come later.
 */
static __always_inline __u64 preflush_issued(struct request *rq, struct iotrace_flight *flight)
{
	__u64 queue = (__u64)BPF_CORE_READ(rq, mq_hctx);
	struct flush *flush;

	if (!(flight->flags & FLIGHT_PREFLUSH) || !flight->queue_ns)
		return 0;
	flush = bpf_map_lookup_elem(&flushes, &queue);
	if (!flush || flush->issue_ns < flight->queue_ns)
		return 0;
	return flush->issue_ns;
}

struct gathering {
	__u64 bio;
	struct iotrace_flight owner; /* of the earliest bio among those that pass the filters, else of all */
	__u16 bios;
};

static long gather_bio(__u64 index, struct gathering *gathering)
{
	struct bio *bio = (struct bio *)gathering->bio;
	struct iotrace_flight *owner = &gathering->owner;
	struct iotrace_flight *flight;
	bool better;

	if (!bio)
		return 1;
	gathering->bios++;
	flight = flight_find((__u64)bio);
	if (flight) {
		bool selected = flight->flags & FLIGHT_SELECTED;
		bool owner_selected = owner->flags & FLIGHT_SELECTED;

		better = selected == owner_selected ? flight->queue_ns < owner->queue_ns : selected;
		if (!owner->queue_ns || better)
			flight_inherit(owner, flight);
		flight_free(flight);
	}
	gathering->bio = (__u64)BPF_CORE_READ(bio, bi_next);
	return 0;
}

#define MAX_BIOS 1024

/* Moves what is known about the request's bios to the flight of the request. */
static __always_inline void gather(struct iotrace_flight *flight, struct request *rq)
{
	struct bio *first = BPF_CORE_READ(rq, bio);
	struct gathering gathering = {.bio = (__u64)first};
	struct iotrace_flight *only;

	if (!first)
		return;
	if (!BPF_CORE_READ(first, bi_next)) {
		flight->bios = 1;
		only = flight_find((__u64)first);
		if (!only)
			return;
		flight_inherit(flight, only);
		flight_free(only);
		return;
	}
	bpf_loop(MAX_BIOS, gather_bio, &gathering, 0);
	flight->bios = gathering.bios;
	flight_inherit(flight, &gathering.owner);
}

/* The flight of this very request: cleared when it still tells of an older one at the same address. */
static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 key, __u64 now)
{
	struct iotrace_flight *flight = flight_claim(key);

	if (!flight)
		return NULL;
	if (flight->generation == rq->start_time_ns && !(flight->flags & FLIGHT_DONE) && flight->touched_ns)
		return flight;
	count_unseen(flight);
	flight_clear(flight, now, rq->start_time_ns);
	return flight;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq)
{
	struct iotrace_flight *flight;
	__u32 device;
	__u64 now;

	if (!switched_on || !counters_of_request(rq, &device))
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_of_request(rq, address_of(ctx), now);
	if (flight && !flight->insert_ns)
		flight->insert_ns = now;
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	struct iotrace_flight *flight;
	__u64 now, flushed;
	__u32 device;

	if (!switched_on || !counters_of_request(rq, &device))
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_of_request(rq, address_of(ctx), now);
	if (!flight || flight->issue_ns) /* issued again after a requeue: the first one counts */
		return 0;
	gather(flight, rq);
	flight->bytes = rq->__data_len;
	flight->device = device;
	flight->issue_ns = now;
	if (in_diskstats(rq) || is_flush_command(rq))
		flight->flags |= FLIGHT_COUNTED;
	flushed = preflush_issued(rq, flight);
	if (flushed) {
		flight->issue_ns = flushed;
		flight->insert_ns = 0;
	}
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	struct iotrace_flight *flight;

	if (!switched_on)
		return 0;
	flight = flight_find(address_of(ctx));
	if (flight && flight->generation == rq->start_time_ns)
		flight->requeues++;
	return 0;
}

/* ---- completion ---- */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20); /* set before loading */
} records SEC(".maps");

static __always_inline __u8 mode_of(struct request *rq)
{
	__u32 op = rq->cmd_flags & OP_MASK;

	if (op == OP_FLUSH)
		return IOTRACE_FLUSH;
	if (op == OP_DISCARD)
		return IOTRACE_DISCARD;
	return op & 1 ? IOTRACE_WRITE : IOTRACE_READ;
}

static __always_inline __u8 record_flags(struct request *rq, struct iotrace_flight *flight)
{
	__u32 opf = rq->cmd_flags;
	__u8 flags = 0;

	if (flight->flags & FLIGHT_PREFLUSH)
		flags |= IOTRACE_PREFLUSH;
	if (flight->flags & FLIGHT_FUA)
		flags |= IOTRACE_FUA;
	if (flags || !(opf & OP_MASK) || opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC))
		flags |= IOTRACE_SYNC;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META))
		flags |= IOTRACE_META;
	if (flight->queue_ns)
		flags |= IOTRACE_OWNED;
	return flags;
}

static __always_inline void fill_layers(struct iotrace_record *record, struct iotrace_flight *flight, __u64 now)
{
	__u64 queue = flight->queue_ns, issue = flight->issue_ns, enter = flight->enter_ns;

	record->vfs_ns = record->block_ns = record->driver_ns = IOTRACE_EMPTY;
	record->device_ns = record->scheduler_ns = IOTRACE_EMPTY;
	record->start_ns = queue ? queue : issue;
	if (issue)
		record->device_ns = now - issue;
	if (!queue)
		return;
	/* Never issued (failed before, or an empty flush without a cache to flush): all of it is the block layer. */
	record->block_ns = (issue ? issue : now) - queue;
	if (issue && flight->insert_ns)
		record->scheduler_ns = issue - flight->insert_ns;
	if (enter) {
		record->vfs_ns = queue - enter;
		record->start_ns = enter;
	}
}

static __always_inline void emit(struct iotrace_counters *counters, struct request *rq, struct iotrace_flight *flight,
				 __u32 device, __u64 now, __u8 status)
{
	struct iotrace_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	count(&counters->completions);
	if (!record) {
		count(&counters->dropped);
		return;
	}
	fill_layers(record, flight, now);
	record->sector = rq->__sector;
	record->cgroup_id = flight->cgroup_id;
	record->inode = flight->inode;
	record->size_bytes = flight->bytes;
	record->device = device;
	record->pid = flight->pid_tgid >> 32;
	record->tid = (__u32)flight->pid_tgid;
	__builtin_memcpy(record->comm, flight->comm, sizeof(record->comm));
	record->mode = mode_of(rq);
	record->origin = flight->origin;
	record->flags = record_flags(rq, flight);
	record->status = status;
	record->bios = flight->bios;
	record->requeues = flight->requeues;
	/* User space looks by itself: a wake-up per record costs 0.7 us. */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	count(&counters->emitted);
}

/* Which count a request belongs to, or IOTRACE_EX_COUNT when a record can be made of it. */
static __always_inline int exclusion(struct request *rq, struct iotrace_flight *flight, __u8 status)
{
	bool began_before = rq->start_time_ns && rq->start_time_ns < switched_on_ns;

	if (is_flush_command(rq)) {
		if (!flight->issue_ns)
			return began_before ? IOTRACE_EX_IN_FLIGHT_AT_START : IOTRACE_EX_UNTRACKED;
	} else if (!flight->queue_ns && (began_before || !flight->issue_ns)) {
		return began_before ? IOTRACE_EX_IN_FLIGHT_AT_START : IOTRACE_EX_UNTRACKED;
	} else if (!flight->issue_ns && !status && !(flight->flags & (FLIGHT_PREFLUSH | FLIGHT_FUA))) {
		return IOTRACE_EX_UNTRACKED;
	}
	if ((filter_pids || cgroup_count) && !(flight->flags & FLIGHT_SELECTED))
		return IOTRACE_EX_FILTERED;
	return IOTRACE_EX_COUNT;
}

/*
 * One request is over: the same condition under which blk_account_io_done() and, for flush commands,
 * blk_account_io_flush() count it, so that the sum can be compared with diskstats.
 */
static __always_inline void finish(struct request *rq, __u64 key, struct iotrace_counters *counters,
				   __u32 device, __u8 status)
{
	__u32 op = rq->cmd_flags & OP_MASK;
	bool counted = in_diskstats(rq) || is_flush_command(rq);
	__u64 now = bpf_ktime_get_ns();
	__u32 on = switched_on;
	struct iotrace_flight *flight = flight_of_request(rq, key, now);
	__u64 queue = (__u64)BPF_CORE_READ(rq, mq_hctx);
	int why;

	if (!flight || !on || op == OP_DRV_IN || op == OP_DRV_OUT) {
		if (counted && !on)
			count(&counters->idle);
		else if (counted)
			count(&counters->excluded[flight ? IOTRACE_EX_PASSTHROUGH : IOTRACE_EX_UNTRACKED]);
		goto done;
	}
	if (is_flush_command(rq) && flight->issue_ns) {
		struct flush flush = {.issue_ns = flight->issue_ns};

		bpf_map_update_elem(&flushes, &queue, &flush, BPF_ANY);
	}
	if (!flight->issue_ns) {
		gather(flight, rq);
		flight->issue_ns = preflush_issued(rq, flight);
	}
	why = exclusion(rq, flight, status);
	if (why == IOTRACE_EX_COUNT) {
		emit(counters, rq, flight, device, now, status);
		if (!counted)
			__sync_fetch_and_add(&counters->excluded[IOTRACE_EX_NOT_IN_DISKSTATS], -1);
	} else if (counted) {
		count(&counters->excluded[why & 7]);
	}
done:
	if (flight)
		flight->flags = FLIGHT_DONE;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	struct iotrace_counters *counters;
	__u32 device;

	/* Only the last of several partial completions ends the request. */
	if (nr_bytes < rq->__data_len)
		return 0;
	/* The data of a write between its two flushes: the request completes once more when all is done. */
	if (in_flush_sequence(rq) && !is_flush_command(rq))
		return 0;
	counters = counters_of_request(rq, &device);
	if (counters)
		finish(rq, address_of(ctx), counters, device, error);
	return 0;
}

/*
 * The kernel skips a BPF program that an interrupt would run while the same program already runs on that
 * CPU: the completion of a loop device's request, interrupted by the completion on the disk below, would
 * hide the latter. This tracepoint follows block_rq_complete on the same request, and deals with those
 * that were skipped. Not there before 6.5; misses are then seen in program_misses only.
 */
SEC("tp_btf/block_io_done")
int BPF_PROG(block_io_done, struct request *rq)
{
	struct iotrace_counters *counters;
	struct iotrace_flight *flight;
	__u64 key;
	__u32 device;

	if (in_flush_sequence(rq) && !is_flush_command(rq))
		return 0;
	counters = counters_of_request(rq, &device);
	if (!counters)
		return 0;
	key = address_of(ctx);
	flight = flight_find(key);
	if (!flight || flight->generation != rq->start_time_ns || !(flight->flags & FLIGHT_DONE))
		finish(rq, key, counters, device, 0);
	flight = flight_find(key);
	if (flight && flight->flags & FLIGHT_DONE)
		flight_free(flight);
	return 0;
}
