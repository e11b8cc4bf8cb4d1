// SPDX-License-Identifier: Apache-2.0
/* From what was seen of a request to its layers. They lie end to end: their sum is the whole time. */
#include "record.h"

#include <stdbool.h>

static unsigned long long negative;

/*
 * An end before its beginning is counted. Then this layer and those before it are empty: what is left lies end to end,
 * up to the completion.
 */
static bool in_order(__u64 begin, __u64 end)
{
	negative += begin > end;
	return begin <= end;
}

static void set(struct record *record, enum record_duration which, __u64 ns)
{
	if (ns >= DURATION_EMPTY)
		ns = DURATION_EMPTY - 1; /* 18 minutes: the disk hung */
	record->low[which] = (__u32)ns;
	record->high[which] = ns >> 32;
}

/* The marks of the driver, in the order in which they must lie; unused ones fall together. */
struct marks {
	__u64 submit_ns, start_ns, seen_ns;
};

static bool driver_was_seen(const struct iotrace_event *event, struct marks *marks)
{
	if (event->tracing == IOTRACE_BLOCK || event->flags & FLIGHT_FLUSHED || !event->issue_ns)
		return false;
	marks->submit_ns = event->submit_ns ? event->submit_ns : event->issue_ns;
	marks->start_ns = event->dispatch_ns ? event->dispatch_ns : event->issue_ns;
	marks->seen_ns = event->seen_ns;
	return (!event->queue_ns || event->queue_ns <= marks->submit_ns) && marks->submit_ns <= event->issue_ns &&
	       event->issue_ns <= marks->start_ns && marks->start_ns < marks->seen_ns &&
	       marks->seen_ns < event->done_ns;
}

static void fill_durations(struct record *record, const struct iotrace_event *event)
{
	__u64 queue = event->queue_ns, issue = event->issue_ns, end = event->done_ns;
	struct marks marks;

	for (int i = 0; i < DURATIONS; i++) {
		record->low[i] = 0xffffffff;
		record->high[i] = 0xff;
	}
	record->tracing = IOTRACE_BLOCK;
	record->start_ns = end;
	if (driver_was_seen(event, &marks)) {
		set(record, DRIVER, marks.start_ns - marks.submit_ns + event->done_ns - marks.seen_ns);
		set(record, DEVICE, marks.seen_ns - marks.start_ns);
		record->tracing = event->tracing;
		end = marks.submit_ns;
	} else if (issue) {
		if (!in_order(issue, end))
			return;
		set(record, DEVICE, end - issue);
		end = issue;
	}
	record->start_ns = end;
	/* Never issued (failed before, or an empty flush without a cache to flush): all of it is the block layer. */
	if (!queue || event->flags & FLIGHT_UNTIMED || !in_order(queue, end))
		return;
	set(record, BLOCK, end - queue);
	record->start_ns = queue;
	if (issue && event->insert_ns && event->insert_ns <= end)
		set(record, SCHEDULER, end - event->insert_ns);
	if (!event->enter_ns || !in_order(event->enter_ns, queue))
		return;
	set(record, VFS, queue - event->enter_ns);
	record->start_ns = event->enter_ns;
}

void record_fill(struct record *record, const struct iotrace_event *event)
{
	fill_durations(record, event);
	record->sector = event->sector;
	record->size_bytes = event->size_bytes;
	record->mode = event->mode;
	record->origin = event->origin;
	record->flags = (__u8)event->flags;
	record->status = event->status;
	record->bios = event->bios;
	record->requeues = event->requeues;
}

void return_record_fill(struct return_record *record, const struct iotrace_return *event)
{
	*record = (struct return_record){
		.start_ns = event->enter_ns,
		.duration_ns = event->exit_ns - event->enter_ns,
		.waited_ns = event->done_ns ? event->done_ns - event->enter_ns : NOT_WAITED,
		.bytes = event->bytes,
		.bios = event->bios,
		.requests = event->requests,
		.kind = event->kind,
		.mode = IOTRACE_RETURN,
	};
}

unsigned long long records_negative(void)
{
	return negative;
}
