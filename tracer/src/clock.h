/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks: CLOCK_MONOTONIC, which the kernel's records carry, and unix time. */
#ifndef CLOCK_H
#define CLOCK_H

#include <linux/types.h>
#include <time.h>

struct anchor {
	long long unix_ns, mono_ns;
};

static inline long long clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Both clocks at the same instant: of several readings the one taken in the shortest time. */
static inline struct anchor clock_anchor(void)
{
	struct anchor anchor = {0, 0};
	long long best = 1LL << 62;

	for (int i = 0; i < 16; i++) {
		long long first = clock_now(CLOCK_MONOTONIC);
		long long unix_ns = clock_now(CLOCK_REALTIME);
		long long last = clock_now(CLOCK_MONOTONIC);

		if (last - first < best) {
			best = last - first;
			anchor = (struct anchor){unix_ns, first + (last - first) / 2};
		}
	}
	return anchor;
}

static inline long long clock_to_unix(const struct anchor *anchor, long long mono_ns)
{
	return mono_ns - anchor->mono_ns + anchor->unix_ns;
}

#endif
