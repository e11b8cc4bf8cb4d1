/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who issues a bio: the task, its system call, the file; and whether the filters want it. */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "file.bpf.h"
#include "flight.bpf.h"
#include "syscall.bpf.h"

extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void blkdev_bio_end_io __ksym __weak;
extern const void blkdev_bio_end_io_async __ksym __weak;
extern const void blkdev_bio_end_io_simple __ksym __weak;
extern const void xlog_bio_end_io __ksym __weak;

/* ---- who dirtied ---- */

/* The last task that made a page of the file dirty. A stale or torn entry is recognised, never believed. */
struct dirtier {
	__u64 inode;
	__u32 filesystem;
	__u32 generation;
	__u32 version; /* odd while it is written */
	__u32 selected;
	struct iotrace_task task;
};

#define DIRTIER_BITS 14

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << DIRTIER_BITS);
	__type(key, __u32);
	__type(value, struct dirtier);
} dirtiers SEC(".maps");

static __always_inline struct dirtier *dirtier_slot(struct inode *inode)
{
	__u64 number = PEEK(inode, inode, i_ino);
	__u32 filesystem = PEEK(super_block, PEEK(inode, inode, i_sb), s_dev);
	__u32 index = mix(number, filesystem) & ((1 << DIRTIER_BITS) - 1);

	return bpf_map_lookup_elem(&dirtiers, &index);
}

static __always_inline bool dirtier_is_of(const struct dirtier *dirtier, struct inode *inode)
{
	return dirtier->inode == PEEK(inode, inode, i_ino) &&
	       dirtier->generation == PEEK(inode, inode, i_generation) &&
	       dirtier->filesystem == PEEK(super_block, PEEK(inode, inode, i_sb), s_dev);
}

static __always_inline void dirtier_note(struct inode *inode, struct task_struct *current)
{
	struct dirtier *dirtier = dirtier_slot(inode);
	__u32 version;

	if (!dirtier || (dirtier->task.tid == (__u32)current->pid && dirtier_is_of(dirtier, inode)))
		return;
	version = dirtier->version;
	if (version & 1 || __sync_val_compare_and_swap(&dirtier->version, version, version + 1) != version)
		return; /* another CPU writes it at this instant: as good as ours */
	dirtier->inode = PEEK(inode, inode, i_ino);
	dirtier->generation = PEEK(inode, inode, i_generation);
	dirtier->filesystem = PEEK(super_block, PEEK(inode, inode, i_sb), s_dev);
	task_fill(&dirtier->task, current);
	dirtier->selected = task_selected(&dirtier->task);
	__sync_fetch_and_add(&dirtier->version, 1);
}

/* A kernel thread writes pages back: the flight is of the task that dirtied them, when that is known. */
static __always_inline void flight_blame(struct iotrace_flight *flight, struct inode *inode)
{
	struct dirtier *dirtier = dirtier_slot(inode);
	struct iotrace_task writer = flight->event.task;
	__u32 version, selected;

	if (!dirtier)
		return;
	version = __sync_fetch_and_add(&dirtier->version, 0);
	if (version & 1 || !dirtier_is_of(dirtier, inode))
		return;
	flight->event.task = dirtier->task;
	selected = dirtier->selected;
	if (__sync_fetch_and_add(&dirtier->version, 0) != version) {
		flight->event.task = writer;
		return;
	}
	flight->event.flags |= IOTRACE_DIRTIER;
	flight->event.flags &= ~FLIGHT_SELECTED;
	if (selected)
		flight->event.flags |= FLIGHT_SELECTED;
}

/* ---- the owner of a bio ---- */

/* The file's inode when the page belongs to a page cache; NULL for anonymous memory. */
static __always_inline struct inode *inode_of_page(struct bio *bio, __u64 *cell)
{
	struct page *page = PEEK(bio_vec, bio->bi_io_vec, bv_page);
	/* It shares its place with pointers, so the verifier takes it for one. */
	__u64 head = as_number(cell, (void *)PEEK(page, page, compound_head)), mapping;

	if (!(head & 1))
		head = as_number(cell, page) + 1;
	mapping = as_number(cell, PEEK(page, head - 1, mapping));
	if (!mapping || mapping & PAGE_MAPPING_FLAGS)
		return NULL;
	return PEEK(address_space, mapping, host);
}

static __always_inline struct inode *inode_of_direct(struct bio *bio)
{
	struct kiocb *iocb = PEEK(iomap_dio, bio->bi_private, iocb);

	return PEEK(file, PEEK(kiocb, iocb, ki_filp), f_inode);
}

#define ENDS_IN(end, function) (&(function) && (end) == (__u64)&(function))

static __always_inline struct inode *inode_of(struct bio *bio, __u64 *cell)
{
	__u64 end = as_number(cell, bio->bi_end_io);

	if (ENDS_IN(end, iomap_dio_bio_end_io))
		return inode_of_direct(bio);
	if ((bio->bi_opf & OP_MASK) >= OP_FLUSH || !bio->bi_iter.bi_size)
		return NULL;
	/* Direct I/O on the disk itself: the pages are the program's, which may have mapped a file. */
	if (ENDS_IN(end, blkdev_bio_end_io) || ENDS_IN(end, blkdev_bio_end_io_async) ||
	    ENDS_IN(end, blkdev_bio_end_io_simple))
		return NULL;
	return inode_of_page(bio, cell);
}

static __always_inline bool is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

static __always_inline __u8 kernel_origin(struct iotrace_flight *flight, __u64 end, bool file_write)
{
	if (is_journal_thread(flight->event.task.comm) || ENDS_IN(end, xlog_bio_end_io))
		return IOTRACE_JOURNAL;
	return file_write ? IOTRACE_WRITEBACK : IOTRACE_OTHER;
}

static __always_inline void own_by_thread(struct iotrace_flight *flight, struct task_struct *current, __u64 end,
					  __u32 size_bytes)
{
	struct call *call;

	if (ENDS_IN(end, xlog_bio_end_io)) {
		flight->event.origin = IOTRACE_JOURNAL;
		return;
	}
	call = current_call(current);
	if (!call)
		return;
	flight->event.origin = call->kind == IOTRACE_CALL_IO_URING ? IOTRACE_IO_URING : IOTRACE_SYSCALL;
	call->bios++;
	if (call->kind < IOTRACE_CALL_TIMED || call->kind > IOTRACE_CALL_SYNC)
		return;
	flight->event.enter_ns = call->enter_ns;
	if (measures_vfs)
		wait_for(call, flight, size_bytes);
}

static __always_inline void flight_own(struct iotrace_flight *flight, struct bio *bio)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct inode *inode = inode_of(bio, &flight->generation);
	__u64 end = as_number(&flight->generation, bio->bi_end_io);
	__u32 opf = bio->bi_opf;

	task_fill(&flight->event.task, current);
	flight->event.file = file_of(inode);
	if (!filters_tasks() || task_selected(&flight->event.task))
		flight->event.flags |= FLIGHT_SELECTED;
	if (current->flags & PF_IO_WORKER) {
		flight->event.origin = IOTRACE_IO_URING;
	} else if (current->flags & PF_KTHREAD) {
		bool buffered = inode && !ENDS_IN(end, iomap_dio_bio_end_io);

		flight->event.origin = kernel_origin(flight, end, buffered && (opf & OP_MASK) == OP_WRITE);
		if (flight->event.origin == IOTRACE_WRITEBACK && flight->event.file)
			flight_blame(flight, inode);
	} else {
		own_by_thread(flight, current, end, bio->bi_iter.bi_size);
	}
	flight->generation = 0;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH))
		flight->event.flags |= IOTRACE_PREFLUSH;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA))
		flight->event.flags |= IOTRACE_FUA;
}

#endif
