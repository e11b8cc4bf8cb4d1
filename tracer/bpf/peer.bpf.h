/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Round-trip times and retransmits, apart for each address at the other end of TCP connections. Loaded with --peers. Of both
 * backends.
 */
#ifndef PEER_BPF_H
#define PEER_BPF_H

#include "beside.bpf.h"
#include "device.bpf.h"
#include "histogram.bpf.h"
#include "tcp.bpf.h"

#define FAMILY_INET 2
#define FAMILY_INET6 10

/* False for what is neither IPv4 nor IPv6. */
static __always_inline bool read_address(const struct sock *sock, struct iotrace_address *address)
{
	const struct sock_common *common = &sock->__sk_common;
	__u16 family = PEEK(sock_common, common, skc_family);
	__u32 inet;

	if (family == FAMILY_INET) {
		address->bytes[10] = address->bytes[11] = 0xff;
		inet = PEEK(sock_common, common, skc_daddr);
		__builtin_memcpy(&address->bytes[12], &inet, sizeof(inet));
		return true;
	}
	return family == FAMILY_INET6 && read_address_6(common, address);
}

/* When there are too many: the entry of all others, whose address is 0. */
static __always_inline struct iotrace_peer *peer_of(const struct sock *sock)
{
	struct iotrace_address address = {};
	struct iotrace_peer *peer;

	if (!switched_on || !read_address(sock, &address))
		return NULL;
	peer = bpf_map_lookup_elem(&peers, &address);
	if (peer)
		return peer;
	peer_begin(&address);
	peer = bpf_map_lookup_elem(&peers, &address);
	if (peer)
		return peer;
	address = (struct iotrace_address){};
	return bpf_map_lookup_elem(&peers, &address);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(peer_segment, struct sock *sock)
{
	struct iotrace_peer *peer = peer_of(sock);

	if (peer)
		fine_add_shared(&peer->rtt_us, rtt_us(sock));
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(peer_retransmit, struct sock *sock, struct sk_buff *buffer)
{
	struct iotrace_peer *peer = in_retrans_segs(ctx) ? peer_of(sock) : NULL;

	if (peer)
		__sync_fetch_and_add(&peer->retransmits, segments_of(buffer));
	return 0;
}

#endif
