// SPDX-License-Identifier: Apache-2.0
#include "tell.h"

#include <unistd.h>

#include "say.h"

void tell_begun(const struct trace *trace)
{
	const struct options *options = &trace->options;

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "strata-iotrace: tracing %s", options->device_count ? "" : "all disks");
	for (size_t i = 0; i < options->device_count; i++)
		fprintf(stderr, "%s%s", i ? ", " : "", options->devices[i]);
	fprintf(stderr, " into %s; Ctrl-C ends it\n", options->output);
}

void tell_ended(const struct trace *trace)
{
	const char *output = trace->options.output;
	unsigned long long emitted = 0, dropped = 0;
	struct iotrace_counters counters;

	for (size_t i = 0; i < trace->devices.count; i++) {
		const struct device *device = &trace->devices.list[i];

		probe_counters(trace->probe, device->id, &counters);
		emitted += device->emitted - device->lost;
		dropped += counters.dropped + device->lost;
	}
	if (dropped)
		complain("give them more room (--ring-bytes), or record less (--sample, --min-latency)",
			 "there was no room for them", "%s: %llu of %llu records lost", output, dropped, emitted + dropped);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "strata-iotrace: %s: %llu requests; to see them: python -m tracer.summary %s\n", output,
			emitted, output);
}
