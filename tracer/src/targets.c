// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "targets.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h */

bool targets_accepts_cgroup(const char *path, const char **why)
{
	struct statfs system;
	struct stat status;

	if (statfs(path, &system) != 0 || stat(path, &status) != 0)
		*why = strerror(errno);
	else if (system.f_type != CGROUP2_MAGIC || !S_ISDIR(status.st_mode))
		*why = "not a directory of the cgroup v2 tree";
	else
		return true;
	return false;
}

static bool add_cgroups(int map, const struct options *options)
{
	for (__u32 i = 0; i < options->cgroup_count; i++) {
		int fd = open(options->cgroups[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int error = fd < 0 ? -1 : bpf_map_update_elem(map, &i, &fd, BPF_ANY);

		if (fd >= 0)
			close(fd);
		if (error)
			return false;
	}
	return true;
}

static bool add_pids(int map, const struct options *options)
{
	__u8 yes = 1;

	for (size_t i = 0; i < options->pid_count; i++) {
		__u32 pid = options->pids[i];

		if (bpf_map_update_elem(map, &pid, &yes, BPF_ANY))
			return false;
	}
	return true;
}

__u32 targets_slot(const __u32 slots[IOTRACE_DEVICE_SLOTS], __u32 device, __u32 *free_slot)
{
	__u32 first = iotrace_device_slot(device);

	*free_slot = TARGETS_NO_SLOT;
	for (__u32 i = 0; i < IOTRACE_DEVICE_SLOTS; i++) {
		__u32 at = (first + i) % IOTRACE_DEVICE_SLOTS;

		if (slots[at] == device)
			return at;
		if (slots[at])
			continue;
		*free_slot = at;
		break;
	}
	return TARGETS_NO_SLOT;
}

static bool add_device(__u32 slots[IOTRACE_DEVICE_SLOTS], __u32 id)
{
	__u32 slot;

	if (targets_slot(slots, id, &slot) != TARGETS_NO_SLOT)
		return true;
	if (slot == TARGETS_NO_SLOT) {
		errno = ENOSPC;
		return false;
	}
	slots[slot] = id;
	return true;
}

bool targets_add_devices(__u32 slots[IOTRACE_DEVICE_SLOTS], const struct devices *devices)
{
	bool ok = true;

	for (size_t i = 0; ok && i < devices->count; i++)
		ok = add_device(slots, devices->list[i].id);
	for (size_t i = 0; ok && i < devices->head_count; i++)
		ok = add_device(slots, devices->heads[i]);
	return ok;
}

bool targets_add(int pids, int cgroups, const struct options *options)
{
	return add_pids(pids, options) && add_cgroups(cgroups, options);
}
