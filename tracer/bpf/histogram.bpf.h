/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef HISTOGRAM_BPF_H
#define HISTOGRAM_BPF_H

#include "iotrace.h"
#include "peek.bpf.h"

static __always_inline __u32 log2_of(__u64 value)
{
	__u32 result = 0;

#pragma unroll
	for (int shift = 32; shift; shift >>= 1)
		if (value >> shift) {
			value >>= shift;
			result += shift;
		}
	return forget(result);
}

static __always_inline __u32 fine_bucket(__u64 value)
{
	__u32 power = log2_of(value), index;

	/* The two bits behind the first one. */
	index = power >= 2 ? power * 4 + ((value >> (power - 2)) & 3) : (__u32)value;
	return index < IOTRACE_FINE_BUCKETS ? index : IOTRACE_FINE_BUCKETS - 1;
}

/*
 * The histogram is per CPU, and not locked. Where tcp_probe takes what has waited for a socket that was in use softirqs
 * are on, and another segment's may come in between: by reading, its value may then be lost, no more. Locked
 * instructions would cost each value more than that is worth.
 */
static __always_inline void fine_add(struct iotrace_fine *fine, __u64 value)
{
	__u32 index = fine_bucket(value);

	fine->count++;
	fine->sum += value;
	if (index < IOTRACE_FINE_BUCKETS)
		fine->buckets[index]++;
}

/* The histogram is of all CPUs. */
static __always_inline void fine_add_shared(struct iotrace_fine *fine, __u64 value)
{
	__u32 index = fine_bucket(value);

	__sync_fetch_and_add(&fine->count, 1);
	__sync_fetch_and_add(&fine->sum, value);
	if (index < IOTRACE_FINE_BUCKETS)
		__sync_fetch_and_add(&fine->buckets[index], 1);
}

#endif
