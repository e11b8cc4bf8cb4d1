/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a bio ends, through the clones and parts that the device mapper, md and btrfs make. Of both backends. */
#ifndef END_BPF_H
#define END_BPF_H

#include "peek.bpf.h"

/* What is called when the bio is done tells what it is for. */
struct end {
	__u64 function;
	void *private;
	struct bio_vec *pages; /* dm-crypt writes pages of its own */
	__u64 original;	       /* the bio that this one stands for; 0 = itself */
	struct inode *file;    /* that the file system noted with it; NULL = none */
};

#if SEES_AROUND_BIOS
/* The bio of btrfs that ends so: itself, or the one that all copies but the last are clones of. 0: it is none of its. */
static __always_inline __u64 bio_of_btrfs(__u64 bio, __u64 end, __u64 private)
{
	if (ENDS_IN(end, btrfs_clone_write_end_io))
		return number_at(number_at(private + OFFSET_OF(struct btrfs_io_stripe, bioc)) +
				 OFFSET_OF(struct btrfs_io_context, orig_bio));
	return ENDS_IN(end, btrfs_simple_end_io) || ENDS_IN(end, btrfs_orig_write_end_io) ||
			       ENDS_IN(end, btrfs_raid56_end_io) ?
		       bio :
		       0;
}

/*
 * btrfs ends its bios itself. It notes with them the file, which the pages do not tell of what is compressed, and, unless
 * it has split the bio, whose end comes then.
 */
static __always_inline void look_into_btrfs(struct end *end, __u64 bio)
{
	__u64 at, file;

	if (!bpf_core_field_exists(struct btrfs_bio, inode))
		return;
	bio = bio_of_btrfs(bio, end->function, (__u64)end->private);
	if (!bio)
		return;
	at = bio - OFFSET_OF(struct btrfs_bio, bio);
	file = number_at(at + OFFSET_OF(struct btrfs_bio, inode));
	end->file = file ? (struct inode *)(file + OFFSET_OF(struct btrfs_inode, vfs_inode)) : NULL;
	if (!ENDS_IN(number_at(at + OFFSET_OF(struct btrfs_bio, end_io)), btrfs_dio_end_io))
		return;
	end->function = (__u64)&iomap_dio_bio_end_io;
	end->private = (void *)number_at(at + OFFSET_OF(struct btrfs_bio, private));
}

/*
 * A direct read of one bio: what iomap knows of it lies around the bio, whose end tells nothing when the reader waits for
 * it. Of all bios that somebody waits for only this one's pages are pinned and it does not lie on a stack.
 */
static __always_inline void look_into_simple(struct end *end, __u64 bio)
{
	if (!bpf_core_type_exists(struct iomap_dio_simple) ||
	    (ENDS_IN(end->function, bio_wait_end_io) && !(are_pinned(bio) && PEEK(bio, bio, bi_pool))))
		return;
	end->function = (__u64)&iomap_dio_bio_end_io;
	end->private = (void *)(bio - OFFSET_OF(struct iomap_dio_simple, bio) +
				OFFSET_OF(struct iomap_dio_simple, iocb) - OFFSET_OF(struct iomap_dio, iocb));
}
#endif

#define MAX_CLONES 8 /* one of another: an encrypted volume on a volume on a mirror is five */

static __always_inline struct end end_of(struct bio *bio, __u64 *cell)
{
	struct end end = {(__u64)FIELD(bio, bi_end_io), FIELD(bio, bi_private), FIELD(bio, bi_io_vec), 0, NULL};
	__u64 original = original_of(cell, bio, end.function, (__u64)end.private);

#pragma clang loop unroll(disable)
	for (__u64 i = 0; i < MAX_CLONES && original; i++) { /* 64 bits: see UNTIL */
		/* A part's pages are its own; what it is chained to may have none yet (XFS on 6.1 writes back so). */
		if (!IS_PART(end.function))
			end.pages = (void *)as_number(cell, PEEK(bio, original, bi_io_vec));
		end.function = (__u64)PEEK(bio, original, bi_end_io);
		end.private = (void *)as_number(cell, PEEK(bio, original, bi_private));
		end.original = original;
		original = original_of(cell, (void *)original, end.function, (__u64)end.private);
	}
#if SEES_AROUND_BIOS
	if (may_end_simple(end.function))
		look_into_simple(&end, end.original ?: as_number(cell, bio));
	else if (!ends_direct(end.function))
		look_into_btrfs(&end, end.original ?: as_number(cell, bio));
#endif
	/* Each of the functions compared with, and what comes with it, would be followed to the end of the program. */
	end.function = forget(end.function);
	end.private = (void *)as_number(cell, end.private);
	end.pages = (void *)as_number(cell, end.pages);
	end.original = forget(end.original);
	end.file = (void *)as_number(cell, end.file);
	return end;
}

#endif
