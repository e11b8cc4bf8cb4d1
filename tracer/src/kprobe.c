// SPDX-License-Identifier: Apache-2.0
#include "kprobe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

static const struct driver_functions DRIVERS[] = {
	{"device/driver", "virtio_blk", "virtio_queue_rq", "virtio_queue_rqs"},
	/* The disk is below its controller, which is below the device that has the driver. */
	{"device/device/driver", "nvme", "nvme_queue_rq", "nvme_queue_rqs"},
};
#define DRIVER_COUNT (sizeof(DRIVERS) / sizeof(DRIVERS[0]))

/* Drivers call the one or the other, until 5.15 the other from within the one. */
static const char *const COMPLETED[] = {"blk_mq_complete_request", "blk_mq_complete_request_remote"};
#define COMPLETED_COUNT (sizeof(COMPLETED) / sizeof(COMPLETED[0]))

/* ---- one function ---- */

/* Since 4.17 without tracefs: kernel commit e12f03d7031a. */
static int event_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/kprobe/type", "re");
	int type = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &type) != 1)
		type = -1;
	fclose(file);
	return type;
}

static int open_event(const char *function)
{
	int type = event_type();
	struct perf_event_attr attributes = {
		.type = type,
		.size = sizeof(attributes),
		.config1 = (uintptr_t)function, /* kprobe_func */
	};

	if (type < 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	/* The program runs on all CPUs, whichever is named here. */
	return (int)syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool can_open(const char *function)
{
	int fd = open_event(function);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool attach(struct kprobes *kprobes, const char *function, int program)
{
	int fd = kprobes->count < MAX_KPROBES ? open_event(function) : -1;

	if (fd < 0)
		return false;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) != 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0) {
		close(fd);
		return false;
	}
	kprobes->fds[kprobes->count++] = fd;
	return true;
}

/* ---- drivers ---- */

const struct driver_functions *kprobe_functions(const char *disk)
{
	for (size_t i = 0; i < DRIVER_COUNT; i++)
		if (driver_is(disk, DRIVERS[i].link, DRIVERS[i].driver))
			return &DRIVERS[i];
	return NULL;
}

bool kprobe_possible(const struct driver_functions *functions)
{
	return can_open(functions->queue_rq) && can_open(COMPLETED[0]);
}

bool kprobes_wanted(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing == IOTRACE_KPROBE)
			return true;
	return false;
}

static bool drives_one(const struct driver_functions *functions, const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].tracing == IOTRACE_KPROBE && kprobe_functions(devices->list[i].name) == functions)
			return true;
	return false;
}

/* Kernels before 5.16 have no functions for several requests, those before 5.8 one that tells of completions. */
static bool attach_if_there(struct kprobes *kprobes, const char *function, int program)
{
	return attach(kprobes, function, program) || errno == ENOENT;
}

bool kprobes_attach(struct kprobes *kprobes, const struct devices *devices, const struct kprobe_programs *programs)
{
	for (size_t i = 0; i < DRIVER_COUNT; i++) {
		if (!drives_one(&DRIVERS[i], devices))
			continue;
		if (!attach(kprobes, DRIVERS[i].queue_rq, programs->queue_rq) ||
		    !attach_if_there(kprobes, DRIVERS[i].queue_rqs, programs->queue_rqs))
			return false;
	}
	for (size_t i = 0; i < COMPLETED_COUNT && kprobes_wanted(devices); i++)
		if (!attach_if_there(kprobes, COMPLETED[i], programs->complete))
			return false;
	return true;
}

void kprobes_close(struct kprobes *kprobes)
{
	for (size_t i = 0; i < kprobes->count; i++)
		close(kprobes->fds[i]);
	kprobes->count = 0;
}
