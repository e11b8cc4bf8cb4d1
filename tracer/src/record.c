// SPDX-License-Identifier: Apache-2.0
/* From what was seen of a request to its layers. They lie end to end: their sum is the whole time. */
#include "record.h"

#include <stdbool.h>

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
	__u64 queue = event->queue_ns, issue = event->issue_ns;
	struct marks marks = {.submit_ns = issue};

	for (int i = 0; i < DURATIONS; i++) {
		record->low[i] = 0xffffffff;
		record->high[i] = 0xff;
	}
	record->tracing = IOTRACE_BLOCK;
	if (driver_was_seen(event, &marks)) {
		set(record, DRIVER, marks.start_ns - marks.submit_ns + event->done_ns - marks.seen_ns);
		set(record, DEVICE, marks.seen_ns - marks.start_ns);
		record->tracing = event->tracing;
	} else if (issue) {
		marks.submit_ns = issue;
		set(record, DEVICE, event->done_ns - issue);
	}
	if (event->flags & FLIGHT_UNTIMED)
		queue = 0;
	record->start_ns = queue ? queue : marks.submit_ns;
	if (!queue)
		return;
	/* Never issued (failed before, or an empty flush without a cache to flush): all of it is the block layer. */
	set(record, BLOCK, (issue ? marks.submit_ns : event->done_ns) - queue);
	if (issue && event->insert_ns && event->insert_ns <= marks.submit_ns)
		set(record, SCHEDULER, marks.submit_ns - event->insert_ns);
	if (event->enter_ns && event->enter_ns <= queue) {
		set(record, VFS, queue - event->enter_ns);
		record->start_ns = event->enter_ns;
	}
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
