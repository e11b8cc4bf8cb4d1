/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How the programs look at the kernel with CO-RE; bcc_peek.bpf.h is the same for BCC. */
#ifndef PEEK_BPF_H
#define PEEK_BPF_H

#include "kernel.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Never written. */
volatile __u64 always_zero = 0;

/*
 * The verifier follows each value that a search may end with to the end of the program, and those of the next search from
 * there: 172,000 instructions of block_io_done, two thirds of a second, and 760,000 of the 1,000,000 that it looks at
 * for span_exit. What it has forgotten it follows once.
 */
static __always_inline __u64 forget(__u64 value)
{
	return value + always_zero;
}

#define READ_STRING bpf_probe_read_kernel_str
#define REQ_FLAG(bit) (1U << bpf_core_enum_value(enum req_flag_bits, bit))

/* A global function, which the verifier looks at once, and not again for each time that it is called. */
#define LOOKED_AT_ONCE __noinline
/* 64 bits: of a shorter counter, put on the stack, the verifier of 5.15 forgets the bounds. */
#define UNTIL(done, times) for (__u64 i_ = 0; i_ < (times) && !(done); i_++)
#define UNTIL_OR_32_TIMES(done) UNTIL(done, 32)
#define UNTIL_LAST_BIO(is_issued, done) UNTIL(done, 1024)
#define UNTIL_LAST_REQUEST(done) UNTIL(done, 256)
#define HAS_BATCHES 1
#define SEES_AROUND_BIOS 1
#define task_now() bpf_get_current_task_btf()

/* Of a pointer that the verifier trusts. */
#define FIELD(pointer, field) ((pointer)->field)
/* Of one that it does not. */
#define READ(pointer, field) BPF_CORE_READ(pointer, field)
#define OFFSET_OF(type, field) bpf_core_field_offset(type, field)
#define ALIAS_OFFSET                                                                                                  \
	(bpf_core_field_exists(struct dentry, d_alias) ? OFFSET_OF(struct dentry, d_alias) :                          \
							 OFFSET_OF(struct dentry___named_union, d_u.d_alias))

/* Since 6.2: the read is then one instruction instead of a call. Set before loading. */
const volatile bool can_cast;

extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

/* ((struct type *)address)->field; 0 when it cannot be read. */
#define PEEK(type, address, field)                                                                                    \
	({                                                                                                            \
		typeof(((struct type *)0)->field) value_ = 0;                                                         \
		const void *from_ = (const void *)(address);                                                          \
		if (can_cast)                                                                                         \
			value_ = ((struct type *)bpf_rdonly_cast(from_, bpf_core_type_id_kernel(struct type)))        \
					 ->field;                                                                     \
		else                                                                                                  \
			bpf_core_read(&value_, sizeof(value_), &((struct type *)from_)->field);                       \
		value_;                                                                                               \
	})

/* A pointer that the verifier knows as a plain number: it allows no arithmetic on others. `cell` is in a map. */
static __always_inline __u64 as_number(__u64 *cell, const void *pointer)
{
	*(volatile __u64 *)cell = (__u64)pointer;
	return *(volatile __u64 *)cell;
}

static __always_inline __u64 number_at(__u64 address)
{
	__u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), (void *)address);
	return number;
}

extern const void hugetlb_vmemmap_optimize_folios __ksym __weak;

/*
 * The first page of the folio that the page belongs to, as a number. What a later page of it says is its address, or, where
 * the kernel frees memory of such pages (CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP) and the size of one is a power of 2, what to
 * take of its own address. `cell`: see above; as it shares its place with pointers the verifier takes it for one.
 */
static __always_inline __u64 head_of(struct page *page, __u64 *cell)
{
	__u64 at = as_number(cell, page), info, size = bpf_core_type_size(struct page);

	if (bpf_core_field_exists(struct page, compound_info))
		info = as_number(cell, (void *)PEEK(page, page, compound_info));
	else
		info = as_number(cell, (void *)PEEK(page___pointing, page, compound_head));
	if (!(info & 1))
		return at;
	if (bpf_core_field_exists(struct page, compound_info) && &hugetlb_vmemmap_optimize_folios && !(size & (size - 1)))
		return at & info;
	return info - 1;
}

/* Of a page that is of no file: which one it holds encrypted, if fscrypt has made it; else any number. */
static __always_inline __u64 page_encrypted_in(__u64 page)
{
	return bpf_core_field_exists(struct page, private) ? PEEK(page, page, private) : 0;
}

/* Set before loading: BIO_PAGE_PINNED of bio.bi_flags; 16, which is none, before 6.5 (docs/tracer-limits.md). */
const volatile __u32 pinned_bit;

/* The pages are a program's memory, pinned for direct I/O. */
static __always_inline bool are_pinned(__u64 bio)
{
	return PEEK(bio, bio, bi_flags) & 1U << (pinned_bit & 31);
}

/* The first argument of a tracepoint or function: a pointer that the verifier trusts, and allows no arithmetic on. */
static __always_inline __u64 address_of(void *ctx)
{
	return *(__u64 *)ctx;
}

/* For hashing, which is arithmetic. The verifier does allow the half of such a pointer, and for it to be a number. */
static __always_inline __u32 low_half(__u64 address)
{
	__u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)address));
	return low;
}

/*
 * Other CPUs see what has been written before this no later than what is written behind it. `any` is in a map. A locked
 * instruction would do, but waits until those CPUs have given up what was written: 40 ns a time at completions.
 */
static __always_inline void order_writes(__u64 *any)
{
#ifdef __TARGET_ARCH_x86
	barrier(); /* x86 keeps the order of writes */
#else
	__u64 value = __sync_fetch_and_add(any, 0);

	barrier_var(value); /* without the result it would order nothing */
#endif
}

/* ---- functions that are told apart by their address ---- */

extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void iomap_dio_simple_end_io __ksym __weak;
extern const void bio_wait_end_io __ksym __weak;
extern const void dio_bio_end_io __ksym __weak;
extern const void dio_bio_end_aio __ksym __weak;
extern const void blkdev_bio_end_io __ksym __weak;
extern const void blkdev_bio_end_io_async __ksym __weak;
extern const void blkdev_bio_end_io_simple __ksym __weak;
extern const void xlog_bio_end_io __ksym __weak;
extern const void end_bio_bh_io_sync __ksym __weak;
extern const void end_buffer_read_sync __ksym __weak;
extern const void end_buffer_write_sync __ksym __weak;
extern const void bh_end_read __ksym __weak;
extern const void bh_end_write __ksym __weak;
extern const void end_swap_bio_read __ksym __weak;
extern const void end_swap_bio_write __ksym __weak;
extern const void swap_bio_read_end_io __ksym __weak;
extern const void bio_chain_endio __ksym __weak;
extern const void clone_endio __ksym __weak;
extern const void end_clone_bio __ksym __weak;
extern const void crypt_endio __ksym __weak;
extern const void md_end_clone_io __ksym __weak;
extern const void md_end_io_acct __ksym __weak;
extern const void raid1_end_read_request __ksym __weak;
extern const void raid1_end_write_request __ksym __weak;
extern const void raid10_end_read_request __ksym __weak;
extern const void raid10_end_write_request __ksym __weak;
extern const void raid5_align_endio __ksym __weak;
extern const void blk_throtl_dispatch_work_fn __ksym __weak;
extern const void btrfs_simple_end_io __ksym __weak;
extern const void btrfs_orig_write_end_io __ksym __weak;
extern const void btrfs_clone_write_end_io __ksym __weak;
extern const void btrfs_raid56_end_io __ksym __weak;
extern const void btrfs_dio_end_io __ksym __weak;

#define ENDS_IN(end, function) (&(function) && (end) == (__u64)&(function))
/* The same where the function is a module's: what it ends with has a type in that module only. */
#define ENDS_WITH(type, end, function) (bpf_core_type_exists(struct type) && ENDS_IN(end, function))

/* Direct I/O of a file system that does not use iomap: FAT, OCFS2; the type is missing where there is none. */
static __always_inline bool ends_in_dio(__u64 end)
{
	return ENDS_WITH(dio, end, dio_bio_end_io) || ENDS_WITH(dio, end, dio_bio_end_aio);
}

static __always_inline __u64 end_of_block(__u64 buffer)
{
	if (!bpf_core_field_exists(struct buffer_head, b_end_io))
		return 0;
	return (__u64)PEEK(buffer_head, buffer, b_end_io);
}

static __always_inline __u64 original_of_dm(__u64 clone)
{
	__u64 target = clone - OFFSET_OF(struct dm_target_io, clone);
	__u64 io = number_at(target + OFFSET_OF(struct dm_target_io, io));

	return number_at(io + OFFSET_OF(struct dm_io, orig_bio));
}

static __always_inline __u64 original_of_md(__u64 clone)
{
	return number_at(clone - OFFSET_OF(struct md_io_clone, bio_clone) + OFFSET_OF(struct md_io_clone, orig_bio));
}

/* A read that lies within one chunk; all else of RAID 4 to 6 is read and written by a thread, in pages of its own. */
static __always_inline __u64 original_of_raid5(__u64 private)
{
	if (bpf_core_type_exists(struct md_io_acct)) /* until 6.4 (c687297b8845) */
		return number_at(private + OFFSET_OF(struct md_io_acct, orig_bio));
	return private;
}

/* Of the request of multipath (dm-rq.c) for which one with this bio goes to a path; 0: of none. */
static __always_inline __u64 request_above(__u64 *cell, const void *bio, __u64 end)
{
	__u64 info, target;

	if (!ENDS_WITH(dm_rq_clone_bio_info, end, end_clone_bio))
		return 0;
	info = as_number(cell, bio) - OFFSET_OF(struct dm_rq_clone_bio_info, clone);
	target = number_at(info + OFFSET_OF(struct dm_rq_clone_bio_info, tio));
	return number_at(target + OFFSET_OF(struct dm_rq_target_io, orig));
}

/* Set before loading: it is seen what is held back (throttle.bpf.h). */
const volatile bool sees_throttling;

/* Of what a worker of the kernel queues. */
static __always_inline bool may_have_been_held(void)
{
	return sees_throttling && FIELD(task_now(), flags) & PF_WQ_WORKER;
}

/* The bio that the task queues has waited for its cgroup's limit: a worker of the kernel brings it. */
static __always_inline bool was_held_back(struct task_struct *current)
{
	void *thread, *worker;

	if (!(FIELD(current, flags) & PF_WQ_WORKER))
		return false;
	/* Before 5.17 (e32cf5dfbe22) a thread of the kernel kept it in a field that it has no other use for. */
	thread = bpf_core_field_exists(current->worker_private) ? FIELD(current, worker_private) :
								  FIELD(current, set_child_tid);
	worker = PEEK(kthread, thread, data);
	return ENDS_IN((__u64)PEEK(worker, worker, current_func), blk_throtl_dispatch_work_fn);
}

/* Set before loading: sched_switch has a fourth argument, `prev_state`. */
const volatile bool switch_tells_state;

/*
 * Whether the thread that sched_switch takes from its CPU goes on when it can. Before 5.18 (9c2136be0878) the state is read
 * where a wake-up on another CPU may have changed it just now.
 */
static __always_inline bool stays_runnable(__u64 *sched_switch, struct task_struct *from)
{
	bool preempted = sched_switch[0];

	return preempted || !(switch_tells_state ? (__u32)sched_switch[3] : from->__state);
}

/* Set before loading: tcp_retransmit_skb has a third argument, `err`. */
const volatile bool retransmit_tells_error;

/* ---- requests ---- */

/* The disk has no requests; it hands its bios on. */
static __always_inline bool goes_to_volume(struct bio *bio)
{
	return bio->bi_bdev->bd_disk->fops->submit_bio;
}

/* Bits of request.rq_flags; set before loading: in some kernels they belong to no type with a name. */
const volatile __u32 flush_seq_bit, io_stat_bit;

static __always_inline bool in_flush_sequence(struct request *rq)
{
	return rq->rq_flags & 1U << (flush_seq_bit & 31);
}

static __always_inline bool in_diskstats(struct request *rq)
{
	return rq->rq_flags & 1U << (io_stat_bit & 31);
}

static __always_inline bool flushes_are_in_diskstats(void)
{
	return true; /* since 5.5 */
}

static __always_inline __u64 flush_queue_of(struct request *rq)
{
	return (__u64)rq->mq_hctx;
}

/* Set before loading. Before 5.16 the tracepoint gives an errno, which not every kernel makes of the same blk_status_t. */
const volatile bool completes_with_errno;

static __always_inline __u8 status_of(int error)
{
	return completes_with_errno && error ? 10 /* BLK_STS_IOERR */ : error;
}

/* The command stands behind its request, see blk_mq_rq_to_pdu(). */
static __always_inline __u64 request_of_command(void *ctx)
{
	return number_at((__u64)ctx) - bpf_core_type_size(struct request); /* a read: arithmetic, see above */
}

#endif
