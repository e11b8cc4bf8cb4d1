/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which file an I/O belongs to, with CO-RE. Its names are fetched once, when it is first seen under them. */
#ifndef FILE_BPF_H
#define FILE_BPF_H

#include "device.bpf.h"
#include "name.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} names SEC(".maps");

volatile __u32 last_file = 0;
volatile __u64 names_dropped = 0; /* files that could not be told to user space; tried again at the next I/O */

/*
 * Known files, by a hash over what tells one from another. In each way stand the upper 40 bits of the
 * hash and the file's number, in one word so that no reader sees half of it.
 */
#define FILE_BUCKET_BITS 12
#define FILE_WAYS 4
#define FILE_NUMBER_BITS 24
#define FILE_NUMBERS (1U << FILE_NUMBER_BITS)

struct file_bucket {
	__u64 way[FILE_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << FILE_BUCKET_BITS);
	__type(key, __u32);
	__type(value, struct file_bucket);
} files SEC(".maps");

/* One is taken by a program that was preempted while it wrote there (again.bpf.h); it is free again when that goes on. */
struct naming {
	struct iotrace_name_buffer buffer;
	__u64 taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct naming);
} namings SEC(".maps");

static __always_inline bool naming_takes(__u32 index)
{
	struct naming *naming = bpf_map_lookup_elem(&namings, &index);

	return naming && !__sync_val_compare_and_swap(&naming->taken, 0, 1);
}

/* NULL: both are taken. */
static __always_inline struct naming *naming_begin(void)
{
	__u32 index = naming_takes(0) ? 0 : naming_takes(1) ? 1 : 2;

	index = forget(index);
	return bpf_map_lookup_elem(&namings, &index);
}

static __always_inline void tell_name(const struct identity *id, __u32 file)
{
	struct naming *naming = naming_begin();
	__u32 bytes;

	if (!naming) {
		__sync_fetch_and_add(&names_dropped, 1);
		return;
	}
	bytes = name_fill(&naming->buffer.name, id, file);
	if (bpf_ringbuf_output(&names, &naming->buffer.name, __builtin_offsetof(struct iotrace_name, names) + bytes,
			       BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&names_dropped, 1);
	*(volatile __u64 *)&naming->taken = 0;
}

/* 0: it could not be told. */
LOOKED_AT_ONCE __u32 new_file(struct identity *id)
{
	__u64 before = names_dropped;
	__u32 file = (__sync_fetch_and_add(&last_file, 1) + 1) & (FILE_NUMBERS - 1);

	if (!file) /* which stands for none */
		file = (__sync_fetch_and_add(&last_file, 1) + 1) & (FILE_NUMBERS - 1);
	if (!id)
		return 0;
	tell_name(id, file);
	return before == names_dropped ? file : 0;
}

/* Numbers are used again: what a number stood for long ago is another file by now. */
static __always_inline bool is_in_use(__u64 way)
{
	return ((last_file - (__u32)way) & (FILE_NUMBERS - 1)) < IOTRACE_FILES_USED;
}

/* The file's number; 0 for no file, block devices, and files that could not be told to user space. */
static __always_inline __u32 file_of(void *ctx, struct inode *inode)
{
	struct file_bucket *bucket;
	struct identity id;
	__u32 index, file, victim;
	__u64 hash;

	if (!identify(&id, inode))
		return 0;
	hash = identity_hash(&id);
	index = hash & ((1 << FILE_BUCKET_BITS) - 1);
	bucket = bpf_map_lookup_elem(&files, &index);
	if (!bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < FILE_WAYS; i++)
		if (!((bucket->way[i] ^ hash) >> FILE_NUMBER_BITS) && is_in_use(bucket->way[i]))
			return bucket->way[i] & (FILE_NUMBERS - 1);
	file = new_file(&id);
	victim = file & (FILE_WAYS - 1);
#pragma unroll
	for (int i = FILE_WAYS - 1; i >= 0; i--)
		if (!bucket->way[i] || !((bucket->way[i] ^ hash) >> FILE_NUMBER_BITS))
			victim = i;
	if (file)
		bucket->way[victim & (FILE_WAYS - 1)] = hash >> FILE_NUMBER_BITS << FILE_NUMBER_BITS | file;
	return file;
}

#endif
