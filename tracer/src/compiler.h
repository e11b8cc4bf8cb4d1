/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler of the BCC backend, and the headers of the running kernel that it needs. */
#ifndef COMPILER_H
#define COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * Programs that were compiled against headers of another kernel read wrong fields without any sign of it. False:
 * there are none of exactly the running kernel; `why` says what was found. `given`: the directory of --kernel-headers
 * or NULL.
 */
bool compiler_has_headers(const char *given, const char **why);

/* Reads struct compiled_program and instructions, as often as there are any; NULL: `why` says what was wrong. */
FILE *compiler_run(const char *given, const char *text, size_t length, const char **why);

#endif
