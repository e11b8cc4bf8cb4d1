/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reading fields through an address that the verifier knows nothing about. */
#ifndef PEEK_BPF_H
#define PEEK_BPF_H

#include "kernel.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Since 6.2: the read is then one instruction instead of a call. Set before loading. */
const volatile bool can_cast;

extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

/* ((struct type *)address)->field; 0 when it cannot be read. */
#define PEEK(type, address, field)                                                                                    \
	({                                                                                                            \
		typeof(((struct type *)0)->field) value_ = 0;                                                         \
		const void *from_ = (const void *)(address);                                                          \
		if (can_cast)                                                                                         \
			value_ = ((struct type *)bpf_rdonly_cast(from_, bpf_core_type_id_kernel(struct type)))        \
					 ->field;                                                                     \
		else                                                                                                  \
			bpf_core_read(&value_, sizeof(value_), &((struct type *)from_)->field);                       \
		value_;                                                                                               \
	})

/* A pointer that the verifier knows as a plain number: it allows no arithmetic on others. `cell` is in a map. */
static __always_inline __u64 as_number(__u64 *cell, const void *pointer)
{
	*(volatile __u64 *)cell = (__u64)pointer;
	return *(volatile __u64 *)cell;
}

#endif
