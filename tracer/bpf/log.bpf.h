/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How records get to user space, with CO-RE. */
#ifndef LOG_BPF_H
#define LOG_BPF_H

#include "store.bpf.h"

/* Set before loading: events per CPU, a power of two. */
const volatile __u32 log_events = 4096;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: possible CPUs */
	__type(key, __u32);
	__type(value, struct iotrace_head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: possible CPUs x log_events */
	__type(key, __u32);
	__type(value, struct iotrace_event);
} events SEC(".maps");

/* False: the log of this CPU is full. */
static __always_inline bool log_append(void *ctx, const struct iotrace_event *event)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct iotrace_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct iotrace_event *slot;

	if (!head || head->reserved - head->consumed >= log_events - IOTRACE_NESTING)
		return false;
	index = __sync_fetch_and_add(&head->reserved, 1) & (log_events - 1);
	index += cpu * log_events;
	slot = bpf_map_lookup_elem(&events, &index);
	if (slot)
		*slot = *event;
	__sync_fetch_and_add(&head->committed, 1);
	return true;
}

#endif
