/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who dirtied the pages of a file, with CO-RE. */
#ifndef DIRTIER_BPF_H
#define DIRTIER_BPF_H

#include "file.bpf.h"
#include "filter.bpf.h"
#include "flight.bpf.h"

struct dirtied {
	__u64 inode;
	__u32 filesystem;
	__u32 generation;
};

/* The last task that made a page of the file dirty. A stale or torn entry is recognised, never believed. */
struct dirtier {
	struct dirtied file;
	__u32 version; /* odd while it is written */
	__u32 selected;
	struct iotrace_task task;
};

#define DIRTIER_BITS 14

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << DIRTIER_BITS);
	__type(key, __u32);
	__type(value, struct dirtier);
} dirtiers SEC(".maps");

static __always_inline struct dirtied dirtied_of(struct inode *inode)
{
	return (struct dirtied){PEEK(inode, inode, i_ino), PEEK(super_block, PEEK(inode, inode, i_sb), s_dev),
				PEEK(inode, inode, i_generation)};
}

static __always_inline struct dirtier *dirtier_slot(const struct dirtied *file)
{
	__u32 index = mix(file->inode, file->filesystem) & ((1 << DIRTIER_BITS) - 1);

	return bpf_map_lookup_elem(&dirtiers, &index);
}

static __always_inline bool dirtier_is_of(const struct dirtier *dirtier, const struct dirtied *file)
{
	return dirtier->file.inode == file->inode && dirtier->file.generation == file->generation &&
	       dirtier->file.filesystem == file->filesystem;
}

/* The name, too: a task may have become another program since. */
static __always_inline bool is_still(const struct iotrace_task *task, struct task_struct *current)
{
	const __u64 *name = (const __u64 *)task->comm, *name_now = (const __u64 *)current->comm;

	return task->tid == (__u32)current->pid && name[0] == name_now[0] && name[1] == name_now[1];
}

static __always_inline void dirtier_note(struct inode *inode, struct task_struct *current)
{
	struct dirtied file = dirtied_of(inode);
	struct dirtier *dirtier = dirtier_slot(&file);
	__u32 version;

	if (!dirtier || (is_still(&dirtier->task, current) && dirtier_is_of(dirtier, &file)))
		return;
	version = dirtier->version;
	if (version & 1 || __sync_val_compare_and_swap(&dirtier->version, version, version + 1) != version)
		return; /* another CPU writes it at this instant: as good as ours */
	dirtier->file = file;
	task_fill(&dirtier->task, current);
	dirtier->selected = task_selected(&dirtier->task);
	__sync_fetch_and_add(&dirtier->version, 1);
}

/* A kernel thread writes pages back: the flight is of the task that dirtied them, when that is known. */
static __always_inline void flight_blame(struct iotrace_flight *flight, struct inode *inode)
{
	struct dirtied file = dirtied_of(inode);
	struct dirtier *dirtier = dirtier_slot(&file);
	struct iotrace_task writer = flight->event.task;
	__u32 version, selected;

	if (!dirtier)
		return;
	version = __sync_fetch_and_add(&dirtier->version, 0);
	if (version & 1 || !dirtier_is_of(dirtier, &file))
		return;
	flight->event.task = dirtier->task;
	selected = dirtier->selected;
	if (__sync_fetch_and_add(&dirtier->version, 0) != version) {
		flight->event.task = writer;
		return;
	}
	flight->event.flags |= IOTRACE_DIRTIER;
	flight->event.flags &= ~FLIGHT_SELECTED;
	if (selected)
		flight->event.flags |= FLIGHT_SELECTED;
}

#endif
