// SPDX-License-Identifier: Apache-2.0
#include "kernel_types.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * Called by libbpf in the place of bpf_btf_get_next_id (see the Makefile). On a kernel without bpf_rdonly_cast, before 6.2,
 * it looks for it in the modules, whose types only CAP_SYS_ADMIN may list, and libbpf 1.1 takes the refusal for a failure.
 * For us no module can be seen then, and the weak symbol is just not there.
 */
int __real_bpf_btf_get_next_id(__u32 start_id, __u32 *next_id);
int __wrap_bpf_btf_get_next_id(__u32 start_id, __u32 *next_id);

int __wrap_bpf_btf_get_next_id(__u32 start_id, __u32 *next_id)
{
	int error = __real_bpf_btf_get_next_id(start_id, next_id);

	if (error && errno == EPERM) {
		errno = ENOENT;
		return -ENOENT;
	}
	return error;
}

/*
 * Likewise. A call of a function that the kernel lacks is never reached (`can_cast`), and since 5.16 (a5d827275241) the
 * kernel takes it for what it is. Before, it looks for the function even so: it is made an ordinary instruction.
 */
int __real_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license, const struct bpf_insn *program,
			 size_t count, const struct bpf_prog_load_opts *options);
int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license, const struct bpf_insn *program,
			 size_t count, const struct bpf_prog_load_opts *options);

int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license, const struct bpf_insn *program,
			 size_t count, const struct bpf_prog_load_opts *options)
{
	const struct bpf_insn call = {.code = BPF_JMP | BPF_CALL, .src_reg = BPF_PSEUDO_KFUNC_CALL};
	const struct bpf_insn nothing = {.code = BPF_ALU64 | BPF_MOV | BPF_K};
	struct bpf_insn *loaded = malloc(count * sizeof(*loaded));
	int fd;

	if (!loaded)
		abort();
	for (size_t i = 0; i < count; i++)
		loaded[i] = memcmp(&program[i], &call, sizeof(call)) == 0 ? nothing : program[i];
	fd = __real_bpf_prog_load(type, name, license, loaded, count, options);
	free(loaded);
	return fd;
}

/* Parsed once: it takes 20 ms and some megabytes. */
static struct btf *kernel;

static struct btf *kernel_btf(void)
{
	if (!kernel)
		kernel = btf__load_vmlinux_btf();
	return kernel;
}

static bool kernel_has(const char *name, __u32 kind, const char *const *modules)
{
	bool found;

	if (!kernel_btf())
		return false;
	found = btf__find_by_name_kind(kernel, name, kind) > 0;
	for (; !found && modules && *modules; modules++) {
		struct btf *module = btf__load_module_btf(*modules, kernel);

		found = module && btf__find_by_name_kind(module, name, kind) > 0;
		btf__free(module);
	}
	return found;
}

bool kernel_has_tracepoint(const char *name, const char *const *modules)
{
	char type[64];

	snprintf(type, sizeof(type), "btf_trace_%s", name);
	return kernel_has(type, BTF_KIND_TYPEDEF, modules);
}

/* Of the functions that it calls, whose first parameter is the probe's own. */
static const struct btf_type *tracepoint_type(const char *name)
{
	const struct btf_type *type;
	char typedef_name[64];
	int id;

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	id = kernel_btf() ? btf__find_by_name_kind(kernel, typedef_name, BTF_KIND_TYPEDEF) : -1;
	if (id < 0)
		return NULL;
	type = btf__type_by_id(kernel, btf__type_by_id(kernel, id)->type); /* a pointer to */
	return btf__type_by_id(kernel, type->type);
}

int kernel_tracepoint_arguments(const char *name)
{
	const struct btf_type *type = tracepoint_type(name);

	return type ? btf_vlen(type) - 1 : -1;
}

bool kernel_tracepoint_takes(const char *name, int argument, const char *type_name)
{
	const struct btf_type *type = tracepoint_type(name);

	if (!type || argument >= btf_vlen(type) - 1)
		return false;
	type = btf__type_by_id(kernel, btf_params(type)[argument + 1].type);
	return strcmp(btf__name_by_offset(kernel, type->name_off), type_name) == 0;
}

/* Also of a struct or union within it that has no name. */
static bool has_member(const struct btf_type *type, const char *member)
{
	const struct btf_member *members = btf_members(type);

	for (int i = 0; btf_is_composite(type) && i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(kernel, members[i].name_off);

		if (strcmp(name, member) == 0 || (!*name && has_member(btf__type_by_id(kernel, members[i].type), member)))
			return true;
	}
	return false;
}

bool kernel_has_member(const char *structure, const char *member)
{
	int id = kernel_btf() ? btf__find_by_name_kind(kernel, structure, BTF_KIND_STRUCT) : -1;

	return id >= 0 && has_member(btf__type_by_id(kernel, id), member);
}

bool kernel_has_function(const char *name, const char *const *modules)
{
	return kernel_has(name, BTF_KIND_FUNC, modules);
}

__u32 kernel_function_id(const char *name)
{
	int id = kernel_btf() ? btf__find_by_name_kind(kernel, name, BTF_KIND_FUNC) : -1;

	return id > 0 ? id : 0;
}

__u32 kernel_enumerator(const char *name, __u32 otherwise)
{
	__u32 types = kernel_btf() ? btf__type_cnt(kernel) : 0;

	for (__u32 id = 1; id < types; id++) {
		const struct btf_type *type = btf__type_by_id(kernel, id);
		const struct btf_enum *values = btf_enum(type);

		if (!btf_is_enum(type))
			continue;
		for (int i = 0; i < btf_vlen(type); i++)
			if (strcmp(btf__name_by_offset(kernel, values[i].name_off), name) == 0)
				return values[i].val;
	}
	return otherwise;
}

bool kernel_suits_core(void)
{
	return access("/sys/kernel/btf/vmlinux", F_OK) == 0 && kernel_has_member("request_queue", "disk");
}

bool kernel_preempts_programs(void)
{
	struct utsname system;

	return uname(&system) == 0 && atoi(system.release) >= 7;
}

/* Not every machine has mounted tracefs, which would tell, too. */
bool kernel_has_raw_tracepoint(const char *name)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "strata_try", "GPL", program, 2, NULL);
	int link = fd < 0 ? -1 : bpf_raw_tracepoint_open(name, fd);

	if (link >= 0)
		close(link);
	if (fd >= 0)
		close(fd);
	return link >= 0;
}

void kernel_addresses(const char *const *names, __u64 *addresses, size_t count)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address;
	char name[256];

	while (file && fscanf(file, "%llx %*c %255s%*[^\n]", &address, name) == 2)
		for (size_t i = 0; i < count; i++)
			if (strcmp(name, names[i]) == 0)
				addresses[i] = address;
	if (file)
		fclose(file);
}

bool kernel_shows_addresses(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address = 0;
	bool shown = false;

	if (!file)
		return false;
	while (!shown && fscanf(file, "%llx %*[^\n]", &address) == 1)
		shown = address;
	fclose(file);
	return shown;
}

void kernel_forget(void)
{
	btf__free(kernel);
	kernel = NULL;
}
