// SPDX-License-Identifier: Apache-2.0
#include "mounts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spaces and the like stand as \040 in mountinfo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned code;

		if (*from == '\\' && sscanf(from, "\\%3o", &code) == 1) {
			*to = (char)code;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

/* proc(5): "36 35 98:0 /root /point ..." */
static void add_line(struct mounts *mounts, const char *line)
{
	unsigned major_number, minor_number;
	char *root = NULL, *point = NULL;
	struct mount *list;

	if (sscanf(line, "%*d %*d %u:%u %ms %ms", &major_number, &minor_number, &root, &point) != 4) {
		free(root);
		return;
	}
	unescape(root);
	unescape(point);
	list = realloc(mounts->list, (mounts->count + 1) * sizeof(*list));
	if (!list)
		abort();
	mounts->list = list;
	list[mounts->count++] = (struct mount){major_number << 20 | minor_number, root, point};
}

static void read_mounts(struct mounts *mounts)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;

	mounts_free(mounts);
	if (!file)
		return;
	while (getline(&line, &size, file) >= 0)
		add_line(mounts, line);
	free(line);
	fclose(file);
}

/* What remains of `inner` below the mounted directory `root`; NULL when it lies elsewhere. */
static const char *below(const char *root, const char *inner)
{
	size_t length = strlen(root);

	if (strcmp(root, "/") == 0)
		return inner;
	if (strncmp(root, inner, length) != 0 || (inner[length] && inner[length] != '/'))
		return NULL;
	return inner + length;
}

/* Of several mounts the one of the largest part of the file system, and of those the first. */
static const struct mount *best_mount(const struct mounts *mounts, __u32 filesystem, const char *inner)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < mounts->count; i++) {
		const struct mount *mount = &mounts->list[i];

		if (mount->filesystem != filesystem || !below(mount->root, inner))
			continue;
		if (!best || strlen(mount->root) < strlen(best->root))
			best = mount;
	}
	return best;
}

void mounts_path(struct mounts *mounts, __u32 filesystem, const char *inner, char *path, size_t bytes)
{
	const struct mount *mount = best_mount(mounts, filesystem, inner);

	if (!mount) { /* may have been mounted since */
		read_mounts(mounts);
		mount = best_mount(mounts, filesystem, inner);
	}
	if (mount)
		snprintf(path, bytes, "%s%s", strcmp(mount->point, "/") == 0 ? "" : mount->point,
			 below(mount->root, inner));
	else
		snprintf(path, bytes, "%s", inner);
}

void mounts_free(struct mounts *mounts)
{
	for (size_t i = 0; i < mounts->count; i++) {
		free(mounts->list[i].root);
		free(mounts->list[i].point);
	}
	free(mounts->list);
	*mounts = (struct mounts){0};
}
