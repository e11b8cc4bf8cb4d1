// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "json.h"
#include "say.h"

#define BLOCK_BYTES (64 << 10) /* stay in the cache until they are written */
#define KEPT_BYTES (16 << 20)  /* of freed memory: a page used for the first time takes microseconds */
#define RESERVE_BYTES (256 << 10)
#define HEADER_ALIGNMENT 4096
#define MAGIC "STRATAIO"

/* A part of the file. */
struct block {
	struct job job; /* to write it */
	struct output *output;
	struct block *next;
	off_t offset;
	bool has_slots; /* else it is a header */
	size_t used, written;
	unsigned char bytes[];
};

static int reserve_space(const char *path)
{
	char copy[PATH_MAX];
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	/* Has no name, so a kill leaves nothing behind. */
	fd = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Asked before it is opened, for opening a pipe may wait. A directory cannot be opened, which says enough. */
static bool keeps_records(const char *path)
{
	struct stat status;

	return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

int output_open(struct output *output, const struct options *options, struct devices *devices)
{
	*output = (struct output){.reserve_fd = -1, .devices = devices, .has_returns = options->vfs};
	if (!keeps_records(options->output)) {
		complain("name a regular file", "no records can be kept there", "--output %s", options->output);
		return EXIT_OUTPUT;
	}
	return claim_open(&output->claim, "output", options->output, options);
}

int output_begin(struct output *output)
{
	int error;

	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	error = writer_begin(&output->writer);
	if (error) {
		complain("allow this user or cgroup more threads", strerror(error), "starting the thread that writes");
		return EXIT_CANNOT_TRACE;
	}
	output->reserve_fd = reserve_space(output->claim.path);
	return claim_begin(&output->claim);
}

static char *header_json(const struct output *output, const struct anchor *anchor, long long started_mono_ns,
			 size_t *length)
{
	struct utsname system;
	char *text = NULL;
	FILE *file = open_memstream(&text, length);

	if (!file)
		abort();
	uname(&system);
	fprintf(file, "{\"record_bytes\": %d, \"anchor_unix_ns\": %lld, \"anchor_mono_ns\": %lld, \"kernel\": ",
		SLOT_BYTES, anchor->unix_ns, anchor->mono_ns);
	json_string(file, system.release);
	fprintf(file, ", \"started_mono_ns\": %lld, \"returns\": %s, \"devices\": {", started_mono_ns,
		output->has_returns ? "true" : "false");
	for (size_t i = 0; i < output->devices->count; i++) {
		const struct device *device = &output->devices->list[i];

		fprintf(file, "%s\"%u:%u\": ", i ? ", " : "", device_major(device->id), device_minor(device->id));
		json_string(file, device->name);
	}
	fputs("}}", file);
	fclose(file);
	return text;
}

/* By the writer, as all that follows a first failure is. */
static bool write_whole(const struct output *output, struct block *block)
{
	while (block->written < block->used) {
		ssize_t n = pwrite(output->claim.fd, block->bytes + block->written, block->used - block->written,
				   block->offset + (off_t)block->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : ENOSPC;
			return false;
		}
		block->written += n;
	}
	return true;
}

void output_fail(struct output *output, const char *path, int error)
{
	if (output->error)
		return;
	snprintf(output->failed, sizeof(output->failed), "%s", path);
	output->error = error;
}

static void write_block(struct job *job)
{
	struct block *block = (struct block *)job;
	struct output *output = block->output;

	if (!output->error && write_whole(output, block)) {
		free(block);
		return;
	}
	if (!output->error) {
		output_fail(output, output->claim.path, errno);
		block->written -= block->written % SLOT_BYTES;
		if (ftruncate(output->claim.fd, block->offset + (off_t)block->written) != 0)
			complain("a reader ignores it", strerror(errno), "cutting off a partial record");
	}
	block->next = output->unwritten;
	output->unwritten = block;
}

static struct block *block_new(struct output *output, size_t bytes)
{
	struct block *block = malloc(sizeof(*block) + bytes);

	if (!block)
		abort();
	*block = (struct block){.job = {.run = write_block}, .output = output, .has_slots = true};
	return block;
}

static void hand_over(struct output *output, struct block *block)
{
	block->offset = output->handed_over;
	output->handed_over += block->used;
	writer_put(&output->writer, &block->job);
}

bool output_write_header(struct output *output, const struct anchor *anchor, long long started_mono_ns)
{
	size_t length;
	char *json = header_json(output, anchor, started_mono_ns, &length);
	size_t bytes = (16 + length + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
	__u32 version_and_size[2] = {RECORD_VERSION, bytes};
	struct block *header = block_new(output, bytes);

	memset(header->bytes, ' ', bytes);
	memcpy(header->bytes, MAGIC, 8);
	memcpy(header->bytes + 8, version_and_size, 8);
	memcpy(header->bytes + 16, json, length);
	free(json);
	header->used = bytes;
	header->has_slots = false;
	output->handed_over = 0;
	output->records = 0;
	hand_over(output, header);
	return !output->error;
}

static bool is_text(const struct record *slot)
{
	return slot->mode >= ' ' && slot->mode <= '~';
}

static void lose(struct output *output, const struct record *slot)
{
	if (slot->mode == IOTRACE_RETURN)
		output->returns_lost++;
	else if (!is_text(slot))
		output->devices->list[slot->device].lost++;
}

bool output_flush(struct output *output)
{
	struct block *block = output->filled;

	output->filled = NULL;
	if (block)
		hand_over(output, block);
	return !output->error;
}

void output_settle(struct output *output)
{
	output_flush(output);
	writer_wait(&output->writer);
	for (struct block *block = output->unwritten, *next; block; block = next) {
		next = block->next;
		for (; block->has_slots && block->written < block->used; block->written += SLOT_BYTES)
			lose(output, (const void *)(block->bytes + block->written));
		free(block);
	}
	output->unwritten = NULL;
}

static void append_slot(struct output *output, const void *slot)
{
	struct block *block = output->filled;

	if (output->error) {
		lose(output, slot);
		return;
	}
	if (!block)
		block = output->filled = block_new(output, BLOCK_BYTES);
	memcpy(block->bytes + block->used, slot, SLOT_BYTES);
	block->used += SLOT_BYTES;
	if (block->used == BLOCK_BYTES)
		output_flush(output);
}

void output_append(struct output *output, const struct record *record)
{
	output->records++;
	append_slot(output, record);
}

void output_append_return(struct output *output, const struct return_record *record)
{
	output->returns++;
	append_slot(output, record);
}

void output_append_text(struct output *output, const char *text, size_t length)
{
	char slot[SLOT_BYTES];

	/* At least one byte is left for the newline. */
	for (size_t at = 0; at <= length; at += SLOT_BYTES) {
		size_t rest = length - at;

		memset(slot, ' ', sizeof(slot));
		memcpy(slot, text + at, rest < SLOT_BYTES ? rest : SLOT_BYTES);
		if (rest < SLOT_BYTES)
			slot[SLOT_BYTES - 1] = '\n';
		append_slot(output, slot);
	}
}

off_t output_bytes(const struct output *output)
{
	return output->handed_over + (off_t)(output->filled ? output->filled->used : 0);
}

bool output_can_replace(const char *path)
{
	char temporary[PATH_MAX];
	struct stat status;
	int fd;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", path) >= sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
		errno = EISDIR;
		return false;
	}
	fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	close(fd);
	unlink(temporary);
	return true;
}

bool output_replace(struct output *output, const char *path, const char *text, size_t length)
{
	char temporary[PATH_MAX];
	int fd;
	bool ok;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	unlink(temporary); /* of a tracer that was killed; or a link, and what that leads to is somebody's */
	errno = 0;
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	ok = fd >= 0 && write(fd, text, length) == (ssize_t)length;
	if (fd >= 0 && close(fd) != 0)
		ok = false;
	if (ok && rename(temporary, path) == 0)
		return true;
	output_fail(output, path, errno ? errno : ENOSPC);
	unlink(temporary);
	return false;
}

void output_release_reserve(struct output *output)
{
	if (output->reserve_fd >= 0)
		close(output->reserve_fd);
	output->reserve_fd = -1;
}

void output_close(struct output *output)
{
	writer_end(&output->writer);
	output_release_reserve(output);
	claim_close(&output->claim);
}
