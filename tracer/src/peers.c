// SPDX-License-Identifier: Apache-2.0
#include "peers.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "fine.h"
#include "say.h"

int peers_open(struct peers_file *peers, const struct options *options)
{
	*peers = (struct peers_file){0};
	if (!options->peers)
		return EXIT_OK;
	peers->known = calloc(IOTRACE_PEERS, sizeof(*peers->known));
	if (!peers->known)
		abort();
	return csv_open(&peers->csv, "peers", options->peers, options);
}

static void write_columns(FILE *file)
{
	fputs("t_unix_ns,t_mono_ns,interval_ns,peer,tcp_rtt_samples,tcp_rtt_mean_us,tcp_rtt_p50_us,tcp_rtt_p99_us,"
	      "tcp_retransmits\n",
	      file);
}

int peers_write_columns(struct peers_file *peers)
{
	return csv_begin(&peers->csv, write_columns);
}

void peers_begin(struct peers_file *peers, long long mono_ns)
{
	peers->last_mono_ns = mono_ns;
}

/* Never full: the kernel keeps no more of them, and none ever goes. */
static struct iotrace_peer *last_known(struct peers_file *peers, const struct iotrace_address *address)
{
	for (size_t i = 0; i < peers->count; i++)
		if (memcmp(&peers->known[i].address, address, sizeof(*address)) == 0)
			return &peers->known[i].counted;
	peers->known[peers->count] = (struct known_peer){.address = *address};
	return &peers->known[peers->count++].counted;
}

/* An IPv4 address as such; all others together have the address 0. */
static const char *name_of(const struct iotrace_address *address, char text[INET6_ADDRSTRLEN])
{
	static const struct iotrace_address OTHERS, MAPPED = {{[10] = 0xff, [11] = 0xff}};

	if (memcmp(address, &OTHERS, sizeof(OTHERS)) == 0)
		return "others";
	if (memcmp(address, &MAPPED, 12) == 0)
		return inet_ntop(AF_INET, &address->bytes[12], text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, address->bytes, text, INET6_ADDRSTRLEN);
}

void peers_peer(struct peers_file *peers, const struct iotrace_address *address, const struct iotrace_peer *now,
		const struct anchor *anchor, long long mono_ns)
{
	struct iotrace_peer *before = last_known(peers, address);
	FILE *file = peers->csv.file;
	char text[INET6_ADDRSTRLEN];

	if (now->rtt_us.count == before->rtt_us.count && now->retransmits == before->retransmits)
		return;
	fprintf(file, "%lld,%lld,%lld,%s,%llu", clock_to_unix(anchor, mono_ns), mono_ns,
		mono_ns - peers->last_mono_ns, name_of(address, text),
		(unsigned long long)(now->rtt_us.count - before->rtt_us.count));
	fine_write(file, &now->rtt_us, &before->rtt_us);
	fprintf(file, ",%llu\n", (unsigned long long)(now->retransmits - before->retransmits));
	*before = *now;
}

bool peers_end(struct peers_file *peers, long long mono_ns)
{
	peers->last_mono_ns = mono_ns;
	return csv_flush(&peers->csv);
}

void peers_close(struct peers_file *peers)
{
	csv_close(&peers->csv);
	free(peers->known);
	*peers = (struct peers_file){0};
}
