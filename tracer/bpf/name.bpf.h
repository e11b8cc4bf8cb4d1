/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What tells a file from another, and its names. Of both backends. */
#ifndef NAME_BPF_H
#define NAME_BPF_H

#include "iotrace.h"
#include "peek.bpf.h"

struct identity {
	__u64 inode;
	__u64 name; /* the kernel's hash of parent directory and name: changes when the file is renamed */
	struct dentry *dentry; /* where the names are found, no part of what tells it from others; NULL = none in memory */
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
	return (struct dentry *)((void *)alias - ALIAS_OFFSET);
}

/* Through it go metadata of the file system there, and what programs do with the disk itself. */
static __always_inline bool is_of_disk(const struct inode *inode)
{
	return (PEEK(inode, inode, i_mode) & S_IFMT) == S_IFBLK;
}

/* False: no file, or a block device. */
static __always_inline bool identify(struct identity *id, struct inode *inode)
{
	if (!inode || is_of_disk(inode))
		return false;
	id->dentry = dentry_of(inode);
	id->inode = PEEK(inode, inode, i_ino);
	id->generation = PEEK(inode, inode, i_generation);
	id->filesystem = PEEK(super_block, PEEK(inode, inode, i_sb), s_dev);
	id->name = id->dentry ? PEEK(dentry, id->dentry, d_name.hash_len) : 0;
	return true;
}

/* The names so far, from the file up. */
struct climb {
	struct dentry *dentry;
	__u32 used;
};

/* The next one; true when there are no more. */
static __always_inline bool name_next(struct iotrace_name *name, struct climb *climb)
{
	struct dentry *dentry = climb->dentry, *parent;
	__u32 at = climb->used;
	long length;

	if (!dentry || at >= IOTRACE_NAME_BYTES)
		return true;
	parent = READ(dentry, d_parent);
	if (parent == dentry) {
		name->whole = 1;
		return true;
	}
	barrier_var(at); /* else the compiler loses what the verifier must see */
	length = READ_STRING(&name->names[at & (IOTRACE_NAME_BYTES - 1)], 256, READ(dentry, d_name.name));
	if (length <= 0)
		return true;
	climb->used += (__u32)length & 511;
	climb->dentry = parent;
	return false;
}

/* Returns how many bytes the names have, less than IOTRACE_NAME_BYTES. */
static __always_inline __u32 name_fill(struct iotrace_name *name, const struct identity *id, __u32 file)
{
	struct climb climb = {.dentry = id->dentry};

	name->inode = id->inode;
	name->generation = id->generation;
	name->filesystem = id->filesystem;
	name->file = file;
	name->whole = 0;
	name->padding = 0;
	UNTIL_OR_32_TIMES(name_next(name, &climb));
	if (climb.used >= IOTRACE_NAME_BYTES) {
		name->whole = 0;
		climb.used = IOTRACE_NAME_BYTES - 1;
	}
	name->bytes = climb.used;
	barrier_var(climb.used);
	return climb.used & (IOTRACE_NAME_BYTES - 1);
}

#endif
