/* SPDX-License-Identifier: Apache-2.0 */
/* Where file systems are mounted: from a path within one to a path of this machine. */
#ifndef MOUNTS_H
#define MOUNTS_H

#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>

struct mount {
	__u32 filesystem; /* major << 20 | minor */
	char *root;	  /* the directory of the file system that is mounted */
	char *point;
};

struct mount_list {
	struct mount *mounts;
	size_t count;
};

struct mounts {
	FILE *file;
	struct mount_list now, before; /* the last change: what was there is needed for names that come later */
};

/* Writes the path of `inner` ("/a/b", within the file system) to `path`; `inner` itself when it is not mounted. */
void mounts_path(struct mounts *mounts, __u32 filesystem, const char *inner, char *path, size_t bytes);

void mounts_free(struct mounts *mounts);

#endif
