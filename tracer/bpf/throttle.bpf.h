/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Bios that the limits of their cgroups (io.max) hold back before they are queued: CO-RE only. */
#ifndef THROTTLE_BPF_H
#define THROTTLE_BPF_H

#include "request.bpf.h"

/* Set before loading: the bit of bio.bi_flags that says that it was queued before, which a rest that was split off was. */
const volatile __u32 queued_bit;

/* Called for cgroups with a limit only. Of the register that holds the bool only the first byte is known. */
SEC("fexit/__blk_throtl_bio")
int BPF_PROG(throttled, struct bio *bio, __u8 is_held)
{
	struct iotrace_flight *flight;

	if (!follows || !is_held || FIELD(bio, bi_flags) & 1U << (queued_bit & 15))
		return 0;
	flight = bio_comes(ctx, bio, bpf_ktime_get_ns());
	if (flight)
		flight->event.flags |= IOTRACE_THROTTLED | FLIGHT_HELD;
	return 0;
}

#endif
