// SPDX-License-Identifier: Apache-2.0
/*
 * strata-bcc-compile: C text on standard input, compiled by libbcc against the kernel headers that BCC_KERNEL_SOURCE
 * names, comes out as BPF programs: for each a struct compiled_program and its instructions. A process of its own,
 * because the compiler takes 150 MB that the tracer shall not keep, and because the tracer is a static program,
 * which cannot load a library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiled.h"

#define LIBRARY "libbcc.so.0"
#define EXIT_NO_LIBRARY 3 /* tracer/guests/job.py: no fault of the programs */

/* bcc/bcc_common.h; its package for developers need not be there. Older versions take fewer arguments. */
struct library {
	void *(*create)(const char *text, unsigned flags, const char *options[], int option_count, bool allow_rlimit,
			const char *device);
	size_t (*count)(void *module);
	const char *(*name)(void *module, size_t index);
	void *(*start)(void *module, size_t index);
	size_t (*bytes)(void *module, size_t index);
	unsigned (*kern_version)(void *module);
};

static bool load(struct library *library)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return false;
	}
	*(void **)&library->create = dlsym(handle, "bpf_module_create_c_from_string");
	*(void **)&library->count = dlsym(handle, "bpf_num_functions");
	*(void **)&library->name = dlsym(handle, "bpf_function_name");
	*(void **)&library->start = dlsym(handle, "bpf_function_start_id");
	*(void **)&library->bytes = dlsym(handle, "bpf_function_size_id");
	*(void **)&library->kern_version = dlsym(handle, "bpf_module_kern_version");
	if (library->create && library->count && library->name && library->start && library->bytes &&
	    library->kern_version)
		return true;
	fprintf(stderr, LIBRARY ": another library than that of BCC\n");
	return false;
}

static char *read_all(FILE *file)
{
	size_t size = 0, room = 1 << 16, got;
	char *text = malloc(room);

	while (text && (got = fread(text + size, 1, room - size - 1, file)) > 0) {
		size += got;
		if (room - size == 1)
			text = realloc(text, room *= 2);
	}
	if (text)
		text[size] = 0;
	return text;
}

/* The compiler itself may write to standard output; ours is elsewhere by then. */
static bool write_programs(const struct library *library, void *module, FILE *out)
{
	for (size_t i = 0; i < library->count(module); i++) {
		struct compiled_program program = {
			.bytes = library->bytes(module, i),
			.kern_version = library->kern_version(module),
		};

		snprintf(program.name, sizeof(program.name), "%s", library->name(module, i));
		if (fwrite(&program, sizeof(program), 1, out) != 1 ||
		    fwrite(library->start(module, i), program.bytes, 1, out) != 1)
			return false;
	}
	return fclose(out) == 0;
}

int main(void)
{
	static const char *OPTIONS[] = {"-Wno-unused-parameter", "-Wno-int-conversion"};
	int original = dup(STDOUT_FILENO);
	FILE *out = original < 0 ? NULL : fdopen(original, "w");
	char *text = read_all(stdin);
	struct library library;
	void *module;

	if (!out || !text || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		perror("strata-bcc-compile");
		return EXIT_FAILURE;
	}
	if (!load(&library))
		return EXIT_NO_LIBRARY;
	module = library.create(text, 0, OPTIONS, sizeof(OPTIONS) / sizeof(OPTIONS[0]), false, NULL);
	if (!module)
		return EXIT_FAILURE; /* it has said why */
	return write_programs(&library, module, out) ? EXIT_SUCCESS : EXIT_FAILURE;
}
