/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is known about bios and requests under way, and what a request is. Of both backends. */
#ifndef FLIGHT_BPF_H
#define FLIGHT_BPF_H

#include "store.bpf.h"

/* Everything but the key. */
static __always_inline void flight_clear(struct iotrace_flight *flight, __u64 now, __u64 generation)
{
	__builtin_memset(&flight->generation, 0, sizeof(*flight) - __builtin_offsetof(struct iotrace_flight, generation));
	flight->touched_ns = now;
	flight->generation = generation;
}

/* Who and when, from the flight of a bio to that of a request or of another bio. */
static __always_inline void flight_inherit(struct iotrace_flight *to, const struct iotrace_flight *from)
{
	to->event.enter_ns = from->event.enter_ns;
	to->event.queue_ns = from->event.queue_ns;
	to->event.task = from->event.task;
	to->event.file = from->event.file;
	to->event.origin = from->event.origin;
	to->event.flags = from->event.flags;
	to->event.wait = from->event.wait;
}

/*
 * The address is used again, so what was there before is over. If diskstats has counted it, and we have
 * not, then its completion has escaped us. It happens: see docs/tracer.md.
 */
static __always_inline void count_unseen(struct iotrace_flight *old)
{
	struct iotrace_counters *of_device;

	if (!old->touched_ns || (old->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE)) != FLIGHT_COUNTED)
		return;
	of_device = counters_of(old->event.device);
	if (of_device)
		count(&of_device->excluded[IOTRACE_EX_COMPLETION_NOT_SEEN]);
}

/* The flight of this very request: cleared when it still tells of an older one at the same address. */
static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 now)
{
	struct iotrace_flight *flight = flight_claim((__u64)rq);
	__u64 generation;

	if (!flight)
		return NULL;
	generation = FIELD(rq, start_time_ns);
	if (flight->generation == generation && !(flight->event.flags & FLIGHT_DONE) && flight->touched_ns)
		return flight;
	count_unseen(flight);
	flight_clear(flight, now, generation);
	return flight;
}

/* ---- what a request is ---- */

/* The kernel's own flush command, which serves all requests that wait for a flush on this queue. */
static __always_inline bool is_flush_command(struct request *rq)
{
	return (FIELD(rq, cmd_flags) & OP_MASK) == OP_FLUSH;
}

static __always_inline bool is_counted(struct request *rq)
{
	return in_diskstats(rq) || (flushes_are_in_diskstats() && is_flush_command(rq));
}

static __always_inline __u8 mode_of(struct request *rq)
{
	__u32 op = FIELD(rq, cmd_flags) & OP_MASK;

	if (op == OP_FLUSH)
		return IOTRACE_FLUSH;
	if (op == OP_DISCARD)
		return IOTRACE_DISCARD;
	return op & 1 ? IOTRACE_WRITE : IOTRACE_READ;
}

static __always_inline __u16 request_flags(struct request *rq, struct iotrace_flight *flight)
{
	__u32 opf = FIELD(rq, cmd_flags);
	__u16 flags = 0;

	if (flight->event.flags & (IOTRACE_PREFLUSH | IOTRACE_FUA) || !(opf & OP_MASK) ||
	    opf & REQ_FLAG(__REQ_SYNC))
		flags |= IOTRACE_SYNC;
	if (opf & REQ_FLAG(__REQ_META))
		flags |= IOTRACE_META;
	if (flight->event.queue_ns)
		flags |= IOTRACE_OWNED;
	return flags;
}

#endif
