/* SPDX-License-Identifier: Apache-2.0 */
/* What strata-bcc-compile writes for each program, before its instructions. */
#ifndef COMPILED_H
#define COMPILED_H

#include <linux/types.h>

struct compiled_program {
	char name[64]; /* also that of its tracepoint, if it has one */
	__u32 bytes;
	__u32 kern_version; /* LINUX_VERSION_CODE; kernels before 5.0 ask for it with kprobes */
};

#endif
