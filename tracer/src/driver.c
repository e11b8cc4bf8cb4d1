// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* basename() that leaves its argument alone */
#include "driver.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_types.h"
#include "kprobe.h"

static const char *const NVME_MODULES[] = {"nvme_core", NULL};
static const char *const SCSI_MODULES[] = {"scsi_mod", NULL};
static const char *const VIRTIO_MODULES[] = {"virtio_blk", NULL};

/* ---- what the kernel offers ---- */

/* Locked-down kernels refuse it; the only way to know is to try. */
static bool can_attach_to_functions(void)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY);
	int fd, link = -1;

	options.attach_btf_id = kernel_function_id("blk_mq_complete_request_remote");
	if (!options.attach_btf_id)
		return false;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "strata_try", "GPL", program, 2, &options);
	if (fd < 0)
		return false;
	link = bpf_raw_tracepoint_open(NULL, fd);
	if (link >= 0)
		close(link);
	close(fd);
	return link >= 0;
}

/* Programs for modules need their BTF, which is handed out to CAP_SYS_ADMIN only. */
static bool can_attach_to_modules(void)
{
	__u32 id;

	return bpf_btf_get_next_id(0, &id) == 0;
}

static void probe_core(struct driver_support *support)
{
	/* The other one until 5.15: called for all bios, not for those of cgroups with a limit only. */
	const char *throttler = kernel_has_function("__blk_throtl_bio", NULL) ? "__blk_throtl_bio" :
				kernel_has_function("blk_throtl_bio", NULL)   ? "blk_throtl_bio" :
										 NULL;
	bool functions = can_attach_to_functions();

	*support = (struct driver_support){
		.modules = can_attach_to_modules(),
		.irq = kernel_has_tracepoint("irq_handler_entry", NULL),
		.throttler = functions ? throttler : NULL,
		.hides_throttling = throttler && !functions,
	};
	if (!support->modules)
		return;
	support->nvme = kernel_has_tracepoint("nvme_setup_cmd", NVME_MODULES) &&
			kernel_has_tracepoint("nvme_sq", NVME_MODULES);
	support->scsi = kernel_has_tracepoint("scsi_dispatch_cmd_start", SCSI_MODULES) &&
			kernel_has_tracepoint("scsi_dispatch_cmd_done", SCSI_MODULES);
	support->fentry = functions && kernel_has_function("virtio_queue_rq", VIRTIO_MODULES);
	support->fentry_batch = support->fentry && kernel_has_function("virtio_queue_rqs", VIRTIO_MODULES);
}

/* Tracepoints of modules since 5.0. */
static void probe_bcc(struct driver_support *support)
{
	*support = (struct driver_support){
		.modules = true,
		.nvme = kernel_has_raw_tracepoint("nvme_setup_cmd") && kernel_has_raw_tracepoint("nvme_sq"),
		.scsi = kernel_has_raw_tracepoint("scsi_dispatch_cmd_start") &&
			kernel_has_raw_tracepoint("scsi_dispatch_cmd_done"),
		.irq = kernel_has_raw_tracepoint("irq_handler_entry"),
	};
}

static void keep_only(struct driver_support *support, int tracing)
{
	support->nvme &= tracing == IOTRACE_NVME;
	support->scsi &= tracing == IOTRACE_SCSI;
	support->fentry &= tracing == IOTRACE_FENTRY;
	support->kprobe &= tracing == IOTRACE_KPROBE;
	support->irq &= tracing == IOTRACE_IRQ;
}

void driver_probe(struct driver_support *support, const struct options *options)
{
	if (options->backend == BACKEND_BCC)
		probe_bcc(support);
	else
		probe_core(support);
	support->kprobe = true; /* which function depends on the disk: kprobe_possible */
	if (options->tracing != ANY_TRACING)
		keep_only(support, options->tracing);
}

/* ---- disks ---- */

/* The last part of what the link /sys/block/DISK/LINK points to; "" when there is none. */
static void linked_name(const char *disk, const char *link, char name[NAME_MAX + 1])
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), "/sys/block/%s/%s", disk, link);
	length = readlink(path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = 0;
	snprintf(name, NAME_MAX + 1, "%s", basename(target));
}

/* On PCI: nvme_sq is of that driver, and over a network or in memory (nvme-tcp, nvme-loop) there are other ones. */
static bool is_nvme(const char *disk)
{
	char path[PATH_MAX], transport[16] = "pcie";
	FILE *file;

	if (strncmp(disk, "nvme", 4) != 0)
		return false;
	snprintf(path, sizeof(path), "/sys/block/%s/device/transport", disk);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%15s", transport) != 1)
			transport[0] = 0;
		fclose(file);
	}
	return strcmp(transport, "pcie") == 0;
}

bool driver_is(const char *disk, const char *link, const char *wanted)
{
	char name[NAME_MAX + 1];

	linked_name(disk, link, name);
	return strcmp(name, wanted) == 0;
}

static bool has_irqs(const char *disk)
{
	__u32 *irqs = calloc(IOTRACE_IRQS, sizeof(*irqs));
	bool found;

	if (!irqs)
		abort();
	found = driver_irqs(disk, 1, irqs);
	free(irqs);
	return found;
}

static bool has_kprobes(const char *disk)
{
	const struct driver_functions *functions = kprobe_functions(disk);

	return functions && kprobe_possible(functions);
}

static bool offers(const struct driver_support *support, const char *disk, enum iotrace_tracing mode)
{
	switch (mode) {
	case IOTRACE_NVME:
		return support->nvme && is_nvme(disk);
	case IOTRACE_SCSI:
		return support->scsi && driver_is(disk, "device/subsystem", "scsi");
	case IOTRACE_FENTRY:
		return support->fentry && driver_is(disk, "device/driver", "virtio_blk");
	case IOTRACE_KPROBE:
		return support->kprobe && has_kprobes(disk);
	case IOTRACE_IRQ:
		return support->irq && has_irqs(disk);
	default:
		return false;
	}
}

enum iotrace_tracing driver_mode(const struct driver_support *support, const char *disk)
{
	static const enum iotrace_tracing BEST_FIRST[] = {IOTRACE_NVME, IOTRACE_SCSI, IOTRACE_FENTRY, IOTRACE_KPROBE,
							  IOTRACE_IRQ};

	for (size_t i = 0; i < sizeof(BEST_FIRST) / sizeof(BEST_FIRST[0]); i++)
		if (offers(support, disk, BEST_FIRST[i]))
			return BEST_FIRST[i];
	return IOTRACE_BLOCK;
}

/* What the names of a disk's interrupts begin with: "virtio1-req.0", "nvme0q3". False: they belong to others, too. */
static bool irq_prefix(const char *disk, char prefix[NAME_MAX + 2])
{
	char name[NAME_MAX + 1];

	linked_name(disk, "device", name);
	if (is_nvme(disk))
		snprintf(prefix, NAME_MAX + 2, "%sq", name);
	else if (driver_is(disk, "device/driver", "virtio_blk"))
		snprintf(prefix, NAME_MAX + 2, "%s", name);
	else
		return false;
	return *name;
}

/* "virtio1" is the prefix of "virtio1-req.0" and of itself (one interrupt for all), not of "virtio10". */
static bool is_irq_of(const char *prefix, const char *name)
{
	size_t length = strlen(prefix);

	if (strncmp(name, prefix, length) != 0)
		return false;
	return prefix[length - 1] == 'q' || !isdigit((unsigned char)name[length]);
}

bool driver_irqs(const char *disk, __u32 id, __u32 device_of_irq[IOTRACE_IRQS])
{
	char prefix[NAME_MAX + 2], *line = NULL;
	FILE *file;
	size_t size = 0;
	bool found = false;

	if (!irq_prefix(disk, prefix))
		return false;
	file = fopen("/proc/interrupts", "re");
	if (!file)
		return false;
	while (getline(&line, &size, file) > 0) {
		char *end = line + strlen(line), *name;
		unsigned irq;

		while (end > line && isspace((unsigned char)end[-1]))
			*--end = 0;
		name = strrchr(line, ' ');
		if (!name || sscanf(line, "%u:", &irq) != 1 || irq >= IOTRACE_IRQS || !is_irq_of(prefix, name + 1))
			continue;
		device_of_irq[irq] = id;
		found = true;
	}
	free(line);
	fclose(file);
	return found;
}

/* ---- completions that interrupt one another ---- */

/*
 * The kernel completes the requests of a disk in its softirq when the disk has one queue, which several CPUs share, and
 * where the driver runs otherwise: blk_mq_complete_request_remote(). Softirqs do not interrupt each other. Other drivers
 * than these have not been looked at.
 */
static bool ends_in_softirq(const char *cpu_list)
{
	char disk[NAME_MAX + 1], cpus[256] = "";
	unsigned queue;
	FILE *file;

	if (sscanf(cpu_list, "/sys/block/%255[^/]/mq/%u/", disk, &queue) != 2 || queue != 0)
		return false;
	if (strncmp(disk, "loop", 4) != 0 && !driver_is(disk, "device/driver", "virtio_blk"))
		return false;
	file = fopen(cpu_list, "re");
	if (!file)
		return false;
	if (!fgets(cpus, sizeof(cpus), file))
		cpus[0] = 0;
	fclose(file);
	return strchr(cpus, ',');
}

bool driver_completions_nest(void)
{
	glob_t queues;
	bool nest = glob("/sys/block/*/mq/*/cpu_list", 0, NULL, &queues) != 0;

	for (size_t i = 0; !nest && i < queues.gl_pathc; i++)
		nest = !ends_in_softirq(queues.gl_pathv[i]);
	globfree(&queues);
	return nest;
}

/* ---- words ---- */

const char *driver_mode_name(enum iotrace_tracing mode)
{
	static const char *const NAMES[IOTRACE_TRACINGS] = {"block", "irq", "nvme", "scsi", "fentry", "kprobe"};

	return NAMES[mode];
}

const char *driver_not_visible(enum iotrace_tracing mode, int wanted)
{
	static const char *const WHY[IOTRACE_TRACINGS] = {
		[IOTRACE_BLOCK] = "no tracepoint, function or interrupt of this driver can be attached to; "
				  "its time is part of block and device",
		[IOTRACE_IRQ] = "submission: its time is part of block and device; "
				"the driver layer is interrupt to completion",
		[IOTRACE_SCSI] = "the host adapter's driver: its time is part of device",
		[IOTRACE_FENTRY] = "interrupt entry until the driver found the request: its time is part of device",
		[IOTRACE_KPROBE] = "interrupt entry until the driver found the request: its time is part of device",
	};

	if (mode == IOTRACE_BLOCK && wanted != ANY_TRACING)
		return "left out (--tracing); its time is part of block and device";
	return WHY[mode];
}
