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

/* Counted as under way. Neither freed, nor one that a program has just taken, where it still reads what was there before. */
static __always_inline bool awaits_end(const struct iotrace_flight *flight)
{
	return flight->touched_ns && (flight->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE)) == FLIGHT_COUNTED;
}

/*
 * The address is used again, so what was there before is over. If diskstats has counted it, and we have
 * not, then its completion has escaped us. It happens: see docs/tracer-limits.md.
 */
static __always_inline void count_unseen(struct iotrace_flight *old)
{
	struct iotrace_counters *of_device;

	if (!awaits_end(old))
		return;
	of_device = counters_of(old->event.device);
	if (of_device)
		count(&of_device->excluded[IOTRACE_EX_COMPLETION_NOT_SEEN]);
}

/* ---- the flights of requests ---- */

/* What tells a request from others, and from an older one at the same address. */
struct request_id {
	__u64 address;
	__u64 generation; /* start_time_ns */
	__u64 last_bio;	  /* stays when the bios are gone */
};

static __always_inline bool is_of(const struct iotrace_flight *flight, const struct request_id *request)
{
	/* A request that absorbs an older one before it is issued takes over its start_time_ns (blk-merge.c). */
	bool absorbed = flight->generation > request->generation && !flight->event.issue_ns;

	return flight->request == request->address && (flight->generation == request->generation || absorbed);
}

/* NULL: it has none yet. */
static __always_inline struct iotrace_flight *flight_known(const struct request_id *request)
{
	struct iotrace_flight *flight = BIOS_FLIGHTS_GO_ON ? bio_find(request->last_bio) : NULL;

	if (flight && is_of(flight, request))
		return flight;
	flight = flight_find(request->address);
	return flight && is_of(flight, request) ? flight : NULL;
}

/*
 * The flight of this very request. When it has one bio only, that of the bio goes on as the request's: nothing has to
 * be copied, and half as many cache lines are touched. Else one of its own, cleared when it tells of an older one.
 */
static __always_inline struct iotrace_flight *flight_of(const struct request_id *request, __u64 first_bio, __u64 now)
{
	struct iotrace_flight *flight = NULL;

	if (BIOS_FLIGHTS_GO_ON && first_bio == request->last_bio)
		flight = bio_find(first_bio);
	if (flight && !flight->request) {
		flight->request = request->address;
		flight->generation = request->generation;
		flight->event.bios = 1;
		return flight;
	}
	if (flight && is_of(flight, request) && !(flight->event.flags & FLIGHT_DONE))
		return flight;
	flight = flight_claim(request->address);
	if (!flight)
		return NULL;
	if (is_of(flight, request) && !(flight->event.flags & FLIGHT_DONE) && flight->touched_ns) {
		flight->generation = request->generation;
		return flight;
	}
	count_unseen(flight);
	flight_clear(flight, now, request->generation);
	flight->request = request->address;
	return flight;
}

static __always_inline bool is_of_bio(const struct iotrace_flight *flight)
{
	return flight->key != flight->request;
}

static __always_inline struct request_id id_of(struct request *rq)
{
	return (struct request_id){(__u64)rq, FIELD(rq, start_time_ns), (__u64)FIELD(rq, biotail)};
}

static __always_inline struct iotrace_flight *flight_of_request(struct request *rq, __u64 now)
{
	struct request_id request = id_of(rq);

	return flight_of(&request, (__u64)FIELD(rq, bio), now);
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
	/* A thread that brings what was held back does so for anybody. */
	if (flight->event.queue_ns && !(flight->event.flags & FLIGHT_UNTIMED && flight->event.origin == IOTRACE_OTHER))
		flags |= IOTRACE_OWNED;
	return flags;
}

#endif
