// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "json.h"
#include "say.h"

#define BUFFER_SLOTS 1024 /* 64 KiB stay in the cache until they are written */
#define RESERVE_BYTES (256 << 10)
#define HEADER_ALIGNMENT 4096
#define GIBIBYTE (1LL << 30)
#define MAGIC "STRATAIO"

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

int output_open(struct output *output, const char *path, struct devices *devices)
{
	*output = (struct output){.path = path, .fd = -1, .reserve_fd = -1, .devices = devices};
	output->created = access(path, F_OK) != 0;
	output->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (output->fd < 0) {
		complain("name a file in a directory that can be written", strerror(errno), "--output %s", path);
		return EXIT_OUTPUT;
	}
	if (flock(output->fd, LOCK_EX | LOCK_NB) != 0) {
		complain("stop the other one first", "another tracer writes this file", "--output %s", path);
		output->created = false;
		return EXIT_OUTPUT;
	}
	output->buffer = malloc(BUFFER_SLOTS * SLOT_BYTES);
	if (!output->buffer || ftruncate(output->fd, 0) != 0) {
		complain("name a regular file", strerror(errno), "--output %s", path);
		return EXIT_OUTPUT;
	}
	output->reserve_fd = reserve_space(path);
	return EXIT_OK;
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

static bool write_at(struct output *output, const void *data, size_t bytes, off_t offset, size_t *done)
{
	for (*done = 0; *done < bytes;) {
		ssize_t n = pwrite(output->fd, (const char *)data + *done, bytes - *done, offset + *done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			output->error = n < 0 ? errno : ENOSPC;
			return false;
		}
		*done += n;
	}
	return true;
}

bool output_write_header(struct output *output, const struct anchor *anchor, long long started_mono_ns)
{
	size_t length, done;
	char *json = header_json(output, anchor, started_mono_ns, &length);
	__u32 version_and_size[2] = {RECORD_VERSION, 0};
	char *header;
	bool ok;

	output->header_bytes = (16 + length + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
	output->written = output->header_bytes;
	version_and_size[1] = output->header_bytes;
	header = malloc(output->header_bytes);
	if (!header)
		abort();
	memset(header, ' ', output->header_bytes);
	memcpy(header, MAGIC, 8);
	memcpy(header + 8, version_and_size, 8);
	memcpy(header + 16, json, length);
	ok = write_at(output, header, output->header_bytes, 0, &done);
	free(header);
	free(json);
	return ok;
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
	size_t bytes = output->used, done = 0;

	output->used = 0;
	if (output->error)
		return false;
	if (write_at(output, output->buffer, bytes, output->written, &done)) {
		output->written += bytes;
		return true;
	}
	done -= done % SLOT_BYTES;
	output->written += done;
	for (; done < bytes; done += SLOT_BYTES)
		lose(output, (const void *)(output->buffer + done));
	if (ftruncate(output->fd, output->written) != 0)
		return false; /* a reader ignores a last partial record */
	return false;
}

static void append_slot(struct output *output, const void *slot)
{
	if (output->error) {
		lose(output, slot);
		return;
	}
	memcpy(output->buffer + output->used, slot, SLOT_BYTES);
	output->used += SLOT_BYTES;
	if (output->used == BUFFER_SLOTS * SLOT_BYTES)
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
	return output->written + (off_t)output->used;
}

bool output_is_short_of_space(const struct output *output, long long min_free_bytes)
{
	struct statvfs system;
	long long block, limit;

	if (fstatvfs(output->fd, &system) != 0)
		return false;
	block = system.f_frsize;
	limit = (long long)system.f_blocks * block / 100;
	if (limit > GIBIBYTE)
		limit = GIBIBYTE;
	if (min_free_bytes >= 0)
		limit = min_free_bytes;
	return (long long)system.f_bavail * block < limit;
}

bool output_rotate(struct output *output, const char *older)
{
	char fresh[PATH_MAX];
	int fd;

	if (!output_flush(output))
		return false;
	snprintf(fresh, sizeof(fresh), "%s.new", output->path);
	fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 ||
	    renameat2(AT_FDCWD, fresh, AT_FDCWD, output->path, RENAME_EXCHANGE) != 0) {
		output->error = errno;
		if (fd >= 0) {
			close(fd);
			unlink(fresh);
		}
		return false;
	}
	if (rename(fresh, older) != 0)
		output->error = errno;
	close(output->fd);
	output->fd = fd;
	output->records = 0;
	return !output->error;
}

bool output_replace(struct output *output, const char *path, const char *text, size_t length)
{
	char temporary[PATH_MAX];
	int fd;
	bool ok;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	errno = 0;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ok = fd >= 0 && write(fd, text, length) == (ssize_t)length;
	if (fd >= 0 && close(fd) != 0)
		ok = false;
	if (ok && rename(temporary, path) == 0)
		return true;
	if (!output->error)
		output->error = errno ? errno : ENOSPC;
	unlink(temporary);
	return false;
}

void output_release_reserve(struct output *output)
{
	if (output->reserve_fd >= 0)
		close(output->reserve_fd);
	output->reserve_fd = -1;
}

void output_close(struct output *output, bool keep)
{
	if (!keep && output->created && output->fd >= 0)
		unlink(output->path);
	output_release_reserve(output);
	if (output->fd >= 0)
		close(output->fd);
	free(output->buffer);
	output->buffer = NULL;
	output->fd = -1;
}
