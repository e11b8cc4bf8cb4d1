/* SPDX-License-Identifier: Apache-2.0 */
/* The file of records: header, buffered writing, and what happens when the disk is full. Its format: record.h. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "clock.h"
#include "device.h"
#include "record.h"

struct output {
	const char *path;
	int fd;
	int reserve_fd; /* space set aside so that the last status can be written on a full disk */
	bool created;
	size_t header_bytes;
	off_t written; /* bytes of the file that hold whole slots */
	unsigned char *buffer;
	size_t used;
	int error; /* errno of the first failure; from then on records are only counted as lost */
	struct devices *devices;
};

/* Opens and locks the file; returns an exit code and says why not. */
int output_open(struct output *output, const char *path, struct devices *devices);

bool output_write_header(struct output *output, const struct anchor *anchor, long long started_mono_ns);

/* `record->device` is an index into the devices. */
void output_append(struct output *output, const struct record *record);

/* One definition: printable ASCII without a newline. */
void output_append_text(struct output *output, const char *text, size_t length);

/* False when the file cannot be written any more; what was written stays whole. */
bool output_flush(struct output *output);

/* Replaces `path` in one step. */
bool output_replace(struct output *output, const char *path, const char *text, size_t length);

/* Gives the reserved space back, for what is written last. */
void output_release_reserve(struct output *output);

/* `keep` = false removes a file that holds nothing yet and that we have made. */
void output_close(struct output *output, bool keep);

#endif
