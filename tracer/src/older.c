// SPDX-License-Identifier: Apache-2.0
#include "older.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

static void name_of(const char *path, unsigned long number, char name[PATH_MAX])
{
	snprintf(name, PATH_MAX, "%s.%lu", path, number);
}

void older_next(const struct older *older, const char *path, char name[PATH_MAX])
{
	name_of(path, older->files + 1, name);
}

/* False: it is still there. */
static bool delete_file(struct older *older, const char *name, unsigned long long records)
{
	if (unlink(name) == 0) {
		older->deleted++;
		older->deleted_records += records;
		return true;
	}
	return errno == ENOENT; /* somebody has taken it away: its records are not ours to count */
}

/*
 * One that cannot be deleted does not hold up the others, which would fill the disk. It is tried again each time, but
 * named once.
 */
static void delete_oldest(struct older *older, const char *path, unsigned long keep)
{
	char name[PATH_MAX];

	for (unsigned long i = older->gone; i + keep < older->files; i++) {
		struct older_file *file = &older->list[i];
		bool is_first_time = i + keep + 1 == older->files;

		if (file->is_gone)
			continue;
		name_of(path, i + 1, name);
		file->is_gone = delete_file(older, name, file->records);
		if (!file->is_gone && is_first_time)
			complain("remove it; tracing goes on", strerror(errno), "deleting %s", name);
	}
	while (older->gone < older->files && older->list[older->gone].is_gone)
		older->gone++;
}

void older_add(struct older *older, const char *path, unsigned long long records, long keep)
{
	struct older_file *list = realloc(older->list, (older->files + 1) * sizeof(*list));

	if (!list)
		abort();
	older->list = list;
	list[older->files++] = (struct older_file){.records = records};
	if (keep)
		delete_oldest(older, path, keep);
}

/* Or that of the next one, before it takes the place of this one. */
static bool is_older_name(const char *name, const char *of)
{
	size_t length = strlen(of);
	const char *ending = name + length + 1;

	return strncmp(name, of, length) == 0 && name[length] == '.' && *ending &&
	       (!ending[strspn(ending, "0123456789")] || strcmp(ending, "new") == 0);
}

bool older_are_there(const char *path)
{
	char folder[PATH_MAX], file[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *listing;

	snprintf(folder, sizeof(folder), "%s", path);
	snprintf(file, sizeof(file), "%s", path);
	listing = opendir(dirname(folder));
	if (!listing)
		return false;
	while (!found && (entry = readdir(listing)))
		found = is_older_name(entry->d_name, basename(file));
	closedir(listing);
	return found;
}

void older_free(struct older *older)
{
	free(older->list);
	older->list = NULL;
}
