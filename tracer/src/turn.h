/* SPDX-License-Identifier: Apache-2.0 */
/* When this process gets a CPU to read the logs: in time, on a machine with more threads than CPUs, too. */
#ifndef TURN_H
#define TURN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct turn {
	pid_t writer;		/* the thread that must keep up with this one */
	bool may_go_first;	/* has the right to go before other threads */
	unsigned late_in_a_row; /* how often it has just come late */
};

void turn_begin(struct turn *turn, pid_t writer);

/* Sleeps, less than a second; from when it comes late it goes before other threads. False: one of the signals has come. */
bool turn_await(struct turn *turn, const sigset_t *signals, long long pause_ns);

#endif
