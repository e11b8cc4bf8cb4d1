/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who issues a bio: the task, its system call, the file; and whether the filters want it. */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "flight.bpf.h"

/* Set before loading. */
const volatile bool filter_pids;
const volatile __u32 cgroup_count;

extern const void iomap_dio_bio_end_io __ksym __weak;

struct call {
	__u64 enter_ns;
	__u32 kind; /* enum iotrace_call */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

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

static __always_inline bool task_selected(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (filter_pids && !bpf_map_lookup_elem(&pids, &pid))
		return false;
	if (!cgroup_count)
		return true;
	for (__u32 i = 0; i < IOTRACE_MAX_CGROUPS && i < cgroup_count; i++)
		if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
			return true;
	return false;
}

/* The file's inode when the page belongs to a page cache; NULL for anonymous memory. */
static __always_inline struct inode *inode_of_page(struct bio *bio)
{
	struct page *page = BPF_CORE_READ(bio, bi_io_vec, bv_page);
	unsigned long head = BPF_CORE_READ(page, compound_head);
	unsigned long mapping;

	if (head & 1)
		page = (struct page *)(head - 1);
	mapping = (unsigned long)BPF_CORE_READ(page, mapping);
	if (!mapping || mapping & PAGE_MAPPING_FLAGS)
		return NULL;
	return BPF_CORE_READ((struct address_space *)mapping, host);
}

static __always_inline __u64 number_of(struct inode *inode)
{
	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return 0; /* metadata reads and writes go through the device's own inode */
	return BPF_CORE_READ(inode, i_ino);
}

static __always_inline bool is_direct(struct bio *bio)
{
	return &iomap_dio_bio_end_io && BPF_CORE_READ(bio, bi_end_io) == &iomap_dio_bio_end_io;
}

static __always_inline bool is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

static __always_inline __u8 origin_of(struct iotrace_flight *flight, struct call *call, bool page_cache_write)
{
	unsigned int task_flags = bpf_get_current_task_btf()->flags;

	if (task_flags & PF_IO_WORKER)
		return IOTRACE_IO_URING;
	if (task_flags & PF_KTHREAD) {
		if (is_journal_thread(flight->comm))
			return IOTRACE_JOURNAL;
		return page_cache_write ? IOTRACE_WRITEBACK : IOTRACE_OTHER;
	}
	if (!call || call->kind == IOTRACE_CALL_NONE)
		return IOTRACE_OTHER;
	return call->kind == IOTRACE_CALL_IO_URING ? IOTRACE_IO_URING : IOTRACE_SYSCALL;
}

static __always_inline void flight_own(struct iotrace_flight *flight, struct bio *bio)
{
	struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
	__u32 opf = BPF_CORE_READ(bio, bi_opf);
	__u32 op = opf & OP_MASK;
	struct inode *inode = NULL;
	bool buffered = false;

	bpf_get_current_comm(flight->comm, sizeof(flight->comm));
	flight->pid_tgid = bpf_get_current_pid_tgid();
	flight->cgroup_id = bpf_get_current_cgroup_id();
	if (is_direct(bio)) {
		struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);

		inode = BPF_CORE_READ(dio, iocb, ki_filp, f_inode);
	} else if (op < OP_FLUSH && BPF_CORE_READ(bio, bi_iter.bi_size)) {
		inode = inode_of_page(bio);
		buffered = inode;
	}
	flight->inode = number_of(inode);
	flight->origin = origin_of(flight, call, buffered && op != OP_READ);
	if (call && call->kind == IOTRACE_CALL_TIMED)
		flight->enter_ns = call->enter_ns;
	if (task_selected())
		flight->flags |= FLIGHT_SELECTED;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH))
		flight->flags |= FLIGHT_PREFLUSH;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA))
		flight->flags |= FLIGHT_FUA;
}

#endif
