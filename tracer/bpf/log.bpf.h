/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a request is, and how its record gets to user space. */
#ifndef LOG_BPF_H
#define LOG_BPF_H

#include "flight.bpf.h"

/* Set before loading: events per CPU, a power of two. */
const volatile __u32 log_events = 4096;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: possible CPUs */
	__type(key, __u32);
	__type(value, struct iotrace_head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: possible CPUs x log_events */
	__type(key, __u32);
	__type(value, struct iotrace_event);
} events SEC(".maps");

/* Bits of request.rq_flags; set before loading: in some kernels they belong to no type with a name. */
const volatile __u32 flush_seq_bit, io_stat_bit;

static __always_inline bool in_flush_sequence(struct request *rq)
{
	return rq->rq_flags & 1U << (flush_seq_bit & 31);
}

static __always_inline bool in_diskstats(struct request *rq)
{
	return rq->rq_flags & 1U << (io_stat_bit & 31);
}

/* The kernel's own flush command, which serves all requests that wait for a flush on this queue. */
static __always_inline bool is_flush_command(struct request *rq)
{
	return (rq->cmd_flags & OP_MASK) == OP_FLUSH;
}

static __always_inline __u8 mode_of(struct request *rq)
{
	__u32 op = rq->cmd_flags & OP_MASK;

	if (op == OP_FLUSH)
		return IOTRACE_FLUSH;
	if (op == OP_DISCARD)
		return IOTRACE_DISCARD;
	return op & 1 ? IOTRACE_WRITE : IOTRACE_READ;
}

static __always_inline __u16 request_flags(struct request *rq, struct iotrace_flight *flight)
{
	__u32 opf = rq->cmd_flags;
	__u16 flags = 0;

	if (flight->event.flags & (IOTRACE_PREFLUSH | IOTRACE_FUA) || !(opf & OP_MASK) ||
	    opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC))
		flags |= IOTRACE_SYNC;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META))
		flags |= IOTRACE_META;
	if (flight->event.queue_ns)
		flags |= IOTRACE_OWNED;
	return flags;
}

/* False: the log of this CPU is full. */
static __always_inline bool log_append(const struct iotrace_event *event)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct iotrace_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct iotrace_event *slot;

	if (!head || head->reserved - head->consumed >= log_events - IOTRACE_NESTING)
		return false;
	index = __sync_fetch_and_add(&head->reserved, 1) & (log_events - 1);
	index += cpu * log_events;
	slot = bpf_map_lookup_elem(&events, &index);
	if (slot)
		*slot = *event;
	__sync_fetch_and_add(&head->committed, 1);
	return true;
}

static __always_inline void emit(struct iotrace_counters *of_device, struct request *rq, struct iotrace_flight *flight,
				 __u32 device, __u64 now, __u8 status)
{
	count(&of_device->completions);
	flight->event.done_ns = now;
	flight->event.sector = rq->__sector;
	flight->event.device = device;
	flight->event.flags |= request_flags(rq, flight);
	flight->event.mode = mode_of(rq);
	flight->event.status = status;
	if (!log_append(&flight->event))
		count(&of_device->dropped);
}

#endif
