/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process counts processes and time as the kernel's records do. */
#ifndef NAMESPACES_H
#define NAMESPACES_H

#include <stdbool.h>

/* Not in a container that has process numbers of its own. */
bool namespaces_share_pids(void);

/* Not in a time namespace whose CLOCK_MONOTONIC is ahead or behind. */
bool namespaces_share_time(void);

#endif
