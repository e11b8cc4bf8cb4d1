/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a request is, and the record that is made of it. */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "flight.bpf.h"

static __always_inline bool has_flag(struct request *rq, __u32 bit_by_name, __u32 bit_before_names)
{
	/* Before 6.10 the flags were macros: FLUSH_SEQ bit 4, IO_STAT bit 13. */
	__u32 bit = bpf_core_type_exists(enum rqf_flags) ? bit_by_name : bit_before_names;

	return rq->rq_flags & 1U << bit;
}

static __always_inline bool in_flush_sequence(struct request *rq)
{
	return has_flag(rq, bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ), 4);
}

static __always_inline bool in_diskstats(struct request *rq)
{
	return has_flag(rq, bpf_core_enum_value(enum rqf_flags, __RQF_IO_STAT), 13);
}

/* The kernel's own flush command, which serves all requests that wait for a flush on this queue. */
static __always_inline bool is_flush_command(struct request *rq)
{
	return (rq->cmd_flags & OP_MASK) == OP_FLUSH;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20); /* set before loading */
} records SEC(".maps");

static __always_inline __u8 mode_of(struct request *rq)
{
	__u32 op = rq->cmd_flags & OP_MASK;

	if (op == OP_FLUSH)
		return IOTRACE_FLUSH;
	if (op == OP_DISCARD)
		return IOTRACE_DISCARD;
	return op & 1 ? IOTRACE_WRITE : IOTRACE_READ;
}

static __always_inline __u8 record_flags(struct request *rq, struct iotrace_flight *flight)
{
	__u32 opf = rq->cmd_flags;
	__u8 flags = 0;

	if (flight->flags & FLIGHT_PREFLUSH)
		flags |= IOTRACE_PREFLUSH;
	if (flight->flags & FLIGHT_FUA)
		flags |= IOTRACE_FUA;
	if (flags || !(opf & OP_MASK) || opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC))
		flags |= IOTRACE_SYNC;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META))
		flags |= IOTRACE_META;
	if (flight->queue_ns)
		flags |= IOTRACE_OWNED;
	return flags;
}

static __always_inline void fill_layers(struct iotrace_record *record, struct iotrace_flight *flight, __u64 now)
{
	__u64 queue = flight->queue_ns, issue = flight->issue_ns, enter = flight->enter_ns;

	record->vfs_ns = record->block_ns = record->driver_ns = IOTRACE_EMPTY;
	record->device_ns = record->scheduler_ns = IOTRACE_EMPTY;
	record->start_ns = queue ? queue : issue;
	if (issue)
		record->device_ns = now - issue;
	if (!queue)
		return;
	/* Never issued (failed before, or an empty flush without a cache to flush): all of it is the block layer. */
	record->block_ns = (issue ? issue : now) - queue;
	if (issue && flight->insert_ns)
		record->scheduler_ns = issue - flight->insert_ns;
	if (enter) {
		record->vfs_ns = queue - enter;
		record->start_ns = enter;
	}
}

static __always_inline void emit(struct iotrace_counters *counters, struct request *rq, struct iotrace_flight *flight,
				 __u32 device, __u64 now, __u8 status)
{
	struct iotrace_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	count(&counters->completions);
	if (!record) {
		count(&counters->dropped);
		return;
	}
	fill_layers(record, flight, now);
	record->sector = rq->__sector;
	record->cgroup_id = flight->cgroup_id;
	record->inode = flight->inode;
	record->size_bytes = flight->bytes;
	record->device = device;
	record->pid = flight->pid_tgid >> 32;
	record->tid = (__u32)flight->pid_tgid;
	__builtin_memcpy(record->comm, flight->comm, sizeof(record->comm));
	record->mode = mode_of(rq);
	record->origin = flight->origin;
	record->flags = record_flags(rq, flight);
	record->status = status;
	record->bios = flight->bios;
	record->requeues = flight->requeues;
	/* User space looks by itself: a wake-up per record costs 0.7 us. */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	count(&counters->emitted);
}

#endif
