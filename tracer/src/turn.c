// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "turn.h"

#include <sys/resource.h>

#include "clock.h"

#define HIGHEST_NICE (-20)
#define LATE_NS 5000000LL
#define VERY_LATE_NS 20000000LL
#define MOST_LATE_IN_A_ROW 2 /* once may be the host, which has taken the virtual CPU away */

void turn_begin(struct turn *turn, pid_t writer)
{
	int nice = getpriority(PRIO_PROCESS, 0);

	turn->writer = writer;
	turn->may_go_first =
		setpriority(PRIO_PROCESS, 0, HIGHEST_NICE) == 0 && setpriority(PRIO_PROCESS, 0, nice) == 0;
}

/*
 * Where hundreds of threads want to run it is our turn after 100 ms and more, and the logs may be full by then: of 400,000
 * reads by 500 threads on two CPUs 20,000 to 184,000 were dropped in five of nine runs, and none with the highest priority.
 * Not always, because it costs a load of two threads on two CPUs 1 % of its rate (docs/tracer-cost.md).
 */
bool turn_await(struct turn *turn, const sigset_t *signals, long long pause_ns)
{
	struct timespec pause = {.tv_nsec = pause_ns};
	long long due_ns = clock_now(CLOCK_MONOTONIC) + pause_ns, late_ns;

	if (sigtimedwait(signals, NULL, &pause) >= 0)
		return false;
	late_ns = clock_now(CLOCK_MONOTONIC) - due_ns;
	turn->late_in_a_row = late_ns < LATE_NS ? 0 : turn->late_in_a_row + 1;
	if (late_ns >= VERY_LATE_NS || turn->late_in_a_row == MOST_LATE_IN_A_ROW) {
		setpriority(PRIO_PROCESS, 0, HIGHEST_NICE); /* of one thread, with Linux (setpriority(2)) */
		setpriority(PRIO_PROCESS, turn->writer, HIGHEST_NICE);
	}
	return true;
}
