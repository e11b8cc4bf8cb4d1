/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How records get to user space, with CO-RE. */
#ifndef LOG_BPF_H
#define LOG_BPF_H

#include "store.bpf.h"

/* Set before loading: the log of a CPU has 2^log_bits events. */
const volatile __u32 log_bits = 12;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: CPUs that are there */
	__type(key, __u32);
	__type(value, struct iotrace_head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: CPUs << log_bits */
	__type(key, __u32);
	__type(value, struct iotrace_event);
} events SEC(".maps");

/* A copy of the event in the log of this CPU, NULL when that is full. Of its last four bytes nothing is copied. */
static __always_inline struct iotrace_event *log_begin(const struct iotrace_event *event, __u16 *lap)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct iotrace_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct iotrace_event *slot;
	__u64 number;

	if (!head || head->reserved - head->consumed >= (1U << log_bits) - IOTRACE_NESTING)
		return NULL;
	number = add_one(&head->reserved, logs_alone);
	*lap = iotrace_lap(number, log_bits);
	index = (number & ((1U << log_bits) - 1)) + (cpu << log_bits);
	slot = bpf_map_lookup_elem(&events, &index);
	if (slot)
		__builtin_memcpy(slot, event, __builtin_offsetof(struct iotrace_event, mode));
	return slot;
}

/* It is whole: user space may have it. */
static __always_inline bool log_end(void *ctx, struct iotrace_event *slot, __u16 lap)
{
	order_writes(&slot->enter_ns);
	*(volatile __u16 *)&slot->wait = lap;
	return true;
}

#endif
