/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the running kernel: its BTF, its tracepoints and its symbols. */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

/* In the kernel itself or in one of these modules (NULL ends the list, and may stand for it). */
bool kernel_has_tracepoint(const char *name, const char *const *modules);
/* How many it has, in the kernel itself; -1: there is no such tracepoint. */
int kernel_tracepoint_arguments(const char *name);
/* Counted from 0. `type_name`: as declared, `int` or a typedef. */
bool kernel_tracepoint_takes(const char *name, int argument, const char *type_name);
bool kernel_has_member(const char *structure, const char *member);
bool kernel_has_function(const char *name, const char *const *modules);

/* 0: there is no such function. */
__u32 kernel_function_id(const char *name);

/* The value of an enumerator of any type, or `otherwise`. */
__u32 kernel_enumerator(const char *name, __u32 otherwise);

/*
 * It has BTF, and the newest field that the programs cannot do without: since 5.15, or where a distributor has added it.
 * On a plain 5.15 all that is older suffices.
 */
bool kernel_suits_core(void);

/*
 * A task can be taken from its CPU within a program at a tracepoint, and until it goes on the program is left out there: on
 * 7.2, where srcu_fast guards tracepoints, not on 6.18. Of those between it is taken for granted from 7.0 on.
 */
bool kernel_preempts_programs(void);

/* Also where there is no BTF: tries it, which needs the right to. */
bool kernel_has_raw_tracepoint(const char *name);

/* Sets those of the functions that there are and whose address is shown. */
void kernel_addresses(const char *const *names, __u64 *addresses, size_t count);

/* Functions that are told apart by their address can be found. */
bool kernel_shows_addresses(void);

/* Gives the memory back that the questions have taken. */
void kernel_forget(void);

#endif
