// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "claim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clock.h"
#include "older.h"
#include "say.h"

#define GIBIBYTE (1LL << 30)
#define TRIES 8
#define PIPE_PAUSE_US 20000
#define WRITE_PAUSE_MS 100
#define GIVE_UP_NS 1000000000LL
#define ENDING_BYTES 9 /* of names that stand for it: FILE.json.new, FILE.new, FILE.12345678 */

static int refuse(const struct claim *claim, const char *todo, const char *why)
{
	complain(todo, why, "--%s %s", claim->option, claim->path);
	return EXIT_OUTPUT;
}

static bool is_of_kind(const char *path, mode_t kind)
{
	struct stat status;

	return stat(path, &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

static bool is_link(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* The signals that end a trace are blocked, so they end no system call. */
static bool is_to_end(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
					     sigismember(&pending, SIGHUP));
}

/*
 * A pipe is waited for until somebody reads it. It is not to be opened for reading: the other end would seem to be there.
 */
static int open_there(const char *path)
{
	int fd;

	while ((fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644)) < 0 && errno == ENXIO &&
	       is_of_kind(path, S_IFIFO) && !is_to_end())
		usleep(PIPE_PAUSE_US);
	return fd; /* of a pipe it stays O_NONBLOCK, for claim_write(); a regular file does not know it */
}

static bool open_or_make(struct claim *claim)
{
	claim->fd = open(claim->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	claim->created = claim->fd >= 0;
	if (claim->fd < 0 && errno == EEXIST)
		claim->fd = open_there(claim->path);
	claim->is_open = claim->fd >= 0;
	return claim->is_open;
}

bool claim_is_named(const struct claim *claim, const char *path)
{
	struct stat opened, named;

	return claim->is_open && claim->is_file && fstat(claim->fd, &opened) == 0 && stat(path, &named) == 0 &&
	       named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static int lock(struct claim *claim)
{
	if (flock(claim->fd, LOCK_EX | LOCK_NB) == 0)
		return EXIT_OK;
	if (errno != EWOULDBLOCK)
		return refuse(claim, "name a file that can be locked (flock)", strerror(errno));
	claim->created = false; /* it is the other one's */
	return refuse(claim, "let that end first, or name another file",
		      "another tracer or option writes this file, or somebody reads it");
}

static int open_locked(struct claim *claim)
{
	struct stat opened = {0};
	int code;

	for (int i = 0; i < TRIES; i++) {
		if (!open_or_make(claim) && errno == ENXIO && is_of_kind(claim->path, S_IFIFO))
			return refuse(claim, "let somebody read it", "nobody reads this pipe");
		if (!claim->is_open || fstat(claim->fd, &opened) != 0)
			return refuse(claim, "name a file in a directory that can be written", strerror(errno));
		claim->is_file = S_ISREG(opened.st_mode);
		if (!claim->is_file)
			return EXIT_OK;
		code = lock(claim);
		/* The tracer that had it locked may have given it another name meanwhile. */
		if (code != EXIT_OK || claim_is_named(claim, claim->path))
			return code;
		close(claim->fd);
		claim->is_open = false;
	}
	return refuse(claim, "name another file", "it is replaced all the time");
}

/* A name that is cut off may be the file's own, which the status would then replace. */
static bool leaves_room_for_endings(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t length = strlen(path), name_length = slash ? strlen(slash + 1) : length;

	return length + ENDING_BYTES < PATH_MAX && name_length + ENDING_BYTES <= NAME_MAX;
}

int claim_open(struct claim *claim, const char *option, const char *path, const struct options *options)
{
	int code;

	*claim = (struct claim){.option = option, .fd = -1};
	snprintf(claim->path, sizeof(claim->path), "%s", path);
	if (!leaves_room_for_endings(path))
		return refuse(claim, "name a file with a shorter path", strerror(ENAMETOOLONG));
	if (is_of_kind(path, S_IFBLK))
		return refuse(claim, "name a file", "it is a disk, and would be overwritten");
	code = open_locked(claim);
	if (code != EXIT_OK || !options->rotate_bytes)
		return code;
	if (claim->is_file && is_link(path))
		return refuse(claim, "name the file itself",
			      "the link would become the older file, and the next one stay here (--rotate-bytes)");
	if (older_are_there(path))
		return refuse(claim, "move them away, or name another file",
			      "beside it are files .1, .2 ... of another trace, or .new, as this one calls its own (--rotate-bytes)");
	return code;
}

int claim_begin(struct claim *claim)
{
	if (claim->is_file && ftruncate(claim->fd, 0) != 0)
		return refuse(claim, "name another file", strerror(errno));
	claim->begun = true;
	return EXIT_OK;
}

/* `fresh` has the file's name now, and the file has the name `older`. False, with errno: nothing has changed. */
static bool change_names(const struct claim *claim, const char *fresh, const char *older)
{
	int error;

	if (renameat2(AT_FDCWD, fresh, AT_FDCWD, claim->path, RENAME_EXCHANGE) == 0) {
		if (renameat2(AT_FDCWD, fresh, AT_FDCWD, older, RENAME_NOREPLACE) == 0)
			return true;
		error = errno;
		renameat2(AT_FDCWD, fresh, AT_FDCWD, claim->path, RENAME_EXCHANGE);
		errno = error;
		return false;
	}
	/* File systems that cannot exchange names (NFS) have files of several. */
	if (errno != EINVAL || link(claim->path, older) != 0)
		return false;
	if (rename(fresh, claim->path) == 0)
		return true;
	error = errno;
	unlink(older);
	errno = error;
	return false;
}

bool claim_rotate(struct claim *claim, const char *older)
{
	char fresh[PATH_MAX + 8];
	int fd, error;

	if (!claim_is_named(claim, claim->path)) { /* taken away, and perhaps another one's by now */
		errno = ENOENT;
		return false;
	}
	snprintf(fresh, sizeof(fresh), "%s.new", claim->path);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); /* what is there is somebody's */
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) { /* another tracer's, or another option's */
		error = errno;
		close(fd);
		errno = error;
		return false;
	}
	if (change_names(claim, fresh, older)) {
		close(claim->fd);
		claim->fd = fd;
		return true;
	}
	error = errno;
	close(fd);
	unlink(fresh);
	errno = error;
	return false;
}

static _Atomic long long end_ns; /* of the trace; 0: not known */

void claims_end_at(long long mono_ns)
{
	end_ns = mono_ns;
}

/* Whether it is to be waited for no longer. */
static bool gives_up(void)
{
	long long now = clock_now(CLOCK_MONOTONIC);

	/* Who would take the signal may be waiting for the writer. */
	if (is_to_end() && (!end_ns || end_ns > now))
		claims_end_at(now);
	return end_ns && now - end_ns > GIVE_UP_NS;
}

bool claim_write(const struct claim *claim, const char *bytes, size_t size)
{
	struct pollfd ready = {.fd = claim->fd, .events = POLLOUT};

	while (size) {
		ssize_t n = write(claim->fd, bytes, size);

		if (n >= 0) {
			bytes += n;
			size -= n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return false;
		if (gives_up()) {
			errno = ETIMEDOUT;
			return false;
		}
		poll(&ready, 1, WRITE_PAUSE_MS);
	}
	return true;
}

const char *claim_why(int error)
{
	return error == ETIMEDOUT ? "this pipe is full, and nobody reads it" : strerror(error);
}

bool claim_is_short_of_space(const struct claim *claim, const struct options *options)
{
	struct statvfs system;
	long long block, limit;

	if (!claim->is_open || !claim->is_file || fstatvfs(claim->fd, &system) != 0)
		return false;
	block = system.f_frsize;
	limit = (long long)system.f_blocks * block / 100;
	if (limit > GIBIBYTE)
		limit = GIBIBYTE;
	if (options->min_free_bytes >= 0)
		limit = options->min_free_bytes;
	return (long long)system.f_bavail * block < limit;
}

void claim_close(struct claim *claim)
{
	if (!claim->is_open)
		return;
	if (claim->created && !claim->begun)
		unlink(claim->path);
	close(claim->fd);
	claim->is_open = false;
}
