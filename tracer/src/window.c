// SPDX-License-Identifier: Apache-2.0
#include "window.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETTLE_TRIES 400
#define SETTLED_READINGS 4
#define LONGEST_PAUSE_NS 50000LL
#define HANG_NS 2000000000LL

static void spin_until(long long mono_ns)
{
	while (clock_now(CLOCK_MONOTONIC) < mono_ns)
		;
}

/* A reading of what the kernel has counted for a disk, and of our own count at that instant (switched off: `idle`). */
struct reading {
	struct diskstats stats;
	__u64 idle;
};

/* How much the kernel is ahead; it wraps, only differences of it count. */
static __u64 lead(const struct reading *reading)
{
	const struct diskstats *stats = &reading->stats;

	return stats->reads + stats->writes + stats->discards + stats->flushes - reading->idle;
}

/*
 * The kernel counts a request a few microseconds after the tracepoint at which we count it. So: our count, a
 * pause for requests between the two, the kernel's count, our count again. False: ours has moved.
 */
static bool read_once(struct probe *probe, const struct device *device, long long pause_ns, struct reading *reading)
{
	struct iotrace_counters before, after;
	bool ok;

	probe_counters(probe, device->id, &before);
	spin_until(clock_now(CLOCK_MONOTONIC) + pause_ns);
	ok = diskstats_read(device, &reading->stats);
	probe_counters(probe, device->id, &after);
	reading->idle = after.idle;
	return ok && before.idle == after.idle;
}

/* Waits until each CPU has left what it was at in the kernel. Refused with nohz_full: then the readings are closer. */
static void let_all_go_on(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/*
 * Under load the pause gets shorter with each try. A virtual CPU may be taken away for milliseconds between the
 * tracepoint and the kernel's count, which then lags while the request is still in flight; so of several readings, half
 * of them when that CPU has gone on, the last one that lags least.
 */
static struct reading read_settled(struct probe *probe, const struct device *device, bool *settled)
{
	struct reading reading, best = {0};
	int found = 0;

	for (int i = 0; i < SETTLE_TRIES && found < SETTLED_READINGS; i++) {
		long long pause_ns = LONGEST_PAUSE_NS * (SETTLE_TRIES - i) / SETTLE_TRIES;
		bool whole = read_once(probe, device, pause_ns, &reading);

		if (!whole)
			continue;
		if (!found++ || (__s64)(lead(&reading) - lead(&best)) >= 0)
			best = reading;
		if (found == SETTLED_READINGS / 2 && reading.stats.in_flight)
			let_all_go_on();
	}
	*settled = found > 0;
	return found ? best : reading;
}

static __u64 idle_count(struct probe *probe, __u32 device)
{
	struct iotrace_counters counters;

	probe_counters(probe, device, &counters);
	return counters.idle;
}

void window_open(struct trace *trace)
{
	/* One that came while the programs were loaded has done what they have not counted. */
	if (!trace->options.device_count)
		devices_add_all(&trace->devices);
	trace->devices_at_start = trace->devices.count;
	for (size_t i = 0; i < trace->devices.count; i++) {
		struct device *device = &trace->devices.list[i];
		struct reading reading = read_settled(trace->probe, device, &device->before_settled);

		device->before = reading.stats;
		device->identity = device_identity(device->name);
		device->idle_at_reading = reading.idle;
	}
	trace->started_mono_ns = clock_now(CLOCK_MONOTONIC);
	probe_switch(trace->probe, PHASE_ON, trace->started_mono_ns);
	for (size_t i = 0; i < trace->devices.count; i++) {
		struct device *device = &trace->devices.list[i];

		/* Stands still while the trace is on. */
		device->idle_while_on = idle_count(trace->probe, device->id);
		device->before_switch_on = device->idle_while_on - device->idle_at_reading;
	}
}

/* A disk that came while tracing: the kernel began to count it at zero, and so did we. */
static void add_new_devices(struct trace *trace)
{
	if (trace->options.device_count)
		return;
	devices_add_all(&trace->devices);
	for (size_t i = trace->devices_at_start; i < trace->devices.count; i++)
		trace->devices.list[i].before_settled = trace->devices.list[i].before.known = true;
}

/* With another one in its place, of which the kernel's count began anew, the disk is gone. */
static bool is_gone(const struct device *device)
{
	return !device->identity || device_identity(device->name) != device->identity;
}

/*
 * Requests that were under way when the trace was switched off complete soon, and are then no longer in
 * the list. Those that stay have completed unseen, unless the disk hangs: then we cannot tell them apart.
 */
static void find_never_completed(struct trace *trace)
{
	long long deadline = clock_now(CLOCK_MONOTONIC) + HANG_NS;

	while (probe_never_completed(trace->probe, &trace->devices) && clock_now(CLOCK_MONOTONIC) < deadline &&
	       devices_awaited(&trace->devices))
		usleep(10000);
}

void window_stop(struct trace *trace)
{
	trace->stopped_mono_ns = clock_now(CLOCK_MONOTONIC);
	probe_switch(trace->probe, PHASE_FOLLOWING, 0);
}

void window_close(struct trace *trace)
{
	add_new_devices(trace);
	for (size_t i = 0; i < trace->devices.count; i++) {
		struct device *device = &trace->devices.list[i];
		struct reading reading = read_settled(trace->probe, device, &device->after_settled);

		device->after = reading.stats;
		if (is_gone(device))
			device->after.known = device->after_settled = false;
		device->after_switch_off = reading.idle - device->idle_while_on;
	}
	probe_switch(trace->probe, PHASE_OFF, 0);
	find_never_completed(trace);
}
