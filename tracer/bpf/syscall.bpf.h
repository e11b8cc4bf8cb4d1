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
const volatile bool times_calls; /* sys_enter is there */
const volatile __u8 call_of[IOTRACE_SYSCALLS];

/*
 * The calls of the tasks, by their numbers: the kernel's task storage takes 45 ns more at each call and 10 more at each
 * bio. A task that is not among the four of its bucket takes the place of the one whose latest call began first.
 */
#define CALL_BUCKET_BITS 13
#define CALL_WAYS 4

struct call_bucket {
	struct call way[CALL_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << CALL_BUCKET_BITS);
	__type(key, __u32);
	__type(value, struct call_bucket);
} calls SEC(".maps");

static __always_inline struct call_bucket *calls_beside(__u32 tid)
{
	__u32 index = tid & ((1 << CALL_BUCKET_BITS) - 1);

	return bpf_map_lookup_elem(&calls, &index);
}

static __always_inline struct call *call_find(struct call_bucket *bucket, __u32 tid)
{
#pragma unroll
	for (int i = 0; i < CALL_WAYS; i++)
		if (bucket->way[i].tid == tid)
			return &bucket->way[i];
	return NULL;
}

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

static __noinline struct call *call_claim(__u32 tid)
{
	struct call_bucket *bucket = calls_beside(tid);
	struct call *oldest;
	__u32 before;

	if (!bucket)
		return NULL;
	oldest = &bucket->way[0];
#pragma unroll
	for (int i = 1; i < CALL_WAYS; i++)
		if (bucket->way[i].enter_ns < oldest->enter_ns)
			oldest = &bucket->way[i];
	before = oldest->tid;
	if (__sync_val_compare_and_swap(&oldest->tid, before, tid) != before)
		return NULL; /* another task took it at this instant */
	oldest->wait = 0;
	return oldest;
}

/* Where the user's registers lie, from the lowest address of a task's stack on; the same for all tasks. */
__u64 registers_offset = 0;

/* The number of the call that the task is in. The helper that finds the registers takes 30 ns where caches are cold. */
static __always_inline __u64 number_of_call(struct task_struct *current, __u64 *cell)
{
	__u64 stack = as_number(cell, current->stack);

	if (!registers_offset)
		registers_offset = as_number(cell, (void *)bpf_task_pt_regs(current)) - stack;
	return PEEK_SYSCALL_NUMBER(stack + registers_offset);
}

static __always_inline __u8 kind_of_call(__u64 number)
{
	return number < IOTRACE_SYSCALLS ? call_of[number & (IOTRACE_SYSCALLS - 1)] : IOTRACE_CALL_NONE;
}

/* The task's latest call that is timed, or was. */
static __always_inline struct call *latest_call(struct task_struct *task)
{
	struct call_bucket *bucket = calls_beside(task->pid);
	struct call *call = bucket ? call_find(bucket, task->pid) : NULL;

	return call && is_whole(call, task->pid) ? call : NULL;
}

/* What sys_enter has noted of that call, not of one that the task has left. */
static __always_inline struct call *current_call(struct task_struct *current, __u64 number)
{
	struct call *call = times_calls ? latest_call(current) : NULL;

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

static __always_inline void call_begins(struct pt_regs *regs, long number, bool is_new)
{
	__u8 kind = kind_of_call(number);
	struct task_struct *current;
	struct call_bucket *bucket;
	bool on_file = false;
	struct call *call;
	__u64 now;

	if (!call_is_timed(kind))
		return;
	now = bpf_ktime_get_ns();
	current = bpf_get_current_task_btf();
	bucket = calls_beside(current->pid);
	if (!bucket)
		return;
	call = call_find(bucket, current->pid) ?: call_claim(current->pid);
	if (!call)
		return;
	if (measures_vfs)
		on_file = kind != IOTRACE_CALL_TIMED && current_selected(current) && is_on_regular_file(current, regs);
	call->number = number;
	call->kind = kind;
	call->bios = 0;
	call->waits = false;
	call->on_file = on_file;
	call->is_new = is_new;
	call->enter_ns = now;
	call->stamp = stamp_of(now, current->pid);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	if (switched_on)
		call_begins(regs, number, true);
	return 0;
}

/* One that has failed, or read nothing, without I/O has hit no cache. */
static __always_inline bool has_done_something(const struct call *call, long result)
{
	return call->bios || result > 0 || (call->kind == IOTRACE_CALL_SYNC && !result);
}

static __always_inline void count_call(struct iotrace_vfs_table *table, const struct call *call, __u64 took_ns, long result)
{
	__u32 bucket = log2_of(took_ns);
	struct iotrace_vfs *cell;

	if (!has_done_something(call, result))
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
	current = bpf_get_current_task_btf();
	place = current_call(current, number);
	if (!place || !(place->on_file || place->bios))
		return 0;
	now = bpf_ktime_get_ns();
	table = bpf_map_lookup_elem(&vfs_tables, &zero);
	if (!table)
		return 0;
	/* Now, for the place may be another task's soon. */
	call = *place;
	place->on_file = false;
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
