/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a bio ends, through the clones and parts that the device mapper and md make. Of both backends. */
#ifndef END_BPF_H
#define END_BPF_H

#include "peek.bpf.h"

/* What is called when the bio is done tells what it is for. */
struct end {
	__u64 function;
	void *private;
	struct bio_vec *pages; /* dm-crypt writes pages of its own */
	__u64 original;	       /* the bio that this one stands for; 0 = itself */
};

#define MAX_CLONES 8 /* one of another: an encrypted volume on a volume on a mirror is five */

static __always_inline struct end end_of(struct bio *bio, __u64 *cell)
{
	struct end end = {(__u64)FIELD(bio, bi_end_io), FIELD(bio, bi_private), FIELD(bio, bi_io_vec), 0};
	__u64 original = original_of(cell, bio, end.function, (__u64)end.private);

#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_CLONES && original; i++) {
		/* A part's pages are its own; what it is chained to may have none yet (XFS on 6.1 writes back so). */
		if (!IS_PART(end.function))
			end.pages = PEEK(bio, original, bi_io_vec);
		end.function = (__u64)PEEK(bio, original, bi_end_io);
		end.private = PEEK(bio, original, bi_private);
		end.original = original;
		original = original_of(cell, (void *)original, end.function, (__u64)end.private);
	}
	/* Each of the functions compared with would be followed to the end of the program. */
	end.function = forget(end.function);
	return end;
}

#endif
