/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who issues a bio: the task, its system call, the file; and whether the filters want it. Of both backends. */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "dirtier.bpf.h"
#include "end.bpf.h"
#include "file.bpf.h"
#include "syscall.bpf.h"
#include "uring.bpf.h"

/*
 * The file's inode when the page belongs to a page cache; NULL for anonymous memory, and for the kernel's own (XFS
 * writes small metadata from there), where other things stand in that place: a page cache and its inode name each other.
 */
static __always_inline struct inode *inode_of_page(__u64 first, __u64 *cell)
{
	__u64 head = head_of(PEEK(bio_vec, first, bv_page), cell);
	__u64 mapping = as_number(cell, PEEK(page, head, mapping));
	struct inode *inode;

	if (!mapping)
		mapping = as_number(cell, PEEK(page, page_encrypted_in(head), mapping));
	if (!mapping || mapping & PAGE_MAPPING_FLAGS)
		return NULL;
	inode = PEEK(address_space, mapping, host);
	return inode && as_number(cell, PEEK(inode, inode, i_mapping)) == mapping ? inode : NULL;
}

static __always_inline struct inode *inode_of_direct(__u64 iomap_dio)
{
	struct kiocb *iocb = PEEK(iomap_dio, iomap_dio, iocb);

	return PEEK(file, PEEK(kiocb, iocb, ki_filp), f_inode);
}

static __always_inline struct inode *inode_of(struct bio *bio, const struct end *of, __u64 *cell)
{
	if (of->kind == END_DIRECT && bpf_core_type_exists(struct iomap_dio))
		return inode_of_direct(of->private);
	if (of->kind == END_DIRECT_OLD && bpf_core_type_exists(struct dio))
		return PEEK(dio, of->private, inode);
	if ((FIELD(bio, bi_opf) & OP_MASK) >= OP_FLUSH || !FIELD(bio, bi_iter.bi_size))
		return NULL;
	/* The pages are the program's, which may have mapped a file. */
	if (is_direct_on_disk(of->kind) || are_pinned(of->original ?: as_number(cell, bio)))
		return NULL;
	return (struct inode *)of->file ?: inode_of_page(of->pages, cell);
}

/*
 * Metadata that the kernel does not mark (REQ_META), as what ext4 reads ahead and all of FAT's: a file system reads and writes
 * blocks of the disk's own page cache one by one, and waits for each. What goes through the disk's file is read and written
 * in pages, but for a block that is to be written in part, which is read so; nobody holds the disk then.
 */
static __always_inline bool is_block_of_file_system(const struct end *of, const struct inode *inode)
{
	__u64 kind = of->kind, end;

	if (kind < END_BLOCK || kind > END_BLOCK_WRITTEN || !inode || !is_of_disk(inode))
		return false;
	end = kind == END_BLOCK ? end_of_block(of->private) : 0;
	if (kind == END_BLOCK_READ || ENDS_IN(end, end_buffer_read_sync))
		return PEEK(block_device, PEEK(buffer_head, of->private, b_bdev), bd_holder);
	return kind == END_BLOCK_WRITTEN || ENDS_IN(end, end_buffer_write_sync);
}

static __always_inline bool is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

static __always_inline __u8 kernel_origin(struct iotrace_flight *flight, const struct end *of, bool file_write)
{
	if (is_journal_thread(flight->event.task.comm) || of->kind == END_LOG)
		return IOTRACE_JOURNAL;
	return file_write ? IOTRACE_WRITEBACK : IOTRACE_OTHER;
}

static __always_inline void own_by_thread(struct iotrace_flight *flight, struct task_struct *current, struct bio *bio,
					  const struct end *of)
{
	__u64 number = number_of_call(current, &flight->generation);
	/* The call of one that a signal ends has returned: what is left to do, as closing its files, is part of none. */
	__u8 kind = FIELD(current, flags) & PF_SIGNALED ? IOTRACE_CALL_NONE : kind_of_call(number);
	struct call *call;

	if (of->kind == END_LOG) {
		flight->event.origin = IOTRACE_JOURNAL;
		call = call_is_timed(kind) ? current_call(current, number) : NULL;
		if (call)
			call->bios++; /* it has not been served from memory */
		return;
	}
	/* Not libaio's, whose requests may lie where one of io_uring's was. */
	if (kind != IOTRACE_CALL_SUBMIT && uring_own(flight, current, bio, of, kind == IOTRACE_CALL_IO_URING)) {
		flight->event.origin = IOTRACE_IO_URING;
		return;
	}
	if (!kind)
		return;
	flight->event.origin = IOTRACE_SYSCALL;
	call = call_is_timed(kind) ? current_call(current, number) : NULL;
	if (!call)
		return;
	call->bios++;
	flight->event.enter_ns = call->enter_ns;
	if (measures_vfs)
		wait_for(call, flight, bio);
}

/* The bio is for a disk that is not traced. */
static __always_inline void goes_elsewhere(struct task_struct *current, __u64 now)
{
	struct call *call = latest_call(current);

	if (call && call->on_file)
		call->on_file = IOTRACE_ON_FILE_ELSEWHERE;
	uring_goes_elsewhere(current, now);
}

static __always_inline void flight_own(void *ctx, struct iotrace_flight *flight, struct bio *bio)
{
	struct task_struct *current = task_now();
	struct end of = end_of(bio, &flight->generation);
	/* As a number, or each way to it would be followed to the end of the program. */
	struct inode *inode = (void *)as_number(&flight->generation, inode_of(bio, &of, &flight->generation));
	__u32 opf = FIELD(bio, bi_opf);

	task_fill(&flight->event.task, current);
	flight->event.file = file_of(ctx, inode);
	if (!filters_tasks() || task_selected(&flight->event.task))
		flight->event.flags |= FLIGHT_SELECTED;
	if (FIELD(current, flags) & PF_IO_WORKER) {
		flight->event.origin = of.kind == END_LOG ? IOTRACE_JOURNAL : IOTRACE_IO_URING;
		uring_own(flight, current, bio, &of, true);
	} else if (FIELD(current, flags) & PF_KTHREAD) {
		bool buffered = inode && of.kind != END_DIRECT;

		flight->event.origin = kernel_origin(flight, &of, buffered && (opf & OP_MASK) == OP_WRITE);
		if (flight->event.origin == IOTRACE_WRITEBACK && flight->event.file)
			flight_blame(flight, inode);
		if (was_held_back(current))
			flight->event.flags |= IOTRACE_THROTTLED | FLIGHT_UNTIMED;
	} else {
		own_by_thread(flight, current, bio, &of);
	}
	flight->generation = 0;
	if (of.kind == END_SWAP)
		flight->event.flags |= IOTRACE_SWAP;
	if (is_block_of_file_system(&of, inode))
		flight->event.flags |= IOTRACE_META;
	if (opf & REQ_FLAG(__REQ_PREFLUSH))
		flight->event.flags |= IOTRACE_PREFLUSH;
	if (opf & REQ_FLAG(__REQ_FUA))
		flight->event.flags |= IOTRACE_FUA;
}

#endif
