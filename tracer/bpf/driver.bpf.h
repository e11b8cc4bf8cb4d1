/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When the driver took a request, gave it to the device, and saw it completed. Which of these programs are
 * loaded depends on the disks and on the kernel (src/driver.c); a request without a mark has no driver layer.
 *
 *   NVMe .... nvme_setup_cmd, block_rq_issue, (doorbell, device, interrupt,) nvme_sq, block_rq_complete
 *   SCSI .... block_rq_issue, scsi_dispatch_cmd_start, (adapter, device,) scsi_dispatch_cmd_done, block_rq_complete
 *   fentry .. queue_rq, block_rq_issue, (notify, device, interrupt,) blk_mq_complete_request_remote, block_rq_complete
 *   irq ..... block_rq_issue, (notify, device,) irq_handler_entry, block_rq_complete
 */
#ifndef DRIVER_BPF_H
#define DRIVER_BPF_H

#include "flight.bpf.h"
#include "peek.bpf.h"

static __always_inline struct iotrace_flight *flight_under_way(__u64 key)
{
	struct iotrace_flight *flight = flight_find(key);

	if (!flight || flight->event.flags & FLIGHT_DONE ||
	    flight->generation != PEEK(request, key, start_time_ns))
		return NULL;
	return flight;
}

/* Comes before block_rq_issue, so the flight may not be there yet. The first time counts, after a requeue too. */
static __always_inline void mark_submit(__u64 key, __u8 tracing)
{
	struct request *rq = (struct request *)key;
	struct request_queue *queue = PEEK(request, rq, q);
	struct gendisk *disk = PEEK(request_queue, queue, disk);
	__u64 generation = PEEK(request, rq, start_time_ns);
	struct iotrace_flight *flight;
	__u64 now = bpf_ktime_get_ns();

	if (!disk || !is_traced((__u32)PEEK(gendisk, disk, major) << 20 | (__u32)PEEK(gendisk, disk, first_minor)))
		return;
	flight = flight_claim(key);
	if (!flight)
		return;
	if (flight->generation != generation || flight->event.flags & FLIGHT_DONE || !flight->touched_ns) {
		count_unseen(flight);
		flight_clear(flight, now, generation);
	}
	if (!flight->event.submit_ns) {
		flight->event.submit_ns = now;
		flight->event.tracing = tracing;
	}
}

static __always_inline void mark_seen(__u64 key)
{
	struct iotrace_flight *flight = flight_under_way(key);

	if (flight)
		flight->event.seen_ns = bpf_ktime_get_ns();
}

/* ---- NVMe ---- */

SEC("tp_btf/nvme_setup_cmd")
int nvme_setup_cmd(void *ctx)
{
	if (switched_on)
		mark_submit(address_of(ctx), IOTRACE_NVME);
	return 0;
}

SEC("tp_btf/nvme_sq")
int nvme_sq(void *ctx)
{
	if (switched_on)
		mark_seen(address_of(ctx));
	return 0;
}

/* ---- SCSI ---- */

/* The command stands behind its request, see blk_mq_rq_to_pdu(). */
static __always_inline __u64 request_of_command(void *ctx)
{
	return address_of(ctx) - bpf_core_type_size(struct request);
}

SEC("tp_btf/scsi_dispatch_cmd_start")
int scsi_dispatch_cmd_start(void *ctx)
{
	struct iotrace_flight *flight;

	if (!switched_on)
		return 0;
	flight = flight_under_way(request_of_command(ctx));
	if (flight && !flight->event.dispatch_ns) {
		flight->event.dispatch_ns = bpf_ktime_get_ns();
		flight->event.tracing = IOTRACE_SCSI;
	}
	return 0;
}

SEC("tp_btf/scsi_dispatch_cmd_done")
int scsi_dispatch_cmd_done(void *ctx)
{
	if (switched_on)
		mark_seen(request_of_command(ctx));
	return 0;
}

/* ---- functions of the driver ---- */

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

/* ---- interrupts ---- */

/* Set before loading: the disk whose interrupt it is, 0 = no disk's. */
const volatile __u32 device_of_irq[IOTRACE_IRQS];
const volatile bool uses_irqs;

struct interrupt {
	__u64 entry_ns;
	__u32 device;
};

/* The last disk interrupt of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interrupt);
} interrupts SEC(".maps");

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	struct interrupt *last;
	__u32 zero = 0, device;
	__u64 number = (__u32)irq;

	barrier_var(number); /* else the compiler loses what the verifier must see */
	if (!switched_on || number >= IOTRACE_IRQS)
		return 0;
	device = device_of_irq[number];
	if (!device)
		return 0;
	last = bpf_map_lookup_elem(&interrupts, &zero);
	if (!last)
		return 0;
	last->device = device;
	last->entry_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * At completion. An interrupt of this disk, on this CPU, since the request was issued, is the one that
 * brought the completion; when it was dealt with on another CPU, or polled for, there is none.
 */
static __always_inline void mark_irq(struct iotrace_flight *flight, __u32 device)
{
	struct interrupt *last;
	__u32 zero = 0;

	if (!uses_irqs || flight->event.tracing != IOTRACE_BLOCK)
		return;
	last = bpf_map_lookup_elem(&interrupts, &zero);
	if (!last || last->device != device || !flight->event.issue_ns || last->entry_ns <= flight->event.issue_ns)
		return;
	flight->event.seen_ns = last->entry_ns;
	flight->event.tracing = IOTRACE_IRQ;
}

#endif
