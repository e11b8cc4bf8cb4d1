// SPDX-License-Identifier: Apache-2.0
#include "rotation.h"

#include <errno.h>
#include <stdlib.h>

/* What the writer is to do between the last block of a file and the header of the next. */
struct turnover {
	struct job job;
	struct older *older;
	struct output *output;
	unsigned long long records;
	long keep;
};

static void turn_over(struct job *job)
{
	struct turnover *turnover = (struct turnover *)job;
	struct output *output = turnover->output;
	char name[PATH_MAX];

	older_next(turnover->older, output->claim.path, name);
	if (!output->error) {
		if (claim_rotate(&output->claim, name))
			older_add(turnover->older, output->claim.path, turnover->records, turnover->keep);
		else
			output_fail(output, output->claim.path, errno);
	}
	free(turnover);
}

bool rotation_step(struct older *older, const struct options *options, struct output *output, struct catalog *catalog,
		   const struct anchor *anchor, long long started_mono_ns)
{
	struct turnover *turnover;

	if (!options->rotate_bytes || output_bytes(output) < options->rotate_bytes || output->error)
		return true;
	turnover = malloc(sizeof(*turnover));
	if (!turnover)
		abort();
	*turnover = (struct turnover){{.run = turn_over}, older, output, output->records, options->keep_files};
	output_flush(output);
	writer_put(&output->writer, &turnover->job);
	catalog_forget_definitions(catalog);
	return output_write_header(output, anchor, started_mono_ns);
}
