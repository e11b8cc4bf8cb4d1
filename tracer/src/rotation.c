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

/* What the writer is to do between the last block of a file and the header of the next. */
struct turnover {
	struct job job;
	struct rotation *rotation;
	struct output *output;
	unsigned long long records;
	long keep;
};

static void add_older(struct rotation *rotation, unsigned long long records)
{
	unsigned long long *list = realloc(rotation->records, (rotation->files + 1) * sizeof(*list));

	if (!list)
		abort();
	rotation->records = list;
	list[rotation->files++] = records;
}

static void turn_over(struct job *job)
{
	struct turnover *turnover = (struct turnover *)job;
	struct rotation *rotation = turnover->rotation;
	char path[PATH_MAX];

	older_path(turnover->output, rotation->files + 1, path);
	if (!turnover->output->error && output_rotate(turnover->output, path)) {
		add_older(rotation, turnover->records);
		delete_oldest(rotation, turnover->output, turnover->keep);
	}
	free(turnover);
}

bool rotation_step(struct rotation *rotation, const struct options *options, struct output *output,
		   struct catalog *catalog, const struct anchor *anchor, long long started_mono_ns)
{
	struct turnover *turnover;

	if (!options->rotate_bytes || output_bytes(output) < options->rotate_bytes || output->error)
		return true;
	turnover = malloc(sizeof(*turnover));
	if (!turnover)
		abort();
	*turnover = (struct turnover){{.run = turn_over}, rotation, output, output->records, options->keep_files};
	output_flush(output);
	writer_put(&output->writer, &turnover->job);
	catalog_forget_definitions(catalog);
	return output_write_header(output, anchor, started_mono_ns);
}

void rotation_free(struct rotation *rotation)
{
	free(rotation->records);
	rotation->records = NULL;
}
