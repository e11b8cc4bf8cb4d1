/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both the context and the peers ask of TCP. */
#ifndef TCP_BPF_H
#define TCP_BPF_H

#include "peek.bpf.h"

static __always_inline __u32 rtt_us(const struct sock *sock)
{
	return PEEK(tcp_sock, sock, srtt_us) >> 3;
}

/* A buffer is sent as up to 64 KiB, cut further down: RetransSegs, too, adds the segments, not the buffers. */
static __always_inline __u32 segments_of(const struct sk_buff *buffer)
{
	return PEEK(tcp_skb_cb, &buffer->cb, tcp_gso_segs);
}

#endif
