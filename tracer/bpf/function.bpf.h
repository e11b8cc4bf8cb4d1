/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The marks of drivers whose functions can be attached to: by fentry (fentry.bpf.h), else by kprobes. Of both backends.
 * User space attaches the same program to the function of each driver (src/kprobe.c).
 */
#ifndef FUNCTION_BPF_H
#define FUNCTION_BPF_H

#include "driver.bpf.h"

static __always_inline void mark_queue_rq(struct blk_mq_queue_data *data, __u8 tracing)
{
	mark_submit((__u64)PEEK(blk_mq_queue_data, data, rq), tracing);
}

#if HAS_BATCHES
struct batch {
	__u64 request;
	__u64 tracing;
};

/* False: there is none left. */
LOOKED_AT_ONCE bool mark_next(struct batch *batch)
{
	if (!batch || !batch->request)
		return false;
	mark_submit(batch->request, batch->tracing);
	batch->request = (__u64)PEEK(request, batch->request, rq_next);
	return true;
}
#endif

/* The list's first member is its first request, both as `struct request **` and as `struct rq_list *`. */
static __always_inline void mark_queue_rqs(__u64 list, __u8 tracing)
{
#if HAS_BATCHES
	struct batch batch = {.request = number_at(list), .tracing = tracing};

	UNTIL_LAST_REQUEST(!mark_next(&batch))
		;
#endif
}

/* Before 5.16 one function of the two that tell of it may call the other. */
static __always_inline void mark_completed(__u64 rq, __u8 tracing)
{
	struct iotrace_flight *flight = flight_under_way(rq);

	if (flight && flight->event.tracing == tracing && !flight->event.seen_ns)
		flight->event.seen_ns = bpf_ktime_get_ns();
}

SEC("kprobe")
int kprobe_queue_rq(struct pt_regs *ctx)
{
	if (switched_on)
		mark_queue_rq((struct blk_mq_queue_data *)FUNCTION_ARGUMENT_2(ctx), IOTRACE_KPROBE);
	return 0;
}

SEC("kprobe")
int kprobe_queue_rqs(struct pt_regs *ctx)
{
	if (switched_on)
		mark_queue_rqs(FUNCTION_ARGUMENT_1(ctx), IOTRACE_KPROBE);
	return 0;
}

SEC("kprobe")
int kprobe_complete(struct pt_regs *ctx)
{
	if (switched_on)
		mark_completed(FUNCTION_ARGUMENT_1(ctx), IOTRACE_KPROBE);
	return 0;
}

#endif
