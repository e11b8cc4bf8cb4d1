// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* basename() that leaves its argument alone */
#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "say.h"

#define LIST_THE_DEVICES "ls /sys/block shows the disks of this machine"

static bool exists(const char *directory, const char *name, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s", directory, name, file);
	return access(path, F_OK) == 0;
}

/* Only blk-mq disks have requests; others (zram, device mapper, partitions) hand bios on. */
static bool has_requests(const char *name)
{
	return exists("/sys/block", name, "mq");
}

/* The paths of NVMe multipath are hidden: no `dev` in sysfs, but the kernel counts for them. */
static bool read_hidden_id(const char *name, __u32 *id)
{
	FILE *file = fopen("/proc/diskstats", "re");
	unsigned major_number, minor_number;
	char found[DEVICE_NAME_BYTES];
	bool ok = false;

	while (!ok && file && fscanf(file, "%u %u %63s%*[^\n]", &major_number, &minor_number, found) == 3)
		ok = strcmp(found, name) == 0;
	if (file)
		fclose(file);
	*id = ok ? major_number << 20 | minor_number : 0;
	return ok;
}

static bool read_id(const char *name, __u32 *id)
{
	char path[PATH_MAX];
	unsigned major_number, minor_number;
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/sys/block/%s/dev", name);
	file = fopen(path, "re");
	if (!file)
		return read_hidden_id(name, id);
	ok = fscanf(file, "%u:%u", &major_number, &minor_number) == 2;
	fclose(file);
	*id = major_number << 20 | minor_number;
	return ok;
}

struct device *devices_find(struct devices *devices, __u32 id)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].id == id)
			return &devices->list[i];
	return NULL;
}

/* sysfs numbers its directories in turn (kernfs). What diskseq counts are media. */
unsigned long long device_identity(const char *name)
{
	char path[PATH_MAX];
	struct stat status;

	snprintf(path, sizeof(path), "/sys/block/%s/", name);
	return stat(path, &status) == 0 ? status.st_ino : 0;
}

static struct device *append(struct devices *devices, const char *name, __u32 id)
{
	struct device *list = realloc(devices->list, (devices->count + 1) * sizeof(*list));
	struct device *device;

	if (!list)
		abort();
	devices->list = list;
	device = &list[devices->count++];
	*device = (struct device){.id = id, .identity = device_identity(name)};
	snprintf(device->name, sizeof(device->name), "%s", name);
	return device;
}

/* The name under /sys/class/block of what `spec` names, or false with the reason. */
static bool class_name(const char *spec, char *name, const char **why)
{
	unsigned long major_number, minor_number; /* wider than any, lest a larger one wrap to a disk's */
	char path[PATH_MAX], target[PATH_MAX];
	struct stat status;
	int end = 0;
	ssize_t length;

	if (strchr(spec, '/')) {
		if (stat(spec, &status) != 0) {
			*why = strerror(errno);
			return false;
		}
		if (!S_ISBLK(status.st_mode)) {
			*why = "not a block device";
			return false;
		}
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(status.st_rdev), minor(status.st_rdev));
	} else if (sscanf(spec, "%lu:%lu%n", &major_number, &minor_number, &end) == 2 && !spec[end]) {
		snprintf(path, sizeof(path), "/sys/dev/block/%lu:%lu", major_number, minor_number);
	} else {
		snprintf(path, sizeof(path), "/sys/class/block/%s", spec);
	}
	length = *spec ? readlink(path, target, sizeof(target) - 1) : -1;
	if (length < 0) {
		*why = "no such block device";
		return false;
	}
	target[length] = 0;
	snprintf(name, DEVICE_NAME_BYTES, "%.*s", DEVICE_NAME_BYTES - 1, basename(target));
	return true;
}

/* The disk that a partition is part of. */
static bool whole_disk(const char *partition, char *name)
{
	char path[PATH_MAX], target[PATH_MAX], *end;
	ssize_t length;

	snprintf(path, sizeof(path), "/sys/class/block/%s", partition);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = 0;
	end = strrchr(target, '/');
	if (!end)
		return false;
	*end = 0;
	snprintf(name, DEVICE_NAME_BYTES, "%.*s", DEVICE_NAME_BYTES - 1, basename(target));
	return true;
}

static bool choose(struct devices *devices, const char *name)
{
	struct device *device;
	__u32 id;

	if (!read_id(name, &id))
		return false;
	device = devices_find(devices, id);
	if (!device)
		device = append(devices, name, id);
	device->chosen = true;
	return true;
}

/* nvme1c0n2 is the path of nvme1n2 through controller 0. */
static bool is_path_of(const char *head, const char *disk)
{
	unsigned subsystem, of_subsystem, namespace, of_namespace;

	return sscanf(head, "nvme%un%u", &subsystem, &namespace) == 2 &&
	       sscanf(disk, "nvme%uc%*un%u", &of_subsystem, &of_namespace) == 2 && subsystem == of_subsystem &&
	       namespace == of_namespace;
}

static bool add_head(struct devices *devices, const char *name)
{
	__u32 *heads = realloc(devices->heads, (devices->head_count + 1) * sizeof(*heads));

	if (!heads)
		abort();
	devices->heads = heads;
	return read_id(name, &heads[devices->head_count++]);
}

/* The disks behind `name` when that is one of NVMe multipath, also of a drive for several controllers that has one. */
static bool choose_paths(struct devices *devices, const char *name)
{
	DIR *directory = opendir("/sys/block");
	struct dirent *entry;
	bool any = false;

	while (directory && (entry = readdir(directory)))
		if (is_path_of(name, entry->d_name) && has_requests(entry->d_name))
			any |= choose(devices, entry->d_name);
	if (directory)
		closedir(directory);
	return any && add_head(devices, name);
}

static bool choose_below(struct devices *devices, const char *name, int layers);

/* The disks below a volume. */
static bool choose_parts(struct devices *devices, const char *name, int layers)
{
	bool any = false, all = true;
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *parts;

	snprintf(path, sizeof(path), "/sys/class/block/%s/slaves", name);
	parts = opendir(path);
	while (parts && all && (entry = readdir(parts))) {
		if (entry->d_name[0] == '.')
			continue;
		any = true;
		all = choose_below(devices, entry->d_name, layers);
	}
	if (parts)
		closedir(parts);
	return any && all;
}

#define MAX_LAYERS 16 /* of partitions and volumes on each other */

/*
 * The disks whose requests carry what goes to `name`: itself, or those below a partition, volume or multipath. False:
 * not all of that goes through requests.
 */
static bool choose_below(struct devices *devices, const char *name, int layers)
{
	char disk[DEVICE_NAME_BYTES];

	if (has_requests(name))
		return choose(devices, name);
	if (layers == 0)
		return false;
	if (exists("/sys/class/block", name, "partition"))
		return whole_disk(name, disk) && choose_below(devices, disk, layers - 1);
	return choose_parts(devices, name, layers - 1) || choose_paths(devices, name);
}

int devices_add(struct devices *devices, const char *spec)
{
	char name[DEVICE_NAME_BYTES];
	const char *why;

	if (!class_name(spec, name, &why)) {
		complain(LIST_THE_DEVICES, why, "--device %s", spec);
		return EXIT_USAGE;
	}
	if (!choose_below(devices, name, MAX_LAYERS)) {
		complain(LIST_THE_DEVICES, "it, or a disk below it, has no requests to time or has gone", "--device %s", spec);
		return EXIT_CANNOT_TRACE;
	}
	return EXIT_OK;
}

void devices_add_all(struct devices *devices)
{
	DIR *directory = opendir("/sys/block");
	struct dirent *entry;
	__u32 id;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.' || !has_requests(entry->d_name) || !read_id(entry->d_name, &id))
			continue;
		if (!devices_find(devices, id))
			append(devices, entry->d_name, id);
	}
	closedir(directory);
}

struct device *devices_find_or_add(struct devices *devices, __u32 id)
{
	struct device *device = devices_find(devices, id);
	char name[32];

	if (device)
		return device;
	devices_add_all(devices);
	device = devices_find(devices, id);
	if (device)
		return device;
	snprintf(name, sizeof(name), "%u:%u", device_major(id), device_minor(id));
	return append(devices, name, id);
}

/* The columns of Documentation/block/stat.rst; the last ones came with 4.18 and 5.5. */
bool diskstats_read(const struct device *device, struct diskstats *stats)
{
	char path[PATH_MAX];
	FILE *file;
	int fields;

	*stats = (struct diskstats){0};
	snprintf(path, sizeof(path), "/sys/block/%s/stat", device->name);
	file = fopen(path, "re");
	if (!file)
		return false;
	fields = fscanf(file, "%llu %*u %llu %*u %llu %*u %llu %*u %llu %*u %*u %llu %*u %llu %*u %llu", &stats->reads,
			&stats->read_sectors, &stats->writes, &stats->written_sectors, &stats->in_flight,
			&stats->discards, &stats->discarded_sectors, &stats->flushes);
	fclose(file);
	stats->known = fields >= 5;
	return stats->known;
}

static bool is_busy(const struct device *device)
{
	unsigned reads = 0, writes = 0;
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/inflight", device->name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%u %u", &reads, &writes) != 2)
		reads = 0;
	fclose(file);
	return reads || writes;
}

bool devices_awaited(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->list[i].never_completed && is_busy(&devices->list[i]))
			return true;
	return false;
}

void devices_free(struct devices *devices)
{
	free(devices->list);
	free(devices->heads);
	*devices = (struct devices){0};
}
