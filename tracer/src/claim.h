/* SPDX-License-Identifier: Apache-2.0 */
/* A file that one tracer writes and no other one. What it held before stays until the trace begins. */
#ifndef CLAIM_H
#define CLAIM_H

#include <limits.h>
#include <stdbool.h>

#include "options.h"

struct claim {
	const char *option; /* that names it, for messages */
	char path[PATH_MAX];
	int fd;
	bool is_open, created, begun;
	bool is_file; /* else a pipe or a device, which anybody may share */
};

/* Opens and locks it. Returns an exit code and says why not; to be closed in either case. */
int claim_open(struct claim *claim, const char *option, const char *path, const struct options *options);

/* It is empty now. Returns an exit code and says why not. */
int claim_begin(struct claim *claim);

/*
 * It gets the name `older`, and an empty file takes its place and its lock in one step, so that there is never a moment
 * without. False, with errno: nothing has changed.
 */
bool claim_rotate(struct claim *claim, const char *older);

/* True when the file has (also) this name. */
bool claim_is_named(const struct claim *claim, const char *path);

/* True when its file system has less left for us than --min-free-bytes, or what that is by default. */
bool claim_is_short_of_space(const struct claim *claim, const struct options *options);

/*
 * Writes to a pipe or a device, and waits while that is full, but for no longer than a second behind the end of the
 * trace. False, with errno: it has not taken all.
 */
bool claim_write(const struct claim *claim, const char *bytes, size_t size);

/* When the trace ends, unless a signal ends it before. */
void claims_end_at(long long mono_ns);

/* What an errno means that came from here. */
const char *claim_why(int error);

/* Removes a file that was made and not begun. */
void claim_close(struct claim *claim);

#endif
