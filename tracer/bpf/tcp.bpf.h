/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both the context and the peers ask of TCP. Of both backends. */
#ifndef TCP_BPF_H
#define TCP_BPF_H

#include <asm-generic/errno.h>

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

/*
 * Whether RetransSegs has it, too. Where the tracepoint tells of an error it is reached also by what was given up
 * before anything was sent or counted, with one of these. What fails later has been counted: the node's own queue or
 * filter has refused it, or there was no memory for a copy (ENOBUFS).
 */
static __always_inline bool in_retrans_segs(__u64 *tcp_retransmit_skb)
{
	int error = retransmit_tells_error ? (int)tcp_retransmit_skb[2] : 0;

	switch (error) {
	case -EAGAIN:	    /* the other end has shrunk its window */
	case -ENOMEM:	    /* to cut it to size */
	case -EBUSY:	    /* it still is in the node's own queue */
	case -EINVAL:	    /* it was acknowledged */
	case -EHOSTUNREACH: /* no route any more */
		return false;
	default:
		return true;
	}
}

#endif
