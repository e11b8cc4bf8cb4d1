/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of the BCC backend: loaded as the compiler wrote them, and attached. */
#ifndef BCC_PROGRAMS_H
#define BCC_PROGRAMS_H

#include <stdbool.h>
#include <stdio.h>

#include "device.h"
#include "driver.h"
#include "kprobe.h"
#include "options.h"

#define BCC_MAX_PROGRAMS 40

struct bcc_programs {
	struct bcc_program {
		char name[64];
		int fd, link; /* -1 = none: see kprobes */
	} list[BCC_MAX_PROGRAMS];
	size_t count;
	struct kprobes kprobes;
};

/* `compiled`: struct compiled_program and instructions; where these name a map by its number its descriptor is put. */
bool bcc_programs_attach(struct bcc_programs *programs, FILE *compiled, const int *maps, const struct options *options,
			 const struct devices *devices, const struct driver_support *support, const char **why);

void bcc_programs_close(struct bcc_programs *programs);

bool bcc_uses_irqs(const struct devices *devices);

#endif
