/* SPDX-License-Identifier: Apache-2.0 */
/* What this kernel shows of the drivers, and the best honest mode for each disk. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <linux/types.h>

#include "iotrace.h"
#include "options.h"

/* What can be attached to. */
struct driver_support {
	bool modules; /* programs for modules may be loaded */
	bool nvme, scsi, kprobe, irq;
	bool fentry;	   /* functions of virtio_blk */
	bool fentry_batch; /* virtio_queue_rqs: since 5.16 */
	const char *throttler; /* tells since when and for whom a cgroup's limit holds a bio back; NULL: cannot be attached to */
	bool hides_throttling; /* for that reason, where limits there may be */
};

/* What the backend can attach to; only what --tracing asks for, if it does. */
void driver_probe(struct driver_support *support, const struct options *options);

/* True when the link /sys/block/DISK/LINK points to something of this name. */
bool driver_is(const char *disk, const char *link, const char *wanted);

/* By the name of the disk. */
enum iotrace_tracing driver_mode(const struct driver_support *support, const char *disk);

/* Enters the interrupts of the disk; false when it has none of its own. */
bool driver_irqs(const char *disk, __u32 id, __u32 device_of_irq[IOTRACE_IRQS]);

/*
 * False: no completion can interrupt another one on its CPU, which would hide it from the programs (block_io_done). Only
 * where all disks of the machine are of a kind that ends its requests in the softirq of the block layer.
 */
bool driver_completions_nest(void);

/* As in the column tracing_mode. */
const char *driver_mode_name(enum iotrace_tracing mode);

/* What of the driver's time this mode does not show; NULL when it shows all. `wanted`: --tracing. */
const char *driver_not_visible(enum iotrace_tracing mode, int wanted);

#endif
