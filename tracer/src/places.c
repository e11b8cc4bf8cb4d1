// SPDX-License-Identifier: Apache-2.0
#include "places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "say.h"

/* None had an older file when it was opened, so what is there now is another option's. */
static bool older_have_room(const struct trace *trace)
{
	const struct claim *claim = older_are_there(trace->output.claim.path) ? &trace->output.claim :
									      beside_crowded(&trace->beside);

	if (claim)
		complain("name another file", "another option has the name that an older file of it will have",
			 "--%s %s", claim->option, claim->path);
	return !claim;
}

/* What the tracer writes by itself takes the place of whatever has its name; and without a status no trace begins. */
int places_check(const struct trace *trace)
{
	static const char *const BEHIND[] = {".json", ".json.new", ".new"};
	const struct options *options = &trace->options;
	char path[PATH_MAX + 16];

	for (size_t i = 0; i < sizeof(BEHIND) / sizeof(BEHIND[0]); i++) {
		const struct claim *claim;

		snprintf(path, sizeof(path), "%s%s", options->output, BEHIND[i]);
		claim = beside_named(&trace->beside, path);
		if (!claim)
			continue;
		complain("name another file", "the status of this trace or its next file will be there", "--%s %s",
			 claim->option, claim->path);
		return EXIT_OUTPUT;
	}
	if (options->rotate_bytes && !older_have_room(trace))
		return EXIT_OUTPUT;
	snprintf(path, sizeof(path), "%s%s", options->output, BEHIND[0]);
	if (output_can_replace(path))
		return EXIT_OK;
	complain("name another file", strerror(errno), "--output %s, its status %s", options->output, path);
	return EXIT_OUTPUT;
}

const struct claim *places_lost(const struct trace *trace)
{
	const struct claim *claim = &trace->output.claim;

	return claim_is_named(claim, claim->path) ? beside_taken_away(&trace->beside) : claim;
}
