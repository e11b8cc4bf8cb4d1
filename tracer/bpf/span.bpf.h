/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * With --spans: what a thread does from receiving a request on a socket to sending the response on it. Of both backends.
 *
 *   sys_exit of a read ... bytes from a socket: the span begins, unless it is open
 *   sys_enter, sys_exit .. calls on files and waits for locks in between
 *   sched_switch, _wakeup  on a CPU, asleep, runnable without a CPU
 *   sys_exit of a write .. bytes to the same socket: the span ends
 *
 * At each of them the time since the one before is added to one part, so the parts add up to the whole. A
 * response that another thread sends, or a second request before the response to the first, is counted and
 * makes no span. Nor does one whose thread woke up or got a CPU unseen (docs/tracer-limits.md): when, nobody knows.
 */
#ifndef SPAN_BPF_H
#define SPAN_BPF_H

#include "beside.bpf.h"
#include "histogram.bpf.h"
#include "syscall.bpf.h"

/* ---- what the thread does ---- */

/* Whether the time is that of a file. What sendfile waits for is the disk or the other end of the socket. */
static __always_inline bool is_on_file(const struct span *span)
{
	if (span->call == IOTRACE_SPAN_SENDFILE)
		return span->place == IOTRACE_ASLEEP && span->waits_for_disk;
	return span->call == IOTRACE_SPAN_FILE;
}

static __always_inline enum iotrace_span_part part_of(const struct span *span, struct task_struct *task)
{
	struct call *call;

	if (span->place == IOTRACE_RUNNABLE)
		return IOTRACE_SPAN_RUN_QUEUE;
	if (is_on_file(span)) {
		call = span->place == IOTRACE_ASLEEP ? latest_call(task) : NULL;
		return call && call->bios ? IOTRACE_SPAN_IO : IOTRACE_SPAN_VFS;
	}
	if (span->place == IOTRACE_ON_CPU)
		return IOTRACE_SPAN_COMPUTE;
	return span->call == IOTRACE_SPAN_LOCK ? IOTRACE_SPAN_LOCKED : IOTRACE_SPAN_OTHER;
}

/* The time until now belongs to what the thread has done until now. */
static __always_inline void span_account(struct span *span, struct task_struct *task, __u64 now)
{
	span->parts[part_of(span, task) & 7] += now - span->since_ns;
	span->since_ns = now;
}

/* The same for the thread that is on this CPU, whatever was seen of how it got there. */
static __always_inline void span_account_current(struct span *span, struct task_struct *current, __u64 now)
{
	span_account(span, current, now);
	if (span->place != IOTRACE_ON_CPU)
		span->switch_not_seen = true;
	span->place = IOTRACE_ON_CPU;
}

static __always_inline struct span *if_open(struct span *span)
{
	return span && span->begin_ns ? span : NULL;
}

static __always_inline struct span *open_span(struct task_struct *task)
{
	return if_open(span_known(task));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(span_switch, bool preempted, struct task_struct *from, struct task_struct *to)
{
	struct span *span;
	__u64 now;

	if (!switched_on)
		return 0;
	now = bpf_ktime_get_ns();
	span = open_span(from);
	if (span) {
		span_account_current(span, from, now);
		span->place = stays_runnable(ctx, from) ? IOTRACE_RUNNABLE : IOTRACE_ASLEEP;
		if (span->call == IOTRACE_SPAN_SENDFILE)
			span->waits_for_disk = waits_for_disk(ctx, from);
	}
	span = open_span(to);
	if (span) {
		span_account(span, to, now);
		if (span->place != IOTRACE_RUNNABLE)
			span->switch_not_seen = true;
		span->place = IOTRACE_ON_CPU;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(span_wakeup, struct task_struct *task)
{
	struct span *span = switched_on ? open_span(task) : NULL;

	/* One that is woken before it has left its CPU has not slept. */
	if (!span || span->place != IOTRACE_ASLEEP)
		return 0;
	span_account(span, task, bpf_ktime_get_ns());
	span->place = IOTRACE_RUNNABLE;
	return 0;
}

/* ---- processes ---- */

static __always_inline struct iotrace_process *process_of(__u32 pid)
{
	struct iotrace_process *process = bpf_map_lookup_elem(&processes, &pid), *empty;
	__u32 zero = 0;

	if (process)
		return process;
	empty = bpf_map_lookup_elem(&new_process, &zero);
	if (empty)
		bpf_map_update_elem(&processes, &pid, empty, BPF_NOEXIST);
	process = bpf_map_lookup_elem(&processes, &pid);
	if (!process)
		count_process_left_out();
	return process;
}

static __always_inline void sample(void *ctx, const struct span *span, struct task_struct *current)
{
	struct iotrace_span sample = {.begin_ns = span->begin_ns, .socket = span->socket};
	struct iotrace_task task;

	if (span_sample_every > 1 && bpf_get_prandom_u32() % span_sample_every)
		return;
	task_fill(&task, current);
	__builtin_memcpy(sample.parts, span->parts, sizeof(sample.parts));
	sample.pid = task.pid;
	sample.tid = task.tid;
	__builtin_memcpy(sample.comm, task.comm, sizeof(sample.comm));
	send_sample(ctx, &sample);
}

static __always_inline void span_end(void *ctx, struct span *span, struct task_struct *current, __u64 now)
{
	struct iotrace_process *process;

	if (span->asked_too_many) {
		span->begin_ns = 0;
		return;
	}
	process = process_of(FIELD(current, tgid));
	span_account_current(span, current, now);
	if (process && span->switch_not_seen) {
		count(&process->switch_not_seen);
	} else if (process) {
		fine_add_shared(&process->total_ns, now - span->begin_ns);
#pragma unroll
		for (int i = 0; i < IOTRACE_SPAN_PARTS; i++)
			fine_add_shared(&process->parts_ns[i], span->parts[i]);
	}
	if (!span->switch_not_seen)
		sample(ctx, span, current);
	span->begin_ns = 0;
}

/* ---- sockets ---- */

static __always_inline void count_handed_over(__u32 pid)
{
	struct iotrace_process *process = process_of(pid);

	if (process)
		count(&process->handed_over);
}

static __always_inline void count_interleaved(struct task_struct *current)
{
	struct iotrace_process *process = process_of(FIELD(current, tgid));

	if (process)
		count(&process->interleaved);
}

static __always_inline bool has_asked(const struct span *span, __u64 socket)
{
#pragma unroll
	for (int i = 0; i < IOTRACE_SPAN_ASKED; i++)
		if (span->asked[i] == socket)
			return true;
	return false;
}

/* False: on too many already. */
static __always_inline bool note_asked(struct span *span, __u64 socket)
{
#pragma unroll
	for (int i = 0; i < IOTRACE_SPAN_ASKED; i++) {
		if (!span->asked[i])
			span->asked[i] = socket;
		if (span->asked[i] == socket)
			return true;
	}
	return false;
}

/* False: another thread has taken the socket over since, or is just about to answer. */
static __always_inline bool is_receiver(__u64 socket, struct task_struct *current)
{
	struct receiver *receiver = bpf_map_lookup_elem(&receivers, &socket);

	return receiver && receiver->waits && !receiver->sending && receiver->tid == (__u32)FIELD(current, pid);
}

static __always_inline void span_begin(struct task_struct *current, __u64 socket, __u64 now)
{
	struct receiver receiver = {.pid = FIELD(current, tgid), .tid = FIELD(current, pid), .waits = 1}, *before;
	struct span *span = span_place(current);

	if (!span)
		return;
	before = bpf_map_lookup_elem(&receivers, &socket);
	if (before && before->waits && (before->tid != receiver.tid || before->sending))
		count_handed_over(receiver.pid);
	bpf_map_update_elem(&receivers, &socket, &receiver, BPF_ANY);
	*span = (struct span){.begin_ns = now, .since_ns = now, .socket = socket};
}

static __always_inline void received(struct task_struct *current, __u64 socket, __u64 now)
{
	struct span *span = open_span(current);

	if (span && has_asked(span, socket))
		return; /* the answer to a request of its own */
	if (span && is_receiver(span->socket, current)) {
		if (span->socket == socket || span->asked_too_many)
			return; /* more of the same request, or perhaps such an answer */
		count_interleaved(current);
	}
	span_begin(current, socket, now);
}

/* Before the bytes go: as soon as they are there, the next request may come. Whether any go is known at the return. */
static __always_inline void may_answer(struct task_struct *current, __u64 socket)
{
	struct receiver *receiver = bpf_map_lookup_elem(&receivers, &socket);
	struct span *span;

	if (!receiver || !receiver->waits || receiver->tid == (__u32)FIELD(current, pid))
		return;
	span = span_place(current);
	if (!span)
		return;
	span->answers = socket;
	__sync_fetch_and_add(&receiver->sending, 1);
}

static __always_inline void answered(__u64 socket, bool has_sent)
{
	struct receiver *receiver = bpf_map_lookup_elem(&receivers, &socket);

	if (!receiver || !receiver->waits || !receiver->sending)
		return; /* the request is answered, or another one came meanwhile */
	if (!has_sent) {
		__sync_fetch_and_add(&receiver->sending, -1);
		return;
	}
	receiver->waits = 0;
	count_handed_over(receiver->pid);
}

static __always_inline void sent(void *ctx, struct span *span, struct task_struct *current, __u64 socket, __u64 now)
{
	struct receiver *receiver = bpf_map_lookup_elem(&receivers, &socket);

	if (!receiver || !receiver->waits) { /* nobody's response */
		if (span->socket != socket && !note_asked(span, socket) && !span->asked_too_many) {
			span->asked_too_many = true;
			count_interleaved(current);
		}
		return;
	}
	if (receiver->tid != (__u32)FIELD(current, pid))
		return;
	receiver->waits = 0;
	if (span->socket == socket)
		span_end(ctx, span, current, now);
}

/* ---- system calls ---- */

/* The socket's inode; 0 when the descriptor is none. `mode`: what kind of file it is. */
static __always_inline __u64 socket_of(struct task_struct *current, struct pt_regs *regs, __u32 *mode)
{
	struct inode *inode = inode_of_descriptor(current, regs);

	*mode = inode ? PEEK(inode, inode, i_mode) & S_IFMT : 0;
	return *mode == S_IFSOCK ? PEEK(inode, inode, i_ino) : 0;
}

static __always_inline bool is_on_storage(__u32 mode)
{
	return mode == S_IFREG || mode == S_IFBLK;
}

static __always_inline bool is_sending(__u8 kind)
{
	return kind == IOTRACE_SPAN_SEND || kind == IOTRACE_SPAN_SENDFILE;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(span_enter, struct pt_regs *regs, long number)
{
	struct task_struct *current;
	struct span *span;
	__u64 socket;
	__u32 mode;
	__u8 kind;

	kind = switched_on ? span_call(number) : IOTRACE_SPAN_NONE;
	if (!kind)
		return 0;
	current = task_now();
	span = open_span(current);
	if (!span && !is_sending(kind))
		return 0;
	if (kind == IOTRACE_SPAN_RECEIVE || is_sending(kind)) {
		socket = socket_of(current, regs, &mode);
		if (socket && is_sending(kind) && current_selected(current))
			may_answer(current, socket);
		if (is_on_storage(mode))
			kind = IOTRACE_SPAN_FILE;
		else if (kind != IOTRACE_SPAN_SENDFILE)
			kind = IOTRACE_SPAN_NONE;
	}
	barrier_var(span); /* else what was asked above is kept on the stack, where the verifier of 5.15 forgets of what */
	if (!span)
		return 0;
	span_account_current(span, current, bpf_ktime_get_ns());
	span->call = kind;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(span_exit, struct pt_regs *regs, long result)
{
	struct task_struct *current = task_now();
	struct span *span;
	__u64 socket, now;
	__u32 mode;
	__u8 kind;

	kind = switched_on ? span_call(SYSCALL_NUMBER(regs)) : IOTRACE_SPAN_NONE;
	if (!kind)
		return 0;
	now = bpf_ktime_get_ns();
	span = span_known(current);
	if (span && span->answers) {
		answered(span->answers, result > 0);
		span->answers = 0;
	}
	span = if_open(span);
	if (span) {
		span_account_current(span, current, now);
		span->call = IOTRACE_SPAN_NONE;
	}
	if (result <= 0 || !(kind == IOTRACE_SPAN_RECEIVE || (is_sending(kind) && span)) ||
	    !current_selected(current))
		return 0;
	socket = socket_of(current, regs, &mode);
	if (!socket)
		return 0;
	if (kind == IOTRACE_SPAN_RECEIVE)
		received(current, socket, now);
	else if (span)
		sent(ctx, span, current, socket, now);
	return 0;
}

#endif
