/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which tasks and requests are asked for, with CO-RE. */
#ifndef FILTER_BPF_H
#define FILTER_BPF_H

#include "device.bpf.h"

/* Set before loading. */
const volatile __u64 min_latency_ns;
const volatile __u32 modes_wanted = 0xf; /* a bit for each enum iotrace_mode */
const volatile __u32 sample_every = 1;
const volatile bool filter_pids;
const volatile __u32 cgroup_count;
const volatile __u32 comm_count;
const volatile char comms[IOTRACE_MAX_COMMS][IOTRACE_COMM_BYTES]; /* filled up with zeros */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, IOTRACE_MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

static __always_inline void task_fill(struct iotrace_task *task, struct task_struct *current)
{
	task->pid = current->tgid;
	task->tid = current->pid;
	task->cgroup_id = current->cgroups->dfl_cgrp->kn->id;
	__builtin_memcpy(task->comm, current->comm, sizeof(task->comm));
}

/* Threads of io_uring have names that nobody gave them: they go by that of their process's first one. */
static __always_inline bool comm_selected(struct task_struct *current)
{
	struct task_struct *named = current->flags & PF_IO_WORKER ? current->group_leader : current;

	if (!comm_count)
		return true;
	for (__u32 i = 0; i < IOTRACE_MAX_COMMS && i < comm_count; i++) {
		bool same = true;

		for (int c = 0; c < IOTRACE_COMM_BYTES && same; c++) {
			same = comms[i][c] == named->comm[c];
			if (!named->comm[c])
				break;
		}
		if (same)
			return true;
	}
	return false;
}

/* `task` is the current one. */
static __always_inline bool task_selected(const struct iotrace_task *task)
{
	__u32 pid = task->pid;

	if (filter_pids && !bpf_map_lookup_elem(&pids, &pid))
		return false;
	if (!comm_selected(bpf_get_current_task_btf()))
		return false;
	if (!cgroup_count)
		return true;
	for (__u32 i = 0; i < IOTRACE_MAX_CGROUPS && i < cgroup_count; i++)
		if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
			return true;
	return false;
}

static __always_inline bool filters_tasks(void)
{
	return filter_pids || cgroup_count || comm_count;
}

#endif
