/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * On 7.2 a program at a tracepoint may be preempted, and until it goes on the kernel leaves it out for every other thread on
 * that CPU (kernel_preempts_programs). Each of these is attached behind the program of the same tracepoint, and does what
 * that one was left out for. Loaded there only. CO-RE only.
 */
#ifndef AGAIN_BPF_H
#define AGAIN_BPF_H

#include "request.bpf.h"
#include "syscall.bpf.h"

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue_again, struct bio *bio)
{
	struct iotrace_flight *flight;

	if (!follows)
		return 0;
	flight = bio_find(address_of(ctx));
	if (!flight || flight->request) /* else it is this bio's, which is no request yet */
		bio_comes(ctx, bio, bpf_ktime_get_ns());
	return 0;
}

/* The second time these two change nothing. */

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert_again, struct request *rq)
{
	if (follows)
		request_is_inserted(rq);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue_again, struct request *rq)
{
	if (follows)
		request_is_issued(rq);
	return 0;
}

/* Else the call before, if it has the same number, would be taken for this one. */
SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter_again, struct pt_regs *regs, long number)
{
	struct call *call;

	if (!switched_on || !call_is_timed(kind_of_call(number)))
		return 0;
	call = current_call(bpf_get_current_task_btf(), number);
	if (call && call->is_new)
		call->is_new = false;
	else
		call_begins(regs, number, false);
	return 0;
}

#endif
