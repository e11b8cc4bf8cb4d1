/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * System calls: when the task entered one, and (--vfs) how long those on regular files took, cached or not, and when
 * those that had requests returned.
 */
#ifndef SYSCALL_BPF_H
#define SYSCALL_BPF_H

#include "filter.bpf.h"
#include "histogram.bpf.h"
#include "peek.bpf.h"
#include "return.bpf.h"

/* Set before loading. */
const volatile __u8 call_of[IOTRACE_SYSCALLS];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

/* The number of the call that the task is in. */
static __always_inline __u64 number_of_call(struct task_struct *current)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(current);

	return SYSCALL_NUMBER(regs);
}

static __always_inline __u8 kind_of_call(__u64 number)
{
	return number < IOTRACE_SYSCALLS ? call_of[number & (IOTRACE_SYSCALLS - 1)] : IOTRACE_CALL_NONE;
}

/* What sys_enter has noted of that call, not of one that the task has left. */
static __always_inline struct call *current_call(struct task_struct *current, __u64 number)
{
	struct call *call = bpf_task_storage_get(&calls, current, NULL, 0);

	return call && call->number == number ? call : NULL;
}

/* Of the file behind the call's first argument; NULL: it is no descriptor. */
static __always_inline struct inode *inode_of_descriptor(struct task_struct *current, struct pt_regs *regs)
{
	struct fdtable *table = current->files->fdt;
	__u64 descriptor = (__u32)SYSCALL_FIRST_ARGUMENT(regs), place;
	struct file *file;

	if (descriptor >= table->max_fds)
		return NULL;
	place = (__u64)table->fd + descriptor * sizeof(file);
	file = (struct file *)PEEK(hlist_head, place, first); /* any type that is one pointer */
	return file ? PEEK(file, file, f_inode) : NULL;
}

static __always_inline bool is_on_regular_file(struct task_struct *current, struct pt_regs *regs)
{
	struct inode *inode = inode_of_descriptor(current, regs);

	return inode && (PEEK(inode, inode, i_mode) & S_IFMT) == S_IFREG;
}

static __always_inline bool current_selected(struct task_struct *current)
{
	struct iotrace_task task;

	if (!filters_tasks())
		return true;
	task_fill(&task, current);
	return task_selected(&task);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *current;
	struct call *call;
	__u64 now;
	__u8 kind;

	if (!switched_on)
		return 0;
	kind = kind_of_call(number);
	if (!call_is_timed(kind))
		return 0;
	now = bpf_ktime_get_ns();
	current = bpf_get_current_task_btf();
	call = bpf_task_storage_get(&calls, current, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return 0;
	call->enter_ns = now;
	call->number = number;
	call->kind = kind;
	call->bios = 0;
	if (measures_vfs)
		call->on_file = kind != IOTRACE_CALL_TIMED && current_selected(current) && is_on_regular_file(current, regs);
	return 0;
}

static __always_inline void count_call(struct iotrace_vfs_table *table, const struct call *call, __u64 took_ns)
{
	__u32 bucket = log2_of(took_ns);
	struct iotrace_vfs *cell;

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
int BPF_PROG(sys_exit, struct pt_regs *regs)
{
	__u64 number = SYSCALL_NUMBER(regs);
	struct iotrace_vfs_table *table;
	struct task_struct *current;
	struct iotrace_task task;
	struct call *call;
	__u32 zero = 0;
	__u64 now;

	if (!switched_on || !call_is_timed(kind_of_call(number)))
		return 0;
	current = bpf_get_current_task_btf();
	call = current_call(current, number);
	if (!call || !(call->on_file || call->bios))
		return 0;
	now = bpf_ktime_get_ns();
	table = bpf_map_lookup_elem(&vfs_tables, &zero);
	if (!table)
		return 0;
	if (call->on_file)
		count_call(table, call, now - call->enter_ns);
	if (call->bios) {
		task_fill(&task, current);
		emit_return(ctx, table, call, &task, now);
	}
	call->on_file = false;
	call->bios = 0;
	return 0;
}

#endif
