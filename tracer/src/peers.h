/* SPDX-License-Identifier: Apache-2.0 */
/* --peers: each second a line of CSV for each address that TCP segments came from. Columns: docs/tracer-context.md. */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "clock.h"
#include "csv.h"
#include "iotrace.h"

/* What was known of an address when its last line was written. */
struct known_peer {
	struct iotrace_address address;
	struct iotrace_peer counted;
};

struct peers_file {
	struct csv csv;
	struct known_peer *known;
	size_t count;
	long long last_mono_ns;
};

/* Return an exit code and say why not. When none are asked for, nothing is ever written. */
int peers_open(struct peers_file *peers, const struct options *options);
int peers_write_columns(struct peers_file *peers);

/* Lines are about the time since the one before. */
void peers_begin(struct peers_file *peers, long long mono_ns);

/* The line about one address; none when nothing has come from there and nothing was sent again. */
void peers_peer(struct peers_file *peers, const struct iotrace_address *address, const struct iotrace_peer *now,
		const struct anchor *anchor, long long mono_ns);

/* The lines of this second are written; false when they cannot be. */
bool peers_end(struct peers_file *peers, long long mono_ns);

void peers_close(struct peers_file *peers);

#endif
