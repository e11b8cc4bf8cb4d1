/* SPDX-License-Identifier: Apache-2.0 */
/* An open hash table from small keys of one size to numbers that are never 0. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdbool.h>
#include <linux/types.h>

struct table {
	size_t key_bytes;
	size_t used, capacity; /* a power of two */
	unsigned char *keys;
	__u32 *numbers; /* 0 = free */
};

/* The number of `key`, which must have no holes that are not zero. 0: not there, `where` is its place. */
__u32 table_find(struct table *table, const void *key, size_t *where);

/* Right after table_find() has not found it. */
void table_add(struct table *table, const void *key, size_t where, __u32 number);

/* Each number becomes `now[number]`; keys of those that become 0 go, and so does what memory they took. `now[0]` is 0. */
void table_renumber(struct table *table, const __u32 *now);

void table_clear(struct table *table);
void table_free(struct table *table);

#endif
