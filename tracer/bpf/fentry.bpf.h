/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The marks of drivers whose functions can be attached to. */
#ifndef FENTRY_BPF_H
#define FENTRY_BPF_H

#include "driver.bpf.h"

SEC("fentry/virtio_queue_rq")
int BPF_PROG(virtio_queue_rq, struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *data)
{
	if (switched_on)
		mark_submit((__u64)BPF_CORE_READ(data, rq), IOTRACE_FENTRY);
	return 0;
}

struct batch {
	__u64 request;
};

static long mark_next(__u64 index, struct batch *batch)
{
	struct request *rq = (struct request *)batch->request;

	if (!rq)
		return 1;
	mark_submit((__u64)rq, IOTRACE_FENTRY);
	batch->request = (__u64)BPF_CORE_READ(rq, rq_next);
	return 0;
}

#define MAX_BATCH 256

/* The list's first member is its first request, both as `struct request **` and as `struct rq_list *`. */
SEC("fentry/virtio_queue_rqs")
int virtio_queue_rqs(void *ctx)
{
	struct batch batch = {};

	if (!switched_on)
		return 0;
	bpf_probe_read_kernel(&batch.request, sizeof(batch.request), (void *)address_of(ctx));
	bpf_loop(MAX_BATCH, mark_next, &batch, 0);
	return 0;
}

SEC("fentry/blk_mq_complete_request_remote")
int blk_mq_complete_request_remote(void *ctx)
{
	struct iotrace_flight *flight;

	if (!switched_on)
		return 0;
	flight = flight_under_way(address_of(ctx));
	if (flight && flight->event.tracing == IOTRACE_FENTRY)
		flight->event.seen_ns = bpf_ktime_get_ns();
	return 0;
}

#endif
