/* SPDX-License-Identifier: Apache-2.0 */
/* FILE is the current output, FILE.1 the oldest one, FILE.2 the next. Old ones may be deleted. */
#ifndef ROTATION_H
#define ROTATION_H

#include "catalog.h"
#include "clock.h"
#include "options.h"
#include "output.h"

/* The writer's, who moves the files; the counts may be read by others. */
struct rotation {
	_Atomic unsigned long files;	/* older files made */
	_Atomic unsigned long deleted;	/* those of them that are gone: the first ones */
	_Atomic unsigned long long deleted_records;
	unsigned long long *records; /* of each older file */
};

/* Begins a new file when the current one is full; false when nothing can be written any more (`output->error`). */
bool rotation_step(struct rotation *rotation, const struct options *options, struct output *output,
		   struct catalog *catalog, const struct anchor *anchor, long long started_mono_ns);

void rotation_free(struct rotation *rotation);

#endif
