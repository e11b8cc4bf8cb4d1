/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The end of a request: it is counted, and its event written or the reason why not. Of both backends. */
#ifndef COMPLETION_BPF_H
#define COMPLETION_BPF_H

#include "request.bpf.h"

static __always_inline bool is_wanted(struct request *rq, struct iotrace_flight *flight, __u64 now)
{
	__u64 begin = flight->event.enter_ns ?: flight->event.queue_ns ?: flight->event.issue_ns;

	if (filters_tasks() && !(flight->event.flags & FLIGHT_SELECTED))
		return false;
	if (!(modes_wanted & 1U << (mode_of(rq) & 3)))
		return false;
	return now - begin >= min_latency_ns;
}

/* Before the trace was switched on, as far as the request tells: the kernel may read the clock once for several. */
static __always_inline bool may_have_begun_before(struct request *rq)
{
	return FIELD(rq, start_time_ns) < switched_on_ns;
}

/* Which count a request belongs to, or IOTRACE_EX_COUNT when a record is to be made of it. */
static __always_inline int exclusion(struct request *rq, struct iotrace_flight *flight, __u64 now, __u8 status)
{
	__u64 began_ns = FIELD(rq, start_time_ns);
	bool began_before = began_ns && began_ns < switched_on_ns;

	if (is_flush_command(rq)) {
		if (!flight->event.issue_ns)
			return began_before ? IOTRACE_EX_IN_FLIGHT_AT_START : IOTRACE_EX_UNTRACKED;
	} else if (!flight->event.queue_ns && (began_before || !flight->event.issue_ns)) {
		return began_before ? IOTRACE_EX_IN_FLIGHT_AT_START : IOTRACE_EX_UNTRACKED;
	} else if (!flight->event.issue_ns && !status && !(flight->event.flags & (IOTRACE_PREFLUSH | IOTRACE_FUA))) {
		return IOTRACE_EX_UNTRACKED;
	}
	if (!is_wanted(rq, flight, now))
		return IOTRACE_EX_FILTERED;
	if (sample_every > 1 && bpf_get_prandom_u32() % sample_every)
		return IOTRACE_EX_SAMPLED_OUT;
	return IOTRACE_EX_COUNT;
}

static __always_inline void emit(void *ctx, struct iotrace_counters *of_device, struct request *rq,
				 struct iotrace_flight *flight, __u32 device, __u64 now, __u8 status)
{
	struct iotrace_event *event;
	__u16 lap;

	add_one(&of_device->completions, counts_alone);
	event = log_begin(&flight->event, &lap);
	if (event) {
		event->done_ns = now;
		if (!(flight->event.flags & FLIGHT_PLACED))
			event->sector = FIELD(rq, __sector);
		event->device = device;
		event->flags = flight->event.flags | request_flags(rq, flight);
		event->mode = mode_of(rq);
		event->status = status;
		mark_irq(event, &flight->event, device);
	}
	if (!event || !log_end(ctx, event, lap))
		count(&of_device->dropped);
}

static __always_inline bool was_counted_before(struct request *rq, const struct iotrace_flight *flight)
{
	struct request_id request = id_of(rq);

	if (flight->event.queue_ns)
		return false;
	return was_counted_without_flight(request.address, request.generation) ||
	       was_counted_without_flight(request.last_bio, 0); /* an empty flush */
}

static __always_inline void record_or_exclude(void *ctx, struct request *rq, struct iotrace_flight *flight,
					      struct iotrace_counters *of_device, __u32 device, __u64 now, __u8 status,
					      bool counted)
{
	int why;

	if (is_flush_command(rq) && flight->event.issue_ns)
		flush_note(rq, flight->event.issue_ns, now);
	if (!flight->event.issue_ns) {
		gather(flight, rq, false);
		flight->event.issue_ns = preflush_issued(rq, flight);
		flight->event.flags |= FLIGHT_FLUSHED;
	}
	why = exclusion(rq, flight, now, status);
	/* Not behind the record: locked instructions would wait until the log's cache lines are there. */
	if (measures_vfs)
		wait_note(flight, now, why == IOTRACE_EX_COUNT);
	if (why == IOTRACE_EX_COUNT) {
		emit(ctx, of_device, rq, flight, device, now, status);
		if (!counted)
			__sync_fetch_and_add(&of_device->excluded[IOTRACE_EX_NOT_IN_DISKSTATS], -1);
	} else if (counted && !was_counted_before(rq, flight)) {
		count(&of_device->excluded[why & 7]);
	}
}

/*
 * One request is over: the same condition under which blk_account_io_done() and, for flush commands,
 * blk_account_io_flush() count it, so that the sum can be compared with diskstats. `flight`: NULL when it has to be looked
 * for. True: nothing is known of the request any more.
 */
static __always_inline bool finish(void *ctx, struct request *rq, struct iotrace_flight *flight, __u64 now, __u8 status)
{
	__u32 device = device_of_request(rq), op = FIELD(rq, cmd_flags) & OP_MASK;
	struct iotrace_counters *of_device = counters_of(device);
	bool counted = is_counted(rq);
	bool on = switched_on;

	if (!of_device)
		return false;
	if (!flight)
		flight = flight_of_request(rq, now);
	if (flight && on && op != OP_DRV_IN && op != OP_DRV_OUT)
		record_or_exclude(ctx, rq, flight, of_device, device, now, status, counted);
	else if (counted && !on)
		count(&of_device->idle);
	else if (counted)
		count(&of_device->excluded[flight ? IOTRACE_EX_PASSTHROUGH : IOTRACE_EX_UNTRACKED]);
	if (flight)
		flight->event.flags = FLIGHT_DONE;
	/*
	 * Now, for when the bio has ended, another CPU may queue it again at once, and the flight is that one's. A table of
	 * requests alone would become full of those that are over, where nobody else frees them.
	 */
	if (flight && (is_of_bio(flight) || !(BIOS_FLIGHTS_GO_ON || io_done_follows)) &&
	    !(io_done_follows && may_have_begun_before(rq))) {
		flight_free(flight);
		return true;
	}
	return false;
}

static __always_inline bool has_ended(struct request *rq)
{
	struct request_id request = id_of(rq);
	struct iotrace_flight *flight = flight_known(&request);

	return !flight || flight->event.flags & FLIGHT_DONE;
}

/*
 * The first bytes of a request are done, or all of a write between flushes, but it goes on. From then on the kernel's
 * sector is where the rest begins, or what the bio says, which has moved on (by reading 6f8fd758de63 of 6.10; not seen
 * on 6.18).
 */
static __always_inline void part_is_done(struct request *rq, __u16 flags)
{
	struct request_id request = id_of(rq);
	struct iotrace_flight *flight = flight_known(&request);

	if (!flight)
		return;
	if (!(flight->event.flags & FLIGHT_PLACED))
		flight->event.sector = FIELD(rq, __sector);
	flight->event.flags |= flags | FLIGHT_PLACED;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	/* First of all: reading the clock waits for all reads before it, and those below can wait together. */
	__u64 now = bpf_ktime_get_ns();
	/* The data of a write between its two flushes: the request completes once more when all is done. */
	bool in_sequence = in_flush_sequence(rq) && !is_flush_command(rq);

	/* Only the last of several partial completions ends the request. */
	if (nr_bytes < FIELD(rq, __data_len) || in_sequence) {
		part_is_done(rq, in_sequence ? FLIGHT_FLUSHED : 0);
		return 0;
	}
	/* A path has ended the bios of multipath's request (end_clone_bio()), which was its end; now it has none left. */
	if (!nr_bytes && !FIELD(rq, bio) && !is_flush_command(rq) && has_ended(rq))
		return 0;
	if (finish(ctx, rq, NULL, now, status_of(error)) && io_done_follows)
		ended_note((__u64)rq, FIELD(rq, start_time_ns));
	return 0;
}

/*
 * The kernel skips a BPF program that an interrupt would run while the same program already runs on that
 * CPU: the completion of a loop device's request, interrupted by the completion on the disk below, would
 * hide the latter. This tracepoint follows block_rq_complete on the same request, and deals with those
 * that were skipped. Not there before 6.5; misses are then seen in program_misses only. Not loaded where no completion
 * interrupts another one (driver_completions_nest).
 */
SEC("tp_btf/block_io_done")
int BPF_PROG(block_io_done, struct request *rq)
{
	struct request_id request = id_of(rq);
	struct iotrace_flight *flight;

	/* Looking for a flight that is not there touches up to eight cold cache lines. */
	if (ended_forget(request.address, request.generation))
		return 0;
	if (in_flush_sequence(rq) && !is_flush_command(rq))
		return 0;
	flight = flight_known(&request);
	/* With none, block_rq_complete has seen to it. */
	if (!flight && BIOS_FLIGHTS_GO_ON && request.last_bio && !may_have_begun_before(rq))
		return 0;
	if (!flight || !(flight->event.flags & FLIGHT_DONE)) {
		/* Its bios have ended. When another CPU queues the last one again, that one gets another flight from now on. */
		if (flight)
			flight->key = request.address;
		barrier_var(flight); /* else the compiler makes two of finish(), more than Linux before 5.2 takes */
		finish(ctx, rq, flight, bpf_ktime_get_ns(), 0);
		if (!flight)
			flight = flight_known(&request);
	}
	if (flight && flight->event.flags & FLIGHT_DONE)
		flight_free(flight);
	return 0;
}

#endif
