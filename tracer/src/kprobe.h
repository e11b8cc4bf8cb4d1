/* SPDX-License-Identifier: Apache-2.0 */
/* Programs at the entry of functions of the block drivers, by kprobes. */
#ifndef KPROBE_H
#define KPROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "device.h"

#define MAX_KPROBES 8

/* What a driver calls when it takes a request, and several. */
struct driver_functions {
	const char *link, *driver; /* /sys/block/DISK/LINK points to DRIVER */
	const char *queue_rq, *queue_rqs;
};

/* The functions of the driver of this disk; NULL: they are not known. */
const struct driver_functions *kprobe_functions(const char *disk);

/* True when this kernel lets us attach to what must be seen of the driver. The only way to know is to try. */
bool kprobe_possible(const struct driver_functions *functions);

/* Descriptors of programs that are loaded. */
struct kprobe_programs {
	int queue_rq, queue_rqs, complete;
};

/* What is attached. All of it is gone with its descriptors, also when the process is killed. */
struct kprobes {
	int fds[MAX_KPROBES];
	size_t count;
};

/* True when a disk has this mode. */
bool kprobes_wanted(const struct devices *devices);

/* For all disks of mode kprobe; false with errno when one function cannot be attached to. */
bool kprobes_attach(struct kprobes *kprobes, const struct devices *devices, const struct kprobe_programs *programs);
void kprobes_close(struct kprobes *kprobes);

#endif
