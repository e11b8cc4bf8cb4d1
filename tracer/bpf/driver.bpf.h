/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When the driver took a request, gave it to the device, and saw it completed. Of both backends; functions are in
 * function.bpf.h. Which of these programs are
 * loaded depends on the disks and on the kernel (src/driver.c); a request without a mark has no driver layer.
 *
 *   NVMe .... nvme_setup_cmd, block_rq_issue, (doorbell, device, interrupt,) nvme_sq, block_rq_complete
 *   SCSI .... block_rq_issue, scsi_dispatch_cmd_start, (adapter, device,) scsi_dispatch_cmd_done, block_rq_complete
 *   fentry .. queue_rq, block_rq_issue, (notify, device, interrupt,) blk_mq_complete_request_remote, block_rq_complete;
 *             kprobe the same
 *   irq ..... block_rq_issue, (notify, device,) irq_handler_entry, block_rq_complete
 */
#ifndef DRIVER_BPF_H
#define DRIVER_BPF_H

#include "flight.bpf.h"

static __always_inline struct request_id id_at(__u64 key)
{
	return (struct request_id){key, PEEK(request, key, start_time_ns), (__u64)PEEK(request, key, biotail)};
}

static __always_inline struct iotrace_flight *flight_under_way(__u64 key)
{
	struct request_id request = id_at(key);
	struct iotrace_flight *flight = flight_known(&request);

	return flight && !(flight->event.flags & FLIGHT_DONE) ? flight : NULL;
}

/* Comes before block_rq_issue, so the flight may not be there yet. The first time counts, after a requeue too. */
static __always_inline void mark_submit(__u64 key, __u8 tracing)
{
	struct request *rq = (struct request *)key;
	struct request_id request;
	struct iotrace_flight *flight;
	__u64 now = bpf_ktime_get_ns();
	__u32 device = device_of_untrusted(rq);

	if (!device || !is_traced(device))
		return;
	request = id_at(key);
	flight = flight_of(&request, (__u64)PEEK(request, rq, bio), now);
	if (flight && !flight->event.submit_ns) {
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

/* ---- interrupts ---- */

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	struct iotrace_interrupt *last;
	__u32 zero = 0, device;

	if (!switched_on)
		return 0;
	device = device_of_interrupt(irq);
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
 * brought the completion; when it was dealt with on another CPU, or polled for, there is none. `slot` is the copy of
 * `event` in the log, and only written: no CPU has its cache lines, and reading what was just written there waits for
 * them (120 of 250 ns of block_rq_complete at depth 1).
 */
static __always_inline void mark_irq(struct iotrace_event *slot, const struct iotrace_event *event, __u32 device)
{
	struct iotrace_interrupt *last;
	__u32 zero = 0;

	if (!uses_irqs || event->tracing != IOTRACE_BLOCK)
		return;
	last = bpf_map_lookup_elem(&interrupts, &zero);
	if (!last || last->device != device || !event->issue_ns || last->entry_ns <= event->issue_ns)
		return;
	slot->seen_ns = last->entry_ns;
	slot->tracing = IOTRACE_IRQ;
}

#endif
