/* SPDX-License-Identifier: Apache-2.0 */
/* What the system calls of this machine mean to the BPF programs: tables by number, IOTRACE_SYSCALLS long. */
#ifndef CALLS_H
#define CALLS_H

#include <linux/types.h>

/* Values of enum iotrace_call. */
void calls_of_io(__u8 *table);

/* Values of enum iotrace_span_call. */
void calls_of_spans(__u8 *table);

#endif
