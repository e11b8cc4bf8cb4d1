// SPDX-License-Identifier: Apache-2.0
/*
 * Linked to the tracer's own objects instead of nothing (make alternating): SIGUSR1 detaches its programs, the next one
 * attaches them again, and each time a line says so to the file descriptor in STRATA_READY. All else goes on. Windows
 * with and without it can then be a tenth of a second apart, and a shared machine does not change much in that time.
 * Not for tracing: what happens meanwhile is in no sum. Kprobes stay attached.
 */
#define _GNU_SOURCE
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int __real_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);
int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);
int __real_bpf_object__attach_skeleton(struct bpf_object_skeleton *skeleton);
int __wrap_bpf_object__attach_skeleton(struct bpf_object_skeleton *skeleton);

static struct bpf_object_skeleton *attached;
static bool is_attached;
static int answers = -1;

/* Before main(): the tracer closes that file descriptor when it is ready. */
__attribute__((constructor)) static void prepare(void)
{
	const char *fd = getenv("STRATA_READY");
	sigset_t alternate;

	answers = fd ? dup(atoi(fd)) : -1;
	sigemptyset(&alternate);
	sigaddset(&alternate, SIGUSR1);
	sigprocmask(SIG_BLOCK, &alternate, NULL);
}

int __wrap_bpf_object__attach_skeleton(struct bpf_object_skeleton *skeleton)
{
	attached = skeleton;
	is_attached = true;
	return __real_bpf_object__attach_skeleton(skeleton);
}

static void alternate(void)
{
	if (is_attached)
		bpf_object__detach_skeleton(attached);
	else if (__real_bpf_object__attach_skeleton(attached))
		exit(1);
	is_attached = !is_attached;
	if (dprintf(answers, "%s\n", is_attached ? "on" : "off") < 0)
		exit(1);
}

/* What the tracer does between two looks at its logs. */
int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	sigset_t all = *set;
	int which;

	sigaddset(&all, SIGUSR1);
	which = __real_sigtimedwait(&all, info, timeout);
	if (which != SIGUSR1)
		return which;
	alternate();
	errno = EAGAIN;
	return -1;
}
