/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is not I/O but may make a moment slow: histograms and counters, never a record each. Loaded with --context. Of both
 * backends.
 */
#ifndef CONTEXT_BPF_H
#define CONTEXT_BPF_H

#include "beside.bpf.h"
#include "device.bpf.h"
#include "histogram.bpf.h"
#include "tcp.bpf.h"

static __always_inline struct iotrace_context *context_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&contexts, &zero);
}

static __always_inline void becomes_runnable(struct task_struct *task)
{
	__u32 tid = FIELD(task, pid);

	if (switched_on && tid) /* the idle task never waits */
		waiting_begin(tid);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	becomes_runnable(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	becomes_runnable(task);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempted, struct task_struct *from, struct task_struct *to)
{
	struct iotrace_context *context;
	__u64 waits;

	if (!switched_on)
		return 0;
	if (stays_runnable(ctx, from))
		becomes_runnable(from);
	else
		waiting_end(FIELD(from, pid)); /* it still waits when nobody saw the thread get this CPU */
	waits = waiting_end(FIELD(to, pid));
	context = waits ? context_of_cpu() : NULL;
	if (context)
		fine_add(&context->run_queue_ns, (bpf_ktime_get_ns() - waits) & WAITING_TIME);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock *sock)
{
	struct iotrace_context *context;

	if (!switched_on)
		return 0;
	context = context_of_cpu();
	if (context)
		fine_add(&context->tcp_rtt_us, rtt_us(sock));
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit, struct sock *sock, struct sk_buff *buffer)
{
	struct iotrace_context *context = switched_on ? context_of_cpu() : NULL;

	if (context && in_retrans_segs(ctx))
		context->tcp_retransmits += segments_of(buffer);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int mm_filemap_add_to_page_cache(void *ctx)
{
	struct iotrace_context *context = switched_on ? context_of_cpu() : NULL;

	if (context)
		count(&context->page_cache_added);
	return 0;
}

#endif
