/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text beside the records, which give way to a new file as those do. */
#ifndef CSV_H
#define CSV_H

#include <stdbool.h>
#include <stdio.h>

#include "claim.h"
#include "older.h"
#include "options.h"

struct csv {
	struct claim claim;
	struct older older;
	const struct options *options;
	void (*write_columns)(FILE *file);
	FILE *file; /* NULL = none is written */
	bool has_failed; /* it cannot be written any more */
};

/* Returns an exit code and says why not; to be closed in either case. */
int csv_open(struct csv *csv, const char *option, const char *path, const struct options *options);

/* Each file begins with the columns. Nothing is ever written when it was not opened. Returns as csv_open(). */
int csv_begin(struct csv *csv, void (*write_columns)(FILE *file));

/* Some lines are whole. False, with errno, when they cannot be written. */
bool csv_flush(struct csv *csv);

/* Quoted. What is not UTF-8 becomes U+FFFD: the kernel cuts names off within a character. */
void csv_text(FILE *file, const char *text);

void csv_close(struct csv *csv);

#endif
