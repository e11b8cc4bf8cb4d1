/* SPDX-License-Identifier: Apache-2.0 */
/* What is written each second beside the records: --context, --peers, --spans. */
#ifndef BESIDE_H
#define BESIDE_H

#include <stdbool.h>

#include "clock.h"
#include "context.h"
#include "options.h"
#include "peers.h"
#include "probe.h"
#include "spans.h"

struct beside {
	struct context_file context;
	struct peers_file peers;
	struct spans_file spans;
};

/* Opens what the options name. Returns an exit code and says why not; to be closed in either case. */
int beside_open(struct beside *beside, const struct options *options);

/* Empties what was opened, and writes its first line. Returns as beside_open(). */
int beside_write_columns(struct beside *beside);

/* Lines are about the time since the one before, the first ones since `mono_ns`. */
void beside_begin(struct beside *beside, long long mono_ns);

/* The file that cannot be written, with errno; NULL: all could. */
const struct claim *beside_step(struct beside *beside, struct probe *probe, const struct anchor *anchor);

/* The file that has (also) this name; NULL: none. */
const struct claim *beside_named(const struct beside *beside, const char *path);

/* A file beside which something has a name that its older ones are to have; NULL: none. */
const struct claim *beside_crowded(const struct beside *beside);

/* A file that no longer has its name; NULL: none. */
const struct claim *beside_taken_away(const struct beside *beside);

/* One of the files that is on a file system which is almost full; NULL: none. */
const struct claim *beside_short_of_space(const struct beside *beside, const struct options *options);

void beside_close(struct beside *beside);

#endif
