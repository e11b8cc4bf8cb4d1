/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes, and the one form of all messages. */
#ifndef SAY_H
#define SAY_H

#include <stdio.h>

enum exit_code {
	EXIT_OK = 0,
	EXIT_USAGE = 2,
	EXIT_CANNOT_TRACE = 3,
	EXIT_OUTPUT = 4,
};

/* One line on standard error: what failed, why, and what to do about it. */
#define complain(todo, why, ...)                                                                                      \
	do {                                                                                                          \
		fputs("strata-iotrace: ", stderr);                                                                    \
		fprintf(stderr, __VA_ARGS__);                                                                         \
		fprintf(stderr, ": %s: %s\n", why, todo);                                                             \
	} while (0)

#endif
