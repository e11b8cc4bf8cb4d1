/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is known about bios and requests under way. Of both backends. */
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
static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 key, __u64 now)
{
	struct iotrace_flight *flight = flight_claim(key);
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

#endif
