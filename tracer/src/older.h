/* SPDX-License-Identifier: Apache-2.0 */
/* Files that have given way to a new one of their name: FILE.1 is the oldest, FILE.2 the next. */
#ifndef OLDER_H
#define OLDER_H

#include <limits.h>
#include <stdbool.h>

struct older_file {
	unsigned long long records;
	bool is_gone; /* whoever has deleted it */
};

/* The writer's, who moves the files; the counts may be read by others. */
struct older {
	_Atomic unsigned long files;   /* that were made */
	_Atomic unsigned long deleted; /* by us */
	_Atomic unsigned long long deleted_records;
	struct older_file *list; /* all that were made */
	unsigned long gone;	 /* so many of the first ones */
};

/* The name that the next one is to have. */
void older_next(const struct older *older, const char *path, char name[PATH_MAX]);

/* It has that name now. Deletes all but the latest `keep` (0: none). */
void older_add(struct older *older, const char *path, unsigned long long records, long keep);

/* True: there are such files, or FILE.new, which are not those of this trace. */
bool older_are_there(const char *path);

void older_free(struct older *older);

#endif
