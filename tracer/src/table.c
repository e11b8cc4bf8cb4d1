// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024

static __u64 hash_of(const unsigned char *key, size_t bytes)
{
	__u64 hash = 0, word;

	for (; bytes >= sizeof(word); key += sizeof(word), bytes -= sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 32;
	}
	return hash;
}

static void reserve(struct table *table, size_t capacity)
{
	table->capacity = capacity;
	table->used = 0;
	table->keys = malloc(capacity * table->key_bytes);
	table->numbers = calloc(capacity, sizeof(*table->numbers));
	if (!table->keys || !table->numbers)
		abort();
}

/* `now`: see table_renumber(); NULL: numbers stay. */
static void rebuild(struct table *table, size_t capacity, const __u32 *now)
{
	struct table old = *table;
	size_t where;

	reserve(table, capacity);
	for (size_t i = 0; i < old.capacity; i++) {
		const void *key = old.keys + i * old.key_bytes;
		__u32 number = now ? now[old.numbers[i]] : old.numbers[i];

		if (!number)
			continue;
		table_find(table, key, &where);
		table_add(table, key, where, number);
	}
	free(old.keys);
	free(old.numbers);
}

__u32 table_find(struct table *table, const void *key, size_t *where)
{
	if (!table->capacity)
		reserve(table, FIRST_CAPACITY);
	if (table->used * 4 > table->capacity * 3)
		rebuild(table, table->capacity * 2, NULL);
	*where = hash_of(key, table->key_bytes) & (table->capacity - 1);
	for (; table->numbers[*where]; *where = (*where + 1) & (table->capacity - 1))
		if (memcmp(table->keys + *where * table->key_bytes, key, table->key_bytes) == 0)
			return table->numbers[*where];
	return 0;
}

void table_add(struct table *table, const void *key, size_t where, __u32 number)
{
	memcpy(table->keys + where * table->key_bytes, key, table->key_bytes);
	table->numbers[where] = number;
	table->used++;
}

void table_renumber(struct table *table, const __u32 *now)
{
	rebuild(table, FIRST_CAPACITY, now);
}

void table_clear(struct table *table)
{
	if (table->capacity)
		memset(table->numbers, 0, table->capacity * sizeof(*table->numbers));
	table->used = 0;
}

void table_free(struct table *table)
{
	free(table->keys);
	free(table->numbers);
	*table = (struct table){.key_bytes = table->key_bytes};
}
