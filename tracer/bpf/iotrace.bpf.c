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
#include "kernel.h"
#include "iotrace.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile __u8 call_of[IOTRACE_SYSCALLS];
const volatile bool filter_devices;
const volatile bool filter_pids;
const volatile __u32 cgroup_count;

/* Set while running. */
volatile __u32 switched_on = 0;
volatile __u64 switched_on_ns = 0;

extern const void iomap_dio_bio_end_io __ksym __weak;

/* ---- flights ---- */

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
	to->enter_ns = from->enter_ns;
	to->queue_ns = from->queue_ns;
	to->cgroup_id = from->cgroup_id;
	to->inode = from->inode;
	to->pid_tgid = from->pid_tgid;
	__builtin_memcpy(to->comm, from->comm, sizeof(to->comm));
	to->origin = from->origin;
	to->flags = from->flags;
}

/* The verifier allows no arithmetic on a pointer that it trusts, and hashing is arithmetic. */
static __always_inline __u64 address_of(void *ctx)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), ctx);
	return address;
}

/* ---- devices and their counters ---- */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct iotrace_counters);
} devices SEC(".maps");

/* Counters are per CPU, but an interrupt may come between reading and writing one. */
static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline __u32 device_of(struct gendisk *disk)
{
	return (__u32)disk->major << 20 | (__u32)disk->first_minor;
}

/* NULL: not a device to trace. Without a filter, a new device begins to count when it is first seen. */
static __always_inline struct iotrace_counters *counters_of(__u32 device)
{
	struct iotrace_counters *counters = bpf_map_lookup_elem(&devices, &device);

	if (counters || filter_devices)
		return counters;
	struct iotrace_counters zero = {};
	bpf_map_update_elem(&devices, &device, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&devices, &device);
}

static __always_inline struct iotrace_counters *counters_of_request(struct request *rq, __u32 *device)
{
	struct gendisk *disk = rq->q->disk;

	if (!disk) /* a bare controller queue */
		return NULL;
	*device = device_of(disk);
	return counters_of(*device);
}

/* ---- system calls ---- */

struct call {
	__u64 enter_ns;
	__u32 kind; /* enum iotrace_call */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, IOTRACE_MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

static __always_inline bool task_selected(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (filter_pids && !bpf_map_lookup_elem(&pids, &pid))
		return false;
	if (!cgroup_count)
		return true;
	for (__u32 i = 0; i < IOTRACE_MAX_CGROUPS && i < cgroup_count; i++)
		if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
			return true;
	return false;
}

/* The file's inode when the page belongs to a page cache; NULL for anonymous memory. */
static __always_inline struct inode *inode_of_page(struct bio *bio)
{
	struct page *page = BPF_CORE_READ(bio, bi_io_vec, bv_page);
	unsigned long head = BPF_CORE_READ(page, compound_head);
	unsigned long mapping;

	if (head & 1)
		page = (struct page *)(head - 1);
	mapping = (unsigned long)BPF_CORE_READ(page, mapping);
	if (!mapping || mapping & PAGE_MAPPING_FLAGS)
		return NULL;
	return BPF_CORE_READ((struct address_space *)mapping, host);
}

static __always_inline __u64 number_of(struct inode *inode)
{
	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return 0; /* metadata reads and writes go through the device's own inode */
	return BPF_CORE_READ(inode, i_ino);
}

static __always_inline bool is_direct(struct bio *bio)
{
	return &iomap_dio_bio_end_io && BPF_CORE_READ(bio, bi_end_io) == &iomap_dio_bio_end_io;
}

static __always_inline bool is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

static __always_inline __u8 origin_of(struct iotrace_flight *flight, struct call *call, bool page_cache_write)
{
	unsigned int task_flags = bpf_get_current_task_btf()->flags;

	if (task_flags & PF_IO_WORKER)
		return IOTRACE_IO_URING;
	if (task_flags & PF_KTHREAD) {
		if (is_journal_thread(flight->comm))
			return IOTRACE_JOURNAL;
		return page_cache_write ? IOTRACE_WRITEBACK : IOTRACE_OTHER;
	}
	if (!call || call->kind == IOTRACE_CALL_NONE)
		return IOTRACE_OTHER;
	return call->kind == IOTRACE_CALL_IO_URING ? IOTRACE_IO_URING : IOTRACE_SYSCALL;
}

static __always_inline void flight_own(struct iotrace_flight *flight, struct bio *bio)
{
	struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
	__u32 opf = BPF_CORE_READ(bio, bi_opf);
	__u32 op = opf & OP_MASK;
	struct inode *inode = NULL;
	bool buffered = false;

	bpf_get_current_comm(flight->comm, sizeof(flight->comm));
	flight->pid_tgid = bpf_get_current_pid_tgid();
	flight->cgroup_id = bpf_get_current_cgroup_id();
	if (is_direct(bio)) {
		struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);

		inode = BPF_CORE_READ(dio, iocb, ki_filp, f_inode);
	} else if (op < OP_FLUSH && BPF_CORE_READ(bio, bi_iter.bi_size)) {
		inode = inode_of_page(bio);
		buffered = inode;
	}
	flight->inode = number_of(inode);
	flight->origin = origin_of(flight, call, buffered && op != OP_READ);
	if (call && call->kind == IOTRACE_CALL_TIMED)
		flight->enter_ns = call->enter_ns;
	if (task_selected())
		flight->flags |= FLIGHT_SELECTED;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH))
		flight->flags |= FLIGHT_PREFLUSH;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA))
		flight->flags |= FLIGHT_FUA;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct iotrace_flight *flight;
	__u64 now;

	if (!switched_on || !counters_of(device_of(bio->bi_bdev->bd_disk)))
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_claim(address_of(ctx));
	if (!flight)
		return 0;
	flight_clear(flight, now, 0);
	flight->queue_ns = now;
	flight_own(flight, bio);
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

/*
 * The flight of this very request: cleared when it still tells of an older one at the same address. If that
 * one was issued and never completed, its completion has escaped us. It happens: see docs/tracer.md.
 */
static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 key, __u64 now,
								struct iotrace_counters *counters)
{
	struct iotrace_flight *flight = flight_claim(key);

	if (!flight)
		return NULL;
	if (flight->generation == rq->start_time_ns && !(flight->flags & FLIGHT_DONE) && flight->touched_ns)
		return flight;
	if (flight->touched_ns && (flight->flags & (FLIGHT_COUNTED | FLIGHT_DONE)) == FLIGHT_COUNTED)
		count(&counters->excluded[IOTRACE_EX_COMPLETION_NOT_SEEN]);
	flight_clear(flight, now, rq->start_time_ns);
	return flight;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq)
{
	struct iotrace_counters *counters;
	struct iotrace_flight *flight;
	__u32 device;
	__u64 now;

	if (!switched_on)
		return 0;
	counters = counters_of_request(rq, &device);
	if (!counters)
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_of_request(rq, address_of(ctx), now, counters);
	if (flight && !flight->insert_ns)
		flight->insert_ns = now;
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	struct iotrace_counters *counters;
	struct iotrace_flight *flight;
	__u64 now, flushed;
	__u32 device;

	if (!switched_on)
		return 0;
	counters = counters_of_request(rq, &device);
	if (!counters)
		return 0;
	now = bpf_ktime_get_ns();
	flight = flight_of_request(rq, address_of(ctx), now, counters);
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
	struct iotrace_flight *flight = flight_of_request(rq, key, now, counters);
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
