/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The programs of both backends; what differs is in device, dirtier, file, filter, log, peek, store, syscall, uring
 * (CO-RE) and in bcc_peek, bcc_store. Follows every request from the system call to its completion and hands one event to
 * user space.
 *
 *   sys_enter ............ remember when the task entered a read, write or sync call (syscall.bpf.h)
 *   sys_exit ............. with --vfs: how long it took, and an event when it had requests (return.bpf.h)
 *   io_uring_submit_req .. remember when the kernel took a request from a ring (uring.bpf.h)
 *   writeback_dirty_folio  remember who dirtied a page of the file
 *   throttled ............ a bio is held back by its cgroup's limit; it is queued later (throttle.bpf.h)
 *   block_bio_queue ...... a bio enters the block layer: who, when, which file     -> flight of the bio
 *   block_split .......... the split-off part inherits its parent's flight
 *   block_rq_insert ...... the request enters the I/O scheduler (only when asked for)
 *   block_rq_issue ....... the driver gets it: bios' flights become the request's -> flight of the request
 *   block_rq_requeue ..... the driver gives it back
 *   block_rq_complete .... the event is written, and counted (completion.bpf.h)
 *   block_io_done ........ safety net, see there
 *   driver.bpf.h ......... what can be seen of the driver between issue and completion
 */
#ifndef REQUEST_BPF_H
#define REQUEST_BPF_H

#include "driver.bpf.h"
#include "owner.bpf.h"

/* ---- tasks ---- */

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(writeback_dirty_folio, struct folio *folio, struct address_space *mapping)
{
	if (switched_on && mapping)
		dirtier_note(FIELD(mapping, host), task_now());
	return 0;
}

/* ---- bios ---- */

/* It tells of an older request whose completion was not seen, and then nobody saw the bio come that is there now. */
static __always_inline bool is_left_over(const struct iotrace_flight *of_bio)
{
	return BIOS_FLIGHTS_GO_ON && of_bio->request && of_bio->event.flags & (FLIGHT_COUNTED | FLIGHT_DONE);
}

static __always_inline struct iotrace_flight *bio_comes(void *ctx, struct bio *bio, __u64 now)
{
	struct iotrace_flight *flight;
	__u32 device = device_of_bio(bio);

	if (!is_traced(device)) {
		if (measures_vfs)
			goes_elsewhere(task_now(), now);
		return NULL;
	}
	/* The place of one that was seen to come, and was held back, need not be the first of its bucket. */
	flight = may_have_been_held() ? flight_claim((__u64)bio) : bio_claim((__u64)bio);
	if (!flight)
		return NULL;
	if (flight->event.flags & FLIGHT_HELD && was_held_back(task_now())) {
		flight->event.flags &= ~FLIGHT_HELD;
		return NULL;
	}
	count_unseen(flight);
	flight_clear(flight, now, 0);
	flight->event.queue_ns = now;
	flight->event.device = device;
	flight_own(ctx, flight, bio);
	/* An empty flush is never issued itself: its bio is all that we see of it before it completes. */
	if (flight->event.flags & IOTRACE_PREFLUSH && !FIELD(bio, bi_iter.bi_size))
		flight->event.flags |= FLIGHT_COUNTED;
	return flight;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	if (follows)
		bio_comes(ctx, bio, bpf_ktime_get_ns());
	return 0;
}

/* The kernel passes the part that was split off; bio_chain() has made the rest its bi_private. */
SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *bio, unsigned int new_sector)
{
	struct iotrace_flight *parent, *flight;
	__u64 now;

	if (!follows)
		return 0;
	parent = bio_find((__u64)FIELD(bio, bi_private));
	if (!parent || is_left_over(parent))
		return 0;
	now = bpf_ktime_get_ns();
	flight = bio_claim((__u64)bio);
	if (!flight || flight == parent)
		return 0;
	count_unseen(flight);
	flight_clear(flight, now, 0);
	flight_inherit(flight, parent);
	return 0;
}

/* ---- requests ---- */

/* The last flush command that completed has a flight, too, by the address of its queue. */
static __always_inline void flush_note(struct request *rq, __u64 issue_ns, __u64 now)
{
	struct iotrace_flight *flush = flight_claim(flush_queue_of(rq));

	if (!flush)
		return;
	flush->touched_ns = now;
	flush->event.issue_ns = issue_ns;
	flush->event.flags = FLIGHT_DONE; /* nothing is missing when it gives way */
}

/*
 * A request that asked for a flush before it waits until the kernel's flush command is done. That is
 * time of the device, so the first command issued for the request is that flush. It cannot have been
 * issued before the request was queued: the kernel starts a new flush for those that come later.
 */
static __always_inline __u64 preflush_issued(struct request *rq, struct iotrace_flight *flight)
{
	struct iotrace_flight *flush;

	if (!(flight->event.flags & IOTRACE_PREFLUSH) || !flight->event.queue_ns)
		return 0;
	flush = flight_find(flush_queue_of(rq));
	if (!flush || flush->event.issue_ns < flight->event.queue_ns)
		return 0;
	return flush->event.issue_ns;
}

/* The request had the one flight and has the other now. */
static __always_inline void flight_go_on(struct iotrace_flight *to, const struct iotrace_flight *from)
{
	to->event.insert_ns = from->event.insert_ns;
	to->event.submit_ns = from->event.submit_ns;
	to->event.issue_ns = from->event.issue_ns;
	to->event.requeues = from->event.requeues;
	to->event.sector = from->event.sector;
}

struct gathering {
	__u64 bio;
	__u64 request;
	struct iotrace_flight owner; /* of the earliest bio among those that pass the filters, else of all */
	__u16 bios;
	bool goes_on;
	__u32 own_bytes; /* of the owner's call */
};

/* False: there is none left. */
LOOKED_AT_ONCE bool gather_bio(struct gathering *gathering)
{
	struct iotrace_flight *flight, *owner;
	struct bio *bio;
	bool better, same_call;

	if (!gathering || !gathering->bio)
		return false;
	bio = (struct bio *)gathering->bio;
	owner = &gathering->owner;
	gathering->bios++;
	flight = bio_find((__u64)bio);
	if (flight && !is_left_over(flight)) {
		bool selected = flight->event.flags & FLIGHT_SELECTED;
		bool owner_selected = owner->event.flags & FLIGHT_SELECTED;

		better = selected == owner_selected ? flight->event.queue_ns < owner->event.queue_ns : selected;
		better |= !owner->event.queue_ns;
		same_call = is_same_call(flight, owner);
		if (better && !same_call)
			gathering->own_bytes = 0;
		if (better)
			flight_note(owner, flight);
		if (better || same_call)
			gathering->own_bytes += PEEK(bio, bio, bi_iter.bi_size);
		if (BIOS_FLIGHTS_GO_ON && flight->request == gathering->request) { /* it had one bio until now */
			flight_go_on(owner, flight);
			gathering->goes_on = true;
		}
		bio_free(flight);
	}
	gathering->bio = (__u64)PEEK(bio, bio, bi_next);
	return true;
}

/* The kernel wants such a function to return something. */
LOOKED_AT_ONCE bool gather_bios(struct gathering *gathering, bool is_issued)
{
	UNTIL_LAST_BIO(is_issued, !gather_bio(gathering))
		;
	return true;
}

/* Moves what is known about the request's bios to the flight of the request. */
static __always_inline void gather(struct iotrace_flight *flight, struct request *rq, bool is_issued)
{
	struct gathering gathering = {.request = flight->request};
	struct iotrace_flight *only;
	struct bio *first = FIELD(rq, bio);

	if (!first || is_of_bio(flight))
		return;
	gathering.bio = as_number(&flight->event.seen_ns, first);
	flight->event.seen_ns = 0;
	if (!FIELD(first, bi_next)) {
		flight->event.bios = 1;
		only = bio_find(gathering.bio);
		if (!only || is_left_over(only))
			return;
		flight_inherit(flight, only);
		bio_free(only);
		return;
	}
	gather_bios(&gathering, is_issued);
	flight->event.bios = gathering.bios;
	flight_inherit(flight, &gathering.owner);
	if (measures_vfs)
		wait_share(flight, FIELD(rq, __data_len) - gathering.own_bytes);
	if (gathering.goes_on)
		flight_go_on(flight, &gathering.owner);
}

static __always_inline void request_is_inserted(struct request *rq)
{
	struct iotrace_flight *flight;
	__u64 now;

	if (!is_traced(device_of_request(rq)))
		return;
	now = bpf_ktime_get_ns();
	flight = flight_of_request(rq, now);
	if (flight && !flight->event.insert_ns)
		flight->event.insert_ns = now;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq)
{
	if (follows)
		request_is_inserted(rq);
	return 0;
}

/* The requests that multipath sends to a path have bios that nobody has queued: whose it is, is known above. */
static __always_inline void gather_from_above(struct iotrace_flight *flight, struct request *rq)
{
	struct bio *first = FIELD(rq, bio);
	struct iotrace_flight *known;
	struct request_id above = {0};

	if (first)
		above.address = request_above(&flight->event.seen_ns, first, (__u64)FIELD(first, bi_end_io));
	flight->event.seen_ns = 0;
	if (!above.address)
		return;
	above.generation = PEEK(request, above.address, start_time_ns);
	above.last_bio = (__u64)PEEK(request, above.address, biotail);
	known = flight_known(&above);
	if (!known)
		return;
	flight_inherit(flight, known);
	flight->event.wait = 0; /* the call waits for the one above */
	flight->event.flags &= ~(FLIGHT_COUNTED | FLIGHT_FLUSHED | FLIGHT_PLACED | FLIGHT_DONE | IOTRACE_PREFLUSH);
}

static __always_inline void first_issue(struct iotrace_flight *flight, struct request *rq, __u64 now)
{
	__u64 flushed;

	gather(flight, rq, true);
	if (!flight->event.queue_ns)
		gather_from_above(flight, rq);
	flight->event.size_bytes = FIELD(rq, __data_len);
	if (!flight->event.issue_ns)
		flight->event.issue_ns = now;
	flushed = preflush_issued(rq, flight);
	if (flushed) {
		flight->event.issue_ns = flushed;
		flight->event.flags |= FLIGHT_FLUSHED;
		flight->event.insert_ns = 0;
	}
}

static __always_inline void request_is_issued(struct request *rq)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 device = device_of_request(rq);
	struct iotrace_flight *flight;

	if (!is_traced(device))
		return;
	flight = flight_of_request(rq, now);
	if (!flight)
		return;
	if (!flight->event.issue_ns) /* after a requeue it is issued again: the first time counts */
		first_issue(flight, rq, now);
	flight->event.device = device;
	if (is_counted(rq))
		flight->event.flags |= FLIGHT_COUNTED;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	if (follows)
		request_is_issued(rq);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	struct request_id request = id_of(rq);
	struct iotrace_flight *flight = follows ? flight_known(&request) : NULL;

	if (!flight)
		return 0;
	flight->event.requeues++;
	flight->event.seen_ns = 0;
	flight->event.flags &= ~FLIGHT_COUNTED; /* it may now be merged into another one, and never complete */
	return 0;
}

#endif
