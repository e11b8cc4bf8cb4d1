/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * System calls: when the task entered one, and (--vfs) how long those on regular files took, cached or not, and when
 * those that had requests returned. Of both backends; where it is kept is in call.bpf.h and bcc_store.bpf.h.
 */
#ifndef SYSCALL_BPF_H
#define SYSCALL_BPF_H

#include "call.bpf.h"
#include "histogram.bpf.h"
#include "return.bpf.h"

/*
 * A task may lose its place while it notes its call there. Whichever of the two writes each word last, the time is then
 * not that of the stamp, or both are one task's.
 */
static __always_inline __u64 stamp_of(__u64 enter_ns, __u32 tid)
{
	return enter_ns ^ tid;
}

static __always_inline bool is_whole(const struct call *call, __u32 tid)
{
	return call->stamp == stamp_of(call->enter_ns, tid);
}

/* The task's latest call that is timed, or was. */
static __always_inline struct call *latest_call(struct task_struct *task)
{
	__u32 tid = FIELD(task, pid);
	struct call *call = call_known(tid);

	return call && is_whole(call, tid) ? call : NULL;
}

/* What sys_enter has noted of that call, not of one that the task has left. */
static __always_inline struct call *current_call(struct task_struct *current, __u64 number)
{
	struct call *call = latest_call(current);

	return call && call->number == number ? call : NULL;
}

/* Of the file behind the call's first argument; NULL: it is no descriptor. */
static __always_inline struct inode *inode_of_descriptor(struct task_struct *current, struct pt_regs *regs)
{
	struct fdtable *table = FIELD(FIELD(current, files), fdt);
	__u64 descriptor = (__u32)SYSCALL_FIRST_ARGUMENT(regs), place;
	struct file *file;

	if (descriptor >= FIELD(table, max_fds))
		return NULL;
	place = (__u64)FIELD(table, fd) + descriptor * sizeof(file);
	file = (struct file *)PEEK(hlist_head, place, first); /* any type that is one pointer */
	return file ? PEEK(file, file, f_inode) : NULL;
}

/* A regular file that may be read from a disk: not of /proc or tmpfs, but of an overlay, which has no disk of its own. */
static __always_inline bool may_be_on_disk(struct inode *inode)
{
	struct super_block *super;

	if ((PEEK(inode, inode, i_mode) & S_IFMT) != S_IFREG)
		return false;
	super = PEEK(inode, inode, i_sb);
	return PEEK(file_system_type, PEEK(super_block, super, s_type), fs_flags) & FS_REQUIRES_DEV ||
	       PEEK(super_block, super, s_magic) == OVERLAYFS_SUPER_MAGIC;
}

static __always_inline bool is_on_file_of_disk(struct task_struct *current, struct pt_regs *regs)
{
	struct inode *inode = inode_of_descriptor(current, regs);

	return inode && may_be_on_disk(inode);
}

static __always_inline bool current_selected(struct task_struct *current)
{
	struct iotrace_task task;

	if (!filters_tasks())
		return true;
	task_fill(&task, current);
	return task_selected(&task);
}

static __always_inline void call_begins(struct pt_regs *regs, long number, bool is_new)
{
	__u8 kind = kind_of_call(number);
	struct task_struct *current;
	bool on_file = false;
	struct call *call;
	__u32 tid;
	__u64 now;

	if (!call_is_timed(kind))
		return;
	now = bpf_ktime_get_ns();
	current = task_now();
	tid = FIELD(current, pid);
	call = call_place(tid);
	if (!call)
		return;
	if (measures_vfs)
		on_file = kind != IOTRACE_CALL_TIMED && current_selected(current) && is_on_file_of_disk(current, regs);
	call->number = number;
	call->kind = kind;
	call->bios = 0;
	call->waits = false;
	call->on_file = on_file ? IOTRACE_ON_FILE : IOTRACE_OFF_FILE;
	call->is_new = is_new;
	call->enter_ns = now;
	call->stamp = stamp_of(now, tid);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	if (switched_on)
		call_begins(regs, number, true);
	return 0;
}

/* One that went to another disk, has failed, or read nothing, without I/O of those that are traced has hit no cache. */
static __always_inline bool is_hit_or_miss(const struct call *call, long result)
{
	if (!call->bios && call->on_file == IOTRACE_ON_FILE_ELSEWHERE)
		return false;
	return call->bios || result > 0 || (call->kind == IOTRACE_CALL_SYNC && !result);
}

static __always_inline void count_call(struct iotrace_vfs_table *table, const struct call *call, __u64 took_ns, long result)
{
	__u32 bucket = log2_of(took_ns);
	struct iotrace_vfs *cell;

	if (!is_hit_or_miss(call, result))
		return;
	if (bucket >= IOTRACE_VFS_BUCKETS)
		bucket = IOTRACE_VFS_BUCKETS - 1;
	cell = call->kind == IOTRACE_CALL_READ	  ? &table->cell[IOTRACE_VFS_READ][!call->bios]
	       : call->kind == IOTRACE_CALL_WRITE ? &table->cell[IOTRACE_VFS_WRITE][!call->bios]
						  : &table->cell[IOTRACE_VFS_SYNC][!call->bios];
	cell->calls++;
	cell->sum_ns += took_ns;
	cell->buckets[bucket]++;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	__u64 number = SYSCALL_NUMBER(regs);
	struct iotrace_vfs_table *table;
	struct call *place, call;
	struct task_struct *current;
	struct iotrace_task task;
	__u32 zero = 0;
	__u64 now;

	if (!switched_on || !call_is_timed(kind_of_call(number)))
		return 0;
	current = task_now();
	place = current_call(current, number);
	if (!place || !(place->on_file || place->bios))
		return 0;
	now = bpf_ktime_get_ns();
	table = bpf_map_lookup_elem(&vfs_tables, &zero);
	if (!table)
		return 0;
	/* Now, for the place may be another task's soon. */
	call = *place;
	place->on_file = IOTRACE_OFF_FILE;
	place->bios = 0;
	if (call.on_file)
		count_call(table, &call, now - call.enter_ns, result);
	if (call.bios) {
		task_fill(&task, current);
		emit_return(ctx, table, &call, &task, now);
	}
	return 0;
}

#endif
