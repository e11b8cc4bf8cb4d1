/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions of drivers, attached to by fentry: CO-RE only. */
#ifndef FENTRY_BPF_H
#define FENTRY_BPF_H

#include "function.bpf.h"

SEC("fentry/virtio_queue_rq")
int BPF_PROG(virtio_queue_rq, struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *data)
{
	if (switched_on)
		mark_queue_rq(data, IOTRACE_FENTRY);
	return 0;
}

SEC("fentry/virtio_queue_rqs")
int virtio_queue_rqs(void *ctx)
{
	/* Read: the verifier refuses to load an argument that points to a pointer. */
	if (switched_on)
		mark_queue_rqs(number_at((__u64)ctx), IOTRACE_FENTRY);
	return 0;
}

SEC("fentry/blk_mq_complete_request_remote")
int blk_mq_complete_request_remote(void *ctx)
{
	if (switched_on)
		mark_completed(address_of(ctx), IOTRACE_FENTRY);
	return 0;
}

#endif
