/* SPDX-License-Identifier: Apache-2.0 */
/* A new file of records begins when the current one is full. */
#ifndef ROTATION_H
#define ROTATION_H

#include "catalog.h"
#include "clock.h"
#include "older.h"
#include "options.h"
#include "output.h"

/* False when nothing can be written any more (`output->error`). */
bool rotation_step(struct older *older, const struct options *options, struct output *output, struct catalog *catalog,
		   const struct anchor *anchor, long long started_mono_ns);

#endif
