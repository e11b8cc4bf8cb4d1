// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "bcc_maps.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <unistd.h>

#include "calls.h"
#include "targets.h"

static const struct {
	const char *name;
	enum bpf_map_type type;
	__u32 key_bytes, value_bytes, entries;
} MAPS[] = {
#define MAP_ENTRY(name, type, key, value, entries)                                                                    \
	{#name, BPF_MAP_TYPE_##type, sizeof(key), sizeof(value), entries},
	BCC_MAPS(MAP_ENTRY)};

static bool is_used(int map, const struct options *options)
{
	switch (map) {
	case MAP_waiting:
		return options->context;
	case MAP_peers:
		return options->peers;
	case MAP_spans:
	case MAP_receivers:
	case MAP_processes:
		return options->spans;
	default:
		return true;
	}
}

bool bcc_maps_make(int maps[BCC_MAP_COUNT], const struct options *options)
{
	for (int i = 0; i < BCC_MAP_COUNT; i++) {
		maps[i] = bpf_map_create(MAPS[i].type, MAPS[i].name, MAPS[i].key_bytes, MAPS[i].value_bytes,
					 is_used(i, options) ? MAPS[i].entries : 1, NULL);
		if (maps[i] < 0)
			return false;
	}
	return true;
}

static bool add_devices(const int maps[BCC_MAP_COUNT], const struct devices *devices,
			const struct driver_support *support, int cpus)
{
	struct iotrace_counters *nothing = calloc(cpus, sizeof(*nothing));
	__u32 *device_of_irq = calloc(IOTRACE_IRQS, sizeof(*device_of_irq));
	bool ok = nothing && device_of_irq;

	for (size_t i = 0; ok && i < devices->count; i++) {
		const struct device *device = &devices->list[i];

		ok = bpf_map_update_elem(maps[MAP_counters], &device->id, nothing, BPF_ANY) == 0;
		if (support->irq && device->tracing == IOTRACE_IRQ)
			driver_irqs(device->name, device->id, device_of_irq);
	}
	for (size_t i = 0; ok && i < devices->head_count; i++)
		ok = bpf_map_update_elem(maps[MAP_counters], &devices->heads[i], nothing, BPF_ANY) == 0;
	for (__u32 irq = 0; ok && irq < IOTRACE_IRQS; irq++)
		ok = !device_of_irq[irq] ||
		     bpf_map_update_elem(maps[MAP_irqs], &irq, &device_of_irq[irq], BPF_ANY) == 0;
	free(nothing);
	free(device_of_irq);
	return ok;
}

static bool add_calls(int map, void (*fill)(__u8 *table))
{
	__u8 table[IOTRACE_SYSCALLS] = {0};

	fill(table);
	for (__u32 number = 0; number < IOTRACE_SYSCALLS; number++) {
		__u32 kind = table[number];

		if (kind && bpf_map_update_elem(map, &number, &kind, BPF_ANY))
			return false;
	}
	return true;
}

bool bcc_maps_fill(const int maps[BCC_MAP_COUNT], const struct options *options, const struct devices *devices,
		   const struct driver_support *support, int cpus)
{
	return add_calls(maps[MAP_call_kinds], calls_of_io) && add_calls(maps[MAP_span_calls], calls_of_spans) &&
	       targets_add(maps[MAP_pids], maps[MAP_cgroups], options) && add_devices(maps, devices, support, cpus);
}

void bcc_maps_close(int maps[BCC_MAP_COUNT])
{
	for (int i = 0; i < BCC_MAP_COUNT; i++)
		if (maps[i] >= 0)
			close(maps[i]);
}
