// SPDX-License-Identifier: Apache-2.0
#include "rotation.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void older_path(const struct output *output, unsigned long number, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s.%lu", output->path, number);
}

static void delete_oldest(struct rotation *rotation, const struct output *output, long keep)
{
	char path[PATH_MAX];

	while (keep && rotation->files - rotation->deleted > (unsigned long)keep) {
		older_path(output, rotation->deleted + 1, path);
		if (unlink(path) != 0)
			return; /* somebody has taken it away; its records are not ours to count any more */
		rotation->deleted_records += rotation->records[rotation->deleted++];
	}
}

bool rotation_step(struct rotation *rotation, const struct options *options, struct output *output,
		   struct catalog *catalog, const struct anchor *anchor, long long started_mono_ns)
{
	unsigned long long records = output->records, *list;
	char path[PATH_MAX];

	if (!options->rotate_bytes || output_bytes(output) < options->rotate_bytes || output->error)
		return true;
	older_path(output, rotation->files + 1, path);
	if (!output_rotate(output, path) || !output_write_header(output, anchor, started_mono_ns))
		return false;
	list = realloc(rotation->records, (rotation->files + 1) * sizeof(*list));
	if (!list)
		abort();
	rotation->records = list;
	list[rotation->files++] = records;
	catalog_forget_definitions(catalog);
	delete_oldest(rotation, output, options->keep_files);
	return true;
}

void rotation_free(struct rotation *rotation)
{
	free(rotation->records);
	*rotation = (struct rotation){0};
}
