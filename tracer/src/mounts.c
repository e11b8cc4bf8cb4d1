// SPDX-License-Identifier: Apache-2.0
#include "mounts.h"

#include <poll.h>
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
static void add_line(struct mount_list *list, const char *line)
{
	unsigned major_number, minor_number;
	char *root = NULL, *point = NULL;

	if (sscanf(line, "%*d %*d %u:%u %ms %ms", &major_number, &minor_number, &root, &point) != 4) {
		free(root);
		return;
	}
	unescape(root);
	unescape(point);
	list->mounts = realloc(list->mounts, (list->count + 1) * sizeof(*list->mounts));
	if (!list->mounts)
		abort();
	list->mounts[list->count++] = (struct mount){major_number << 20 | minor_number, root, point};
}

static void list_free(struct mount_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->mounts[i].root);
		free(list->mounts[i].point);
	}
	free(list->mounts);
	*list = (struct mount_list){0};
}

/* Since this was last asked; proc(5) says how. */
static bool have_changed(struct mounts *mounts)
{
	struct pollfd changes = {.events = POLLPRI};

	if (!mounts->file) {
		mounts->file = fopen("/proc/self/mountinfo", "re");
		return mounts->file;
	}
	changes.fd = fileno(mounts->file);
	return poll(&changes, 1, 0) > 0;
}

static void read_mounts(struct mounts *mounts)
{
	char *line = NULL;
	size_t size = 0;

	list_free(&mounts->before);
	mounts->before = mounts->now;
	mounts->now = (struct mount_list){0};
	rewind(mounts->file);
	while (getline(&line, &size, mounts->file) >= 0)
		add_line(&mounts->now, line);
	free(line);
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
static const struct mount *best_mount(const struct mount_list *list, __u32 filesystem, const char *inner)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < list->count; i++) {
		const struct mount *mount = &list->mounts[i];

		if (mount->filesystem != filesystem || !below(mount->root, inner))
			continue;
		if (!best || strlen(mount->root) < strlen(best->root))
			best = mount;
	}
	return best;
}

void mounts_path(struct mounts *mounts, __u32 filesystem, const char *inner, char *path, size_t bytes)
{
	const struct mount *mount;

	if (have_changed(mounts))
		read_mounts(mounts);
	mount = best_mount(&mounts->now, filesystem, inner) ?: best_mount(&mounts->before, filesystem, inner);
	if (mount)
		snprintf(path, bytes, "%s%s", strcmp(mount->point, "/") == 0 ? "" : mount->point,
			 below(mount->root, inner));
	else
		snprintf(path, bytes, "%s", inner);
}

void mounts_free(struct mounts *mounts)
{
	list_free(&mounts->now);
	list_free(&mounts->before);
	if (mounts->file)
		fclose(mounts->file);
	*mounts = (struct mounts){0};
}
