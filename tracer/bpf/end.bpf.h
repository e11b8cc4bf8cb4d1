/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a bio ends, through the clones and parts that the device mapper, md and btrfs make. Of both backends. */
#ifndef END_BPF_H
#define END_BPF_H

#include "peek.bpf.h"

/* What the function that is called when a bio is done tells of it. */
enum end_kind {
	END_PLAIN,
	END_DIRECT,	/* direct I/O of a file, of iomap */
	END_DIRECT_OLD, /* the same, of fs/direct-io.c */
	END_DISK,	/* direct I/O on the disk itself */
	END_DISK_ASYNC,
	END_DISK_SIMPLE,
	END_LOG,	 /* XFS writes its log */
	END_BLOCK,	 /* of the page cache, by itself; what ends there tells more */
	END_BLOCK_READ, /* since 7.3 or earlier the bio tells at once */
	END_BLOCK_WRITTEN,
	END_SWAP,
	/* Another bio, or what lies around this one, tells more. */
	END_SIMPLE,
	END_WAITED,
	END_BTRFS,
	END_BTRFS_COPY,
	END_DM,
	END_CRYPT,
	END_MD,
	END_MD_OLD,
	END_RAID1,
	END_RAID10,
	END_RAID5,
	END_PART,
};

/* Numbers: each way to a pointer would be followed to the end of the program. */
struct end {
	__u64 private;
	__u64 pages;	/* the first bio_vec; dm-crypt writes pages of its own */
	__u64 original; /* the bio that this one stands for; 0 = itself */
	__u64 file;	/* inode that the file system noted with it; 0 = none */
	__u64 kind;	/* enum end_kind */
};

static __always_inline bool is_direct_on_disk(__u64 kind)
{
	return kind >= END_DISK && kind <= END_DISK_SIMPLE;
}

#if SEES_AROUND_BIOS
static __always_inline __u64 kind_elsewhere(__u64 end)
{
	/* So direct reads of one bio may end (since 7.3; a disk's since 6.12 at the latest), and flushes. */
	if (bpf_core_type_exists(struct iomap_dio_simple) && ENDS_IN(end, iomap_dio_simple_end_io))
		return END_SIMPLE;
	if (bpf_core_type_exists(struct iomap_dio_simple) && ENDS_IN(end, bio_wait_end_io))
		return END_WAITED;
	if (ENDS_IN(end, bh_end_read))
		return END_BLOCK_READ;
	if (ENDS_IN(end, bh_end_write))
		return END_BLOCK_WRITTEN;
	if (ENDS_IN(end, btrfs_simple_end_io) || ENDS_IN(end, btrfs_orig_write_end_io) ||
	    ENDS_IN(end, btrfs_raid56_end_io))
		return END_BTRFS;
	if (ENDS_IN(end, btrfs_clone_write_end_io))
		return END_BTRFS_COPY;
	if (ENDS_IN(end, clone_endio))
		return END_DM;
	if (ENDS_IN(end, crypt_endio))
		return END_CRYPT;
	if (ENDS_IN(end, md_end_clone_io))
		return END_MD;
	if (ENDS_IN(end, md_end_io_acct))
		return END_MD_OLD;
	if (ENDS_IN(end, raid1_end_read_request) || ENDS_IN(end, raid1_end_write_request))
		return END_RAID1;
	if (ENDS_IN(end, raid10_end_read_request) || ENDS_IN(end, raid10_end_write_request))
		return END_RAID10;
	if (ENDS_IN(end, raid5_align_endio))
		return END_RAID5;
	return ENDS_IN(end, bio_chain_endio) ? END_PART : END_PLAIN;
}
#else
#define kind_elsewhere(end) END_PLAIN
#endif

static __always_inline __u64 kind_by_function(__u64 end)
{
	if (ENDS_IN(end, iomap_dio_bio_end_io))
		return END_DIRECT;
	if (ends_in_dio(end))
		return END_DIRECT_OLD;
	if (ENDS_IN(end, blkdev_bio_end_io))
		return END_DISK;
	if (ENDS_IN(end, blkdev_bio_end_io_async))
		return END_DISK_ASYNC;
	if (ENDS_IN(end, blkdev_bio_end_io_simple))
		return END_DISK_SIMPLE;
	if (ENDS_IN(end, xlog_bio_end_io))
		return END_LOG;
	if (ENDS_IN(end, end_swap_bio_read) || ENDS_IN(end, swap_bio_read_end_io) || ENDS_IN(end, end_swap_bio_write))
		return END_SWAP;
	if (ENDS_IN(end, end_bio_bh_io_sync))
		return END_BLOCK;
	return kind_elsewhere(end);
}

#if SEES_AROUND_BIOS
/*
 * Functions that were told apart, each with its kind instead of its first byte, which all of the kernel share: no bio's end
 * need be compared with every one of them.
 */
#define KINDS_KNOWN_BITS 8
__u64 kinds_known[1 << KINDS_KNOWN_BITS] = {};

static __always_inline __u32 place_of_kind(__u64 end)
{
	return (__u32)end * 0x9e3779b1U >> (32 - KINDS_KNOWN_BITS);
}

LOOKED_AT_ONCE __u64 kind_noted(__u64 end)
{
	__u64 kind = kind_by_function(end);

	kinds_known[place_of_kind(end)] = end << 8 | kind;
	return kind;
}

static __always_inline __u64 kind_of(__u64 end)
{
	__u64 known = kinds_known[place_of_kind(end)];

	return known >> 8 == end << 8 >> 8 ? known & 0xff : kind_noted(end);
}

/* The device mapper and md hand on clones of bios, and md parts of them. 0: it is nobody's clone. */
static __always_inline __u64 original_of(__u64 bio, const struct end *end)
{
	if (end->kind == END_DM && bpf_core_type_exists(struct dm_target_io))
		return original_of_dm(bio);
	if (end->kind == END_CRYPT && bpf_core_type_exists(struct dm_crypt_io))
		return number_at(end->private + OFFSET_OF(struct dm_crypt_io, base_bio));
	if (end->kind == END_MD && bpf_core_type_exists(struct md_io_clone))
		return original_of_md(bio);
	if (end->kind == END_MD_OLD && bpf_core_type_exists(struct md_io_acct))
		return number_at(end->private + OFFSET_OF(struct md_io_acct, orig_bio));
	if (end->kind == END_RAID1 && bpf_core_type_exists(struct r1bio))
		return number_at(end->private + OFFSET_OF(struct r1bio, master_bio));
	if (end->kind == END_RAID10 && bpf_core_type_exists(struct r10bio))
		return number_at(end->private + OFFSET_OF(struct r10bio, master_bio));
	if (end->kind == END_RAID5)
		return original_of_raid5(end->private);
	return end->kind == END_PART ? end->private : 0;
}

/*
 * btrfs ends its bios itself. It notes with them the file, which the pages do not tell of what is compressed, and, unless
 * it has split the bio, whose end comes then. All copies but the last are clones of that one.
 */
static __always_inline void look_into_btrfs(struct end *end, __u64 bio)
{
	__u64 at, file;

	if (!bpf_core_field_exists(struct btrfs_bio, inode))
		return;
	if (end->kind == END_BTRFS_COPY)
		bio = number_at(number_at(end->private + OFFSET_OF(struct btrfs_io_stripe, bioc)) +
				OFFSET_OF(struct btrfs_io_context, orig_bio));
	at = bio - OFFSET_OF(struct btrfs_bio, bio);
	file = number_at(at + OFFSET_OF(struct btrfs_bio, inode));
	end->file = file ? file + OFFSET_OF(struct btrfs_inode, vfs_inode) : 0;
	if (!ENDS_IN(number_at(at + OFFSET_OF(struct btrfs_bio, end_io)), btrfs_dio_end_io))
		return;
	end->kind = END_DIRECT;
	end->private = number_at(at + OFFSET_OF(struct btrfs_bio, private));
}

/*
 * A direct read of one bio: what iomap knows of it lies around the bio, whose end tells nothing when the reader waits for
 * it. Of all bios that somebody waits for only this one's pages are pinned and it does not lie on a stack.
 */
static __always_inline void look_into_simple(struct end *end, __u64 bio)
{
	if (!bpf_core_type_exists(struct iomap_dio_simple) ||
	    (end->kind == END_WAITED && !(are_pinned(bio) && PEEK(bio, bio, bi_pool))))
		return;
	end->kind = END_DIRECT;
	end->private = bio - OFFSET_OF(struct iomap_dio_simple, bio) + OFFSET_OF(struct iomap_dio_simple, iocb) -
		       OFFSET_OF(struct iomap_dio, iocb);
}

#define MAX_CLONES 8 /* one of another: an encrypted volume on a volume on a mirror is five */

/* The kernel wants such a function to return something. */
LOOKED_AT_ONCE bool look_elsewhere(struct end *end, __u64 bio)
{
	__u64 original;

	if (!end)
		return false;
	for (__u64 i = 0; i < MAX_CLONES; i++) { /* 64 bits: see UNTIL */
		original = original_of(bio, end);
		if (!original)
			break;
		/* A part's pages are its own; what it is chained to may have none yet (XFS on 6.1 writes back so). */
		if (end->kind != END_PART)
			end->pages = number_at(original + OFFSET_OF(struct bio, bi_io_vec));
		end->private = number_at(original + OFFSET_OF(struct bio, bi_private));
		end->kind = kind_by_function(number_at(original + OFFSET_OF(struct bio, bi_end_io)));
		end->original = bio = original;
	}
	if (end->kind == END_SIMPLE || end->kind == END_WAITED)
		look_into_simple(end, bio);
	else if (end->kind == END_BTRFS || end->kind == END_BTRFS_COPY)
		look_into_btrfs(end, bio);
	return true;
}
#else
#define kind_of kind_by_function
#define look_elsewhere(end, bio) ((void)0)
#endif

static __always_inline struct end end_of(struct bio *bio, __u64 *cell)
{
	struct end end = {
		.private = (__u64)FIELD(bio, bi_private),
		.pages = as_number(cell, FIELD(bio, bi_io_vec)),
		.kind = kind_of(as_number(cell, FIELD(bio, bi_end_io))),
	};

	if (end.kind > END_SWAP)
		look_elsewhere(&end, as_number(cell, bio));
	return end;
}

#endif
