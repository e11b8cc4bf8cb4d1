/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks, files and disks that records refer to: defined in the file once, before the first record that needs them. */
#ifndef CATALOG_H
#define CATALOG_H

#include "iotrace.h"
#include "mounts.h"
#include "output.h"
#include "table.h"

struct known_file;

struct catalog {
	struct output *output;
	struct mounts mounts;
	struct table tasks;
	__u32 last_task_defined; /* in the current output file; one that comes again after MOST_TASKS others, once more */
	struct table inodes; /* file -> index of its latest name in `files` + 1 */
	struct known_file *files;
	__u32 file_count;
	__u32 last_file_defined; /* in the current output file */
	struct table numbers, older_numbers; /* that the BPF program gave -> index in `files` + 1 */
	struct table disks_defined;
	/* Of the event before, mostly the same; numbers 0 and -1: none. */
	struct iotrace_task last_task;
	__u32 last_task_number;
	__u32 last_file, last_file_number; /* of `files` + 1, and that of the BPF program */
	__u32 last_device;
	int last_device_number;
};

void catalog_open(struct catalog *catalog, struct output *output);

void catalog_name(struct catalog *catalog, const struct iotrace_name *name);

/* These return the number that stands for it in the records of the current output file. */
__u32 catalog_task(struct catalog *catalog, const struct iotrace_task *task);
__u32 catalog_file(struct catalog *catalog, __u32 number);
__u16 catalog_device(struct catalog *catalog, __u32 device);

/* A new output file has begun: everything is to be defined again. */
void catalog_forget_definitions(struct catalog *catalog);

void catalog_close(struct catalog *catalog);

#endif
