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

static void delete_oldest(struct older *older, const char *path, long keep)
{
	char name[PATH_MAX];

	while (keep && older->files - older->gone > (unsigned long)keep) {
		name_of(path, older->gone + 1, name);
		if (unlink(name) == 0) {
			older->deleted++;
			older->deleted_records += older->records[older->gone];
		} else if (errno != ENOENT) { /* else somebody has taken it away: its records are not ours to count */
			if (!older->has_complained)
				complain("remove it; tracing goes on", strerror(errno), "deleting %s", name);
			older->has_complained = true;
			return;
		}
		older->gone++;
	}
}

void older_add(struct older *older, const char *path, unsigned long long records, long keep)
{
	unsigned long long *list = realloc(older->records, (older->files + 1) * sizeof(*list));

	if (!list)
		abort();
	older->records = list;
	list[older->files++] = records;
	delete_oldest(older, path, keep);
}

static bool is_older_name(const char *name, const char *of)
{
	size_t length = strlen(of);

	return strncmp(name, of, length) == 0 && name[length] == '.' && name[length + 1] &&
	       !name[length + 1 + strspn(name + length + 1, "0123456789")];
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
	free(older->records);
	older->records = NULL;
}
