/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes, cgroups and devices the BPF programs look at. */
#ifndef TARGETS_H
#define TARGETS_H

#include <stdbool.h>

#include "device.h"
#include "options.h"

/* Only cgroup v2 directories can be filtered by. */
bool targets_accepts_cgroup(const char *path, const char **why);

/* Into the maps of the programs; false with errno. */
bool targets_add(int pids, int cgroups, const struct options *options);

#define TARGETS_NO_SLOT IOTRACE_DEVICE_SLOTS

/* Where the programs look for a device; TARGETS_NO_SLOT: not there, `free_slot` is its place. */
__u32 targets_slot(const __u32 slots[IOTRACE_DEVICE_SLOTS], __u32 device, __u32 *free_slot);

/* False with errno. */
bool targets_add_devices(__u32 slots[IOTRACE_DEVICE_SLOTS], const struct devices *devices);

#endif
