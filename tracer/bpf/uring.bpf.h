/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests of io_uring, each a call of its own: it enters when the kernel takes it from the ring, and (--vfs) returns
 * when its completion entry is posted.
 *
 *   io_uring_submit_req .. the request is known from now on; io_uring_submit_sqe before 6.3; before 6.0 no more than that
 *   block_bio_queue ...... for which request the bio is, where that is certain
 *   io_uring_link ........ it will be issued when another one is complete
 *   io_uring_complete .... it is counted, and an event is made when it had requests of the disk
 *   io_uring_req_failed .. it was not taken after all
 */
#ifndef URING_BPF_H
#define URING_BPF_H

#include <asm/fcntl.h>

#include "end.bpf.h"
#include "syscall.bpf.h"

/* Set before loading: these programs are there. */
const volatile bool traces_uring;
const volatile bool uring_returns;	/* with --vfs; those that tell of its end, too */
const volatile bool uring_names_second; /* the request is the second argument of io_uring_submit_sqe: before 6.0 */
const volatile __u32 async_data_bit; /* of io_kiocb.flags */

struct uring_request {
	__u64 address;	  /* of the io_kiocb; 0 = free */
	struct call call; /* its task and number are not used */
	struct iotrace_task task; /* queued its bios */
	__u32 pid;		  /* took it from the ring */
	__u16 place;		  /* its number in the table, and that of its wait behind those of tasks */
	bool selected;		  /* that process passes the filters */
	bool linked;
};

struct uring_bucket {
	struct uring_request way[IOTRACE_WAYS];
};

/* By address, as flights are. Without --vfs nothing tells that a request is over; its place goes to another one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before loading: 1 << IOTRACE_URING_BUCKET_BITS when it is used */
	__type(key, __u32);
	__type(value, struct uring_bucket);
} uring_requests SEC(".maps");

static __always_inline struct uring_request *uring_find(__u64 address)
{
	__u32 index = bucket_at(address, IOTRACE_URING_BUCKET_BITS);
	struct uring_bucket *bucket = bpf_map_lookup_elem(&uring_requests, &index);
	__u64 way_bytes = sizeof(struct uring_request);

	return bucket && address ? way_at(bucket, way_with(bucket, address, way_bytes), way_bytes) : NULL;
}

/* The place of `address`, or a free one, or that of the request which was taken from its ring first. */
static __always_inline struct uring_request *uring_claim(__u64 address)
{
	struct uring_request *request = uring_find(address), *oldest;
	__u32 index = bucket_at(address, IOTRACE_URING_BUCKET_BITS);
	struct uring_bucket *bucket;
	__u64 before;

	if (request)
		return request;
	bucket = bpf_map_lookup_elem(&uring_requests, &index);
	if (!bucket)
		return NULL;
#pragma unroll
	for (int i = 0; i < IOTRACE_WAYS; i++)
		if (__sync_val_compare_and_swap(&bucket->way[i].address, 0, address) == 0) {
			bucket->way[i].place = IOTRACE_WAYS * index + i;
			return &bucket->way[i];
		}
	oldest = &bucket->way[0];
#pragma unroll
	for (int i = 1; i < IOTRACE_WAYS; i++)
		if (bucket->way[i].call.enter_ns < oldest->call.enter_ns)
			oldest = &bucket->way[i];
	before = oldest->address;
	return __sync_val_compare_and_swap(&oldest->address, before, address) == before ? oldest : NULL;
}

static __always_inline void uring_free(struct uring_request *request)
{
	*(volatile __u64 *)&request->address = 0;
}

/* When a process last queued a bio for a request of which nobody knows which one it is. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading: IOTRACE_URING_PROCESSES when it is used */
	__type(key, __u32);
	__type(value, __u64);
} uring_unnamed SEC(".maps");

/* uapi/linux/io_uring.h */
enum {
	OP_READV = 1,
	OP_WRITEV = 2,
	OP_FSYNC = 3,
	OP_READ_FIXED = 4,
	OP_WRITE_FIXED = 5,
	OP_SYNC_FILE_RANGE = 8,
	OP_READ_BUFFER = 22,
	OP_WRITE_BUFFER = 23,
	OP_READV_FIXED = 60, /* these two since 6.15 */
	OP_WRITEV_FIXED = 61,
};

static __always_inline __u32 kind_of_opcode(__u8 opcode)
{
	switch (opcode) {
	case OP_READV:
	case OP_READ_FIXED:
	case OP_READ_BUFFER:
	case OP_READV_FIXED:
		return IOTRACE_CALL_READ;
	case OP_WRITEV:
	case OP_WRITE_FIXED:
	case OP_WRITE_BUFFER:
	case OP_WRITEV_FIXED:
		return IOTRACE_CALL_WRITE;
	case OP_FSYNC:
	case OP_SYNC_FILE_RANGE:
		return IOTRACE_CALL_SYNC;
	default:
		return IOTRACE_CALL_TIMED;
	}
}

static __always_inline int uring_begin(__u64 address)
{
	struct task_struct *current;
	struct uring_request *request;
	__u64 now;

	if (!switched_on)
		return 0;
	now = bpf_ktime_get_ns();
	current = bpf_get_current_task_btf();
	request = uring_claim(address);
	if (!request)
		return 0;
	request->call.enter_ns = now;
	request->call.bios = 0;
	request->call.wait = 0;
	request->call.waits = false;
	request->call.kind = kind_of_opcode(PEEK(io_kiocb, address, opcode));
	request->pid = current->tgid;
	request->selected = current_selected(current);
	request->linked = false;
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int io_uring_submit_req(void *ctx)
{
	return uring_begin(address_of(ctx));
}

SEC("tp_btf/io_uring_submit_sqe")
int io_uring_submit_sqe(__u64 *ctx)
{
	__u64 first = ctx[0], second = ctx[1];

	barrier_var(second); /* else one load from either, which the verifier refuses */
	return uring_begin(uring_names_second ? second : first);
}

/* ---- its bios ---- */

/*
 * The request that a worker thread was handed, or 0. The thread that polls the ring (IORING_SETUP_SQPOLL) has the same
 * flag, but no such thing.
 */
static __always_inline __u64 request_of_worker(struct task_struct *current, __u64 *cell)
{
	void *worker = NULL;
	__u64 work;

	if (!(current->flags & PF_IO_WORKER))
		return 0;
	if (bpf_core_field_exists(current->worker_private))
		worker = current->worker_private;
	else if (bpf_core_field_exists(current->pf_io_worker)) /* before 5.17 */
		worker = current->pf_io_worker;
	if (!worker)
		return 0;
	work = as_number(cell, PEEK(io_worker, worker, cur_work));
	return work ? work - OFFSET_OF(struct io_kiocb, work) : 0;
}

/* Direct I/O: the kiocb is the first thing in an io_kiocb. Of others' it is no key of the map. */
static __always_inline __u64 request_of_direct(struct bio *bio, const struct end *of, __u64 *cell)
{
	__u64 dio;

	if (of->kind == END_DIRECT && bpf_core_type_exists(struct iomap_dio))
		return (__u64)PEEK(iomap_dio, of->private, iocb);
	if (!bpf_core_type_exists(struct blkdev_dio))
		return 0;
	if (of->kind == END_DISK)
		return (__u64)PEEK(blkdev_dio, of->private, iocb);
	if (of->kind != END_DISK_ASYNC)
		return 0;
	dio = (of->original ?: as_number(cell, bio)) - OFFSET_OF(struct blkdev_dio, bio);
	return (__u64)PEEK(blkdev_dio, dio, iocb);
}

/* The waits of requests are behind those of tasks, which keep theirs. */
static __always_inline void uring_wait_for(struct uring_request *request, struct iotrace_flight *flight,
					   struct bio *bio)
{
	if (!request->call.waits) {
		request->task = flight->event.task;
		request->call.wait = IOTRACE_WAITS + request->place;
	} else if (request->task.tid != flight->event.task.tid) {
		request->call.wait = 0; /* began here, goes on in a worker: its rows have two tasks, its return none */
	}
	wait_for(&request->call, flight, bio);
}

static __always_inline void uring_note_unnamed(__u32 pid, __u64 now)
{
	bpf_map_update_elem(&uring_unnamed, &pid, &now, BPF_ANY);
}

/* For a disk that is not traced: as little is known of what it is for. */
static __always_inline void uring_goes_elsewhere(struct task_struct *current, __u64 now)
{
	if (uring_returns && (current->io_uring || current->flags & PF_IO_WORKER))
		uring_note_unnamed(current->tgid, now);
}

static __always_inline struct uring_request *request_of_bio(struct iotrace_flight *flight, struct task_struct *current,
							    struct bio *bio, const struct end *of)
{
	__u64 address = request_of_worker(current, &flight->generation) ?:
			request_of_direct(bio, of, &flight->generation);

	return uring_find(address);
}

/*
 * Whether the bio is io_uring's; it is when it is queued in io_uring_enter or in a thread of io_uring's (`in_ring`).
 * Pages that a buffered read misses there may be those of any request: of the one just taken, or of an earlier one that
 * is tried again. Such bios have no request. A request that follows another one may be issued at the end of any system
 * call of a task that has a ring; there it is known when it is direct I/O.
 */
static __always_inline bool uring_own(struct iotrace_flight *flight, struct task_struct *current, struct bio *bio,
				      const struct end *of, bool in_ring)
{
	struct uring_request *request;

	if (!traces_uring || !(in_ring || current->io_uring))
		return in_ring;
	request = request_of_bio(flight, current, bio, of);
	if (!request) {
		if (in_ring && uring_returns)
			uring_note_unnamed(flight->event.task.pid, flight->event.queue_ns);
		return in_ring;
	}
	request->call.bios++;
	if (FIELD(current, flags) & PF_IO_WORKER) /* which does it for another thread */
		flight->event.flags = (flight->event.flags & ~FLIGHT_SELECTED) | (request->selected ? FLIGHT_SELECTED : 0);
	flight->event.enter_ns = request->call.enter_ns;
	if (uring_returns)
		uring_wait_for(request, flight, bio);
	return true;
}

/* ---- with --vfs: its end ---- */

SEC("tp_btf/io_uring_link")
int io_uring_link(__u64 *ctx)
{
	struct uring_request *request = uring_find(ctx[0]);

	if (request)
		request->linked = true;
	return 0;
}

SEC("tp_btf/io_uring_req_failed")
int io_uring_req_failed(__u64 *ctx)
{
	struct uring_request *request = uring_find(ctx[1]);

	if (request)
		uring_free(request);
	return 0;
}

/* A read for a page. Before 6.6 the first mark may be an earlier request's; the second one comes with every wait. */
static __always_inline bool has_waited(__u64 address)
{
	if (!PEEK(kiocb, address, ki_waitq))
		return false;
	return bpf_core_field_exists(struct kiocb, dio_complete) ||
	       PEEK(io_kiocb, address, flags) & 1U << (async_data_bit & 31);
}

/* No bio is known; there was none only if none can have been queued where it was not recognised. */
static __always_inline bool is_cached(const struct uring_request *request, __u64 address, struct file *file)
{
	__u32 pid = request->pid;
	__u64 *unnamed_ns = bpf_map_lookup_elem(&uring_unnamed, &pid);

	if (unnamed_ns && *unnamed_ns >= request->call.enter_ns)
		return false;
	if (request->call.kind == IOTRACE_CALL_SYNC)
		return true; /* always in a worker */
	if (request->linked || PEEK(file, file, f_flags) & O_DIRECT)
		return false; /* may have been issued as task work of another system call */
	/* One that has waited was tried again then, perhaps likewise. */
	return request->call.kind != IOTRACE_CALL_READ || !has_waited(address);
}

static __always_inline bool is_counted_call(const struct uring_request *request, __u64 address)
{
	struct file *file = PEEK(io_kiocb, address, file);
	struct inode *inode;

	if (!request->selected || request->call.kind == IOTRACE_CALL_TIMED || !file)
		return false;
	inode = PEEK(file, file, f_inode);
	if (!may_be_on_disk(inode))
		return false;
	return request->call.bios || is_cached(request, address, file);
}

SEC("tp_btf/io_uring_complete")
int io_uring_complete(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns(), address = ctx[1];
	struct uring_request *request = uring_find(address);
	struct iotrace_vfs_table *table;
	__u32 zero = 0;

	if (!request)
		return 0;
	table = bpf_map_lookup_elem(&vfs_tables, &zero);
	if (table && switched_on) {
		if (is_counted_call(request, address))
			count_call(table, &request->call, now - request->call.enter_ns, PEEK(io_kiocb, address, cqe.res));
		if (request->call.bios)
			emit_return(ctx, table, &request->call, &request->task, now);
	}
	uring_free(request);
	return 0;
}

#endif
