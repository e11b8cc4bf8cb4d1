// SPDX-License-Identifier: Apache-2.0
#include "catalog.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define MOST_TASKS 16384 /* that are known at a time */
#define MOST_NAMES 16    /* of a file that are looked through; under one before these it is defined once more */
#define MOST_FILE_NUMBERS (IOTRACE_FILES_USED / 3 * 5) /* of the programs, in each of two tables */
/*
 * Of tasks and of files; then from 1 again. A reader takes no higher one. It knows of each number what was said last by the
 * end of a block of slots, and no block is so long that a number is in it twice.
 */
#define MOST_NUMBERS ((1U << 24) - 1)

struct known_file {
	__u64 inode;
	__u32 generation, filesystem;
	char *path;   /* NULL = not known */
	__u32 number; /* in the current output file; 0 = not defined yet */
	__u32 older;  /* the same file under the name before: index in `files` + 1, 0 = none is known */
};

/* The key of a table; no holes. */
struct inode_key {
	__u64 inode;
	__u32 generation, filesystem;
};

void catalog_open(struct catalog *catalog, struct output *output)
{
	*catalog = (struct catalog){
		.output = output,
		.tasks.key_bytes = sizeof(struct iotrace_task),
		.inodes.key_bytes = sizeof(struct inode_key),
		.numbers.key_bytes = sizeof(__u64),
		.older_numbers.key_bytes = sizeof(__u64),
		.disks_defined.key_bytes = sizeof(__u64),
		.last_device_number = -1,
	};
}

/* ---- names of files ---- */

/* The names come from the file up to the root; writes "/root/.../file" and returns false when some are missing. */
static bool inner_path(const struct iotrace_name *name, char *path)
{
	size_t at = PATH_MAX - 1;

	path[at] = 0;
	for (size_t i = 0; i < name->bytes;) {
		size_t length = strnlen(name->names + i, name->bytes - i);

		if (at < length + 1)
			return false;
		at -= length;
		memcpy(path + at, name->names + i, length);
		path[--at] = '/';
		i += length + 1;
	}
	memmove(path, path + at, PATH_MAX - at);
	return name->whole && name->bytes;
}

static __u32 add_file(struct catalog *catalog, const struct inode_key *key, const char *path, __u32 older)
{
	struct known_file *file;

	if (!(catalog->file_count & (catalog->file_count - 1))) {
		size_t capacity = catalog->file_count ? catalog->file_count * 2 : 1;

		catalog->files = realloc(catalog->files, capacity * sizeof(*catalog->files));
		if (!catalog->files)
			abort();
	}
	file = &catalog->files[catalog->file_count++];
	*file = (struct known_file){key->inode, key->generation, key->filesystem, NULL, 0, older};
	if (*path) {
		file->path = strdup(path);
		if (!file->path)
			abort();
	}
	return catalog->file_count;
}

/* The file that `latest` begins under this name, which becomes the latest one. 0: not known under it. */
static __u32 named_before(struct catalog *catalog, __u32 latest, const char *path)
{
	__u32 *link = &latest;

	for (int i = 0; i < MOST_NAMES && *link; i++) {
		__u32 file = *link;
		struct known_file *known = &catalog->files[file - 1];

		if (known->path && strcmp(known->path, path) == 0) {
			*link = known->older;
			known->older = latest;
			return file;
		}
		link = &known->older;
	}
	return 0;
}

static __u32 file_named(struct catalog *catalog, const struct inode_key *inode, const char *path)
{
	size_t where;
	__u32 latest = table_find(&catalog->inodes, inode, &where), file;

	/* Its name has left the memory of the kernel, but we have seen it before. */
	if (latest && !*path)
		return latest;
	file = named_before(catalog, latest, path) ?: add_file(catalog, inode, path, latest);
	if (latest)
		catalog->inodes.numbers[where] = file;
	else
		table_add(&catalog->inodes, inode, where, file);
	return file;
}

/* All that none of the numbers kept stands for; one that is read again is told again. */
static void forget_files(struct catalog *catalog)
{
	const struct table *numbers = &catalog->older_numbers;
	__u32 *now = calloc(catalog->file_count + 1, sizeof(*now)), kept = 0;

	if (!now)
		abort();
	for (size_t i = 0; i < numbers->capacity; i++)
		now[numbers->numbers[i]] = 1;
	for (__u32 file = 1; file <= catalog->file_count; file++) {
		if (!now[file]) {
			free(catalog->files[file - 1].path);
			continue;
		}
		catalog->files[kept] = catalog->files[file - 1];
		now[file] = ++kept;
	}
	now[0] = 0;
	for (__u32 i = 0; i < kept; i++)
		catalog->files[i].older = now[catalog->files[i].older];
	table_renumber(&catalog->older_numbers, now);
	table_renumber(&catalog->inodes, now);
	free(now);
	catalog->file_count = kept;
	catalog->last_file_number = 0;
}

/* Those that the programs use, and those of records to come, are among the last; each is given again some day. */
static void keep_last_numbers(struct catalog *catalog)
{
	struct table older = catalog->older_numbers;

	catalog->older_numbers = catalog->numbers;
	table_clear(&older);
	catalog->numbers = older;
	forget_files(catalog);
}

static void note_number(struct catalog *catalog, __u64 number, __u32 file)
{
	size_t where;

	if (table_find(&catalog->numbers, &number, &where))
		catalog->numbers.numbers[where] = file;
	else
		table_add(&catalog->numbers, &number, where, file);
	catalog->last_file_number = 0;
}

static __u32 file_with(struct catalog *catalog, __u64 number)
{
	size_t where;

	return table_find(&catalog->numbers, &number, &where) ?: table_find(&catalog->older_numbers, &number, &where);
}

void catalog_name(struct catalog *catalog, const struct iotrace_name *name)
{
	struct inode_key key = {name->inode, name->generation, name->filesystem};
	char inner[PATH_MAX], path[2 * PATH_MAX] = "";

	if (catalog->numbers.used == MOST_FILE_NUMBERS)
		keep_last_numbers(catalog);
	if (inner_path(name, inner))
		mounts_path(&catalog->mounts, name->filesystem, inner, path, sizeof(path));
	note_number(catalog, name->file, file_named(catalog, &key, path));
}

/* ---- definitions ---- */

static void define_file(struct output *output, __u32 number, const struct known_file *file)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	if (!stream)
		abort();
	fprintf(stream, "{\"file\": %u, \"inode\": %llu, \"generation\": %u, \"filesystem\": \"%u:%u\", \"path\": ",
		number, (unsigned long long)file->inode, file->generation, device_major(file->filesystem),
		device_minor(file->filesystem));
	if (file->path)
		json_string(stream, file->path);
	else
		fputs("null", stream);
	fputc('}', stream);
	fclose(stream);
	output_append_text(output, text, length);
	free(text);
}

static void define_task(struct output *output, __u32 number, const struct iotrace_task *task)
{
	char comm[IOTRACE_COMM_BYTES + 1] = "";
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	if (!stream)
		abort();
	memcpy(comm, task->comm, IOTRACE_COMM_BYTES);
	fprintf(stream, "{\"task\": %u, \"pid\": %u, \"tid\": %u, \"cgroup_id\": %llu, \"comm\": ", number, task->pid,
		task->tid, (unsigned long long)task->cgroup_id);
	json_string(stream, comm);
	fputc('}', stream);
	fclose(stream);
	output_append_text(output, text, length);
	free(text);
}

/* Somebody may have made up the name (null_blk). */
static void define_device(struct output *output, size_t number, const struct device *device)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	if (!stream)
		abort();
	fprintf(stream, "{\"device\": %zu, \"major\": %u, \"minor\": %u, \"name\": ", number, device_major(device->id),
		device_minor(device->id));
	json_string(stream, device->name);
	fputc('}', stream);
	fclose(stream);
	output_append_text(output, text, length);
	free(text);
}

static __u32 next_number(__u32 *last)
{
	*last = *last == MOST_NUMBERS ? 1 : *last + 1;
	return *last;
}

__u32 catalog_task(struct catalog *catalog, const struct iotrace_task *task)
{
	size_t where;
	__u32 number = catalog->last_task_number;

	if (number && memcmp(task, &catalog->last_task, sizeof(*task)) == 0)
		return number;
	number = table_find(&catalog->tasks, task, &where);
	if (!number) {
		if (catalog->tasks.used == MOST_TASKS) { /* those that come again get another number */
			table_clear(&catalog->tasks);
			table_find(&catalog->tasks, task, &where);
		}
		number = next_number(&catalog->last_task_defined);
		table_add(&catalog->tasks, task, where, number);
		define_task(catalog->output, number, task);
	}
	catalog->last_task = *task;
	catalog->last_task_number = number;
	return number;
}

static void forget_file_definitions(struct catalog *catalog)
{
	for (__u32 i = 0; i < catalog->file_count; i++)
		catalog->files[i].number = 0;
}

__u32 catalog_file(struct catalog *catalog, __u32 number)
{
	struct known_file *known;
	__u32 file;

	if (!number)
		return 0;
	file = number == catalog->last_file_number ? catalog->last_file : file_with(catalog, number);
	catalog->last_file_number = number;
	catalog->last_file = file;
	if (!file)
		return 0;
	known = &catalog->files[file - 1];
	if (!known->number) {
		/* Twice in a round, so that no number is as old as that which comes next: files are read for long. */
		if (catalog->last_file_defined % (MOST_NUMBERS / 2) == 0)
			forget_file_definitions(catalog);
		known->number = next_number(&catalog->last_file_defined);
		define_file(catalog->output, known->number, known);
	}
	return known->number;
}

static __u16 find_device(struct catalog *catalog, __u32 id)
{
	struct devices *devices = catalog->output->devices;
	struct device *device = devices_find_or_add(devices, id);
	__u16 number = device - devices->list;
	__u64 key = id;
	size_t where;

	catalog->last_device = id;
	catalog->last_device_number = number;
	if (!table_find(&catalog->disks_defined, &key, &where)) {
		table_add(&catalog->disks_defined, &key, where, 1);
		define_device(catalog->output, number, device);
	}
	return number;
}

__u16 catalog_device(struct catalog *catalog, __u32 id)
{
	bool is_last = catalog->last_device_number >= 0 && catalog->last_device == id;

	return is_last ? catalog->last_device_number : find_device(catalog, id);
}

void catalog_forget_definitions(struct catalog *catalog)
{
	catalog->last_task_number = 0;
	catalog->last_task_defined = catalog->last_file_defined = 0;
	catalog->last_device_number = -1;
	table_clear(&catalog->tasks);
	table_clear(&catalog->disks_defined);
	forget_file_definitions(catalog);
}

void catalog_close(struct catalog *catalog)
{
	table_free(&catalog->tasks);
	table_free(&catalog->inodes);
	table_free(&catalog->disks_defined);
	for (__u32 i = 0; i < catalog->file_count; i++)
		free(catalog->files[i].path);
	free(catalog->files);
	table_free(&catalog->numbers);
	table_free(&catalog->older_numbers);
	mounts_free(&catalog->mounts);
}
