/* SPDX-License-Identifier: Apache-2.0 */
/* The file of records: header, writing by blocks, and what happens when the disk is full. Its format: record.h. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "claim.h"
#include "clock.h"
#include "device.h"
#include "options.h"
#include "record.h"
#include "writer.h"

struct block;

struct output {
	struct claim claim; /* the writer's while anything is unfinished */
	struct writer writer;
	int reserve_fd; /* space set aside so that the last status can be written on a full disk */
	bool has_returns; /* records of calls may come; set before the header is written */
	off_t handed_over;    /* bytes of the current file that the writer has written or is to write */
	struct block *filled; /* the one that slots are added to; NULL: the next slot begins one */
	struct block *unwritten; /* those that the writer has kept since the first failure */
	unsigned long long records; /* of requests in the current file, those not written yet included */
	unsigned long long returns, returns_lost; /* of calls, in all files; of these, not written */
	_Atomic int error; /* errno of the first failure; from then on records are only counted as lost */
	char failed[PATH_MAX]; /* what could not be written then */
	struct devices *devices;
};

/* Claims the file; returns an exit code and says why not. To be closed in either case. */
int output_open(struct output *output, const struct options *options, struct devices *devices);

/* Begins the thread that writes, and empties the file; returns an exit code and says why not. */
int output_begin(struct output *output);

/* A new file begins with what stands before the slots. False: see output_flush(). */
bool output_write_header(struct output *output, const struct anchor *anchor, long long started_mono_ns);

/* `record->device` is an index into the devices. */
void output_append(struct output *output, const struct record *record);
void output_append_return(struct output *output, const struct return_record *record);

/* One definition: printable ASCII without a newline. */
void output_append_text(struct output *output, const char *text, size_t length);

/* Hands over what there is. False when the file cannot be written any more; what was written stays whole. */
bool output_flush(struct output *output);

/* Until all is written, or known to be lost. */
void output_settle(struct output *output);

/* Bytes of the current file, those not written yet included. */
off_t output_bytes(const struct output *output);

/* Something cannot be written; only the first failure counts. By one thread at a time. */
void output_fail(struct output *output, const char *path, int error);

/* False, with errno: output_replace() could not. It does not touch what is there. */
bool output_can_replace(const char *path);

/* Replaces `path` in one step. */
bool output_replace(struct output *output, const char *path, const char *text, size_t length);

/* Gives the reserved space back, for what is written last. */
void output_release_reserve(struct output *output);

void output_close(struct output *output);

#endif
