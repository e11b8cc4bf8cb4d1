/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which file an I/O belongs to. Its names are fetched once, when it is first seen under them. */
#ifndef FILE_BPF_H
#define FILE_BPF_H

#include "device.bpf.h"
#include "peek.bpf.h"

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

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct {
		struct iotrace_name name;
		char behind[256]; /* the last name may begin in the last byte of `names` */
	});
} name_buffer SEC(".maps");

struct identity {
	__u64 inode;
	__u64 name; /* the kernel's hash of parent directory and name: changes when the file is renamed */
	__u32 generation;
	__u32 filesystem;
};

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline __u64 identity_hash(const struct identity *id)
{
	__u64 hash = mix(id->inode, id->name);

	return mix(mix(hash, (__u64)id->generation << 32 | id->filesystem), 1);
}

/* The latest name of the file that is still in memory; NULL when there is none. */
static __always_inline struct dentry *dentry_of(struct inode *inode)
{
	struct hlist_node *alias = PEEK(inode, inode, i_dentry.first);

	if (!alias)
		return NULL;
	return (struct dentry *)((void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias));
}

static __always_inline void tell_name(const struct identity *id, struct dentry *dentry, __u32 file)
{
	struct iotrace_name *name;
	__u32 zero = 0, used = 0;

	name = bpf_map_lookup_elem(&name_buffer, &zero);
	if (!name)
		return;
	name->inode = id->inode;
	name->generation = id->generation;
	name->filesystem = id->filesystem;
	name->file = file;
	name->whole = 0;
	name->padding = 0;
	for (int depth = 0; dentry && depth < IOTRACE_NAME_DEPTH; depth++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		long length;

		if (parent == dentry) {
			name->whole = 1;
			break;
		}
		if (used >= IOTRACE_NAME_BYTES)
			break;
		length = bpf_probe_read_kernel_str(&name->names[used], 256, BPF_CORE_READ(dentry, d_name.name));
		if (length <= 0)
			break;
		used += (__u32)length & 511;
		dentry = parent;
	}
	if (used > IOTRACE_NAME_BYTES) {
		name->whole = 0;
		used = IOTRACE_NAME_BYTES;
	}
	name->bytes = used;
	if (bpf_ringbuf_output(&names, name, __builtin_offsetof(struct iotrace_name, names) + (used & 2047),
			       BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&names_dropped, 1);
}

static __noinline __u32 new_file(struct identity *id, struct dentry *dentry)
{
	__u64 before = names_dropped;
	__u32 file = (__sync_fetch_and_add(&last_file, 1) + 1) & (FILE_NUMBERS - 1);

	if (!id)
		return 0;
	tell_name(id, dentry, file);
	return before == names_dropped ? file : 0;
}

/* The file's number; 0 for no file, block devices, and files that could not be told to user space. */
static __always_inline __u32 file_of(struct inode *inode)
{
	struct identity id = {};
	struct file_bucket *bucket;
	struct dentry *dentry;
	__u32 index, file, victim;
	__u64 hash;

	if (!inode || (PEEK(inode, inode, i_mode) & S_IFMT) == S_IFBLK)
		return 0; /* metadata reads and writes go through the device's own inode */
	dentry = dentry_of(inode);
	id.inode = PEEK(inode, inode, i_ino);
	id.generation = PEEK(inode, inode, i_generation);
	id.filesystem = PEEK(super_block, PEEK(inode, inode, i_sb), s_dev);
	id.name = dentry ? PEEK(dentry, dentry, d_name.hash_len) : 0;
	hash = identity_hash(&id);
	index = hash & ((1 << FILE_BUCKET_BITS) - 1);
	bucket = bpf_map_lookup_elem(&files, &index);
	if (!bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < FILE_WAYS; i++)
		if (!((bucket->way[i] ^ hash) >> FILE_NUMBER_BITS))
			return bucket->way[i] & (FILE_NUMBERS - 1);
	file = new_file(&id, dentry);
	victim = file & (FILE_WAYS - 1);
#pragma unroll
	for (int i = FILE_WAYS - 1; i >= 0; i--)
		if (!bucket->way[i])
			victim = i;
	if (file)
		bucket->way[victim & (FILE_WAYS - 1)] = hash >> FILE_NUMBER_BITS << FILE_NUMBER_BITS | file;
	return file;
}

#endif
