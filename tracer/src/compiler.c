// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "compiler.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "strata-bcc-compile"

static char reason[2048];

static const char *running_release(void)
{
	static struct utsname system;

	uname(&system);
	return system.release;
}

/* What the user named; NULL: where distributions put them, which libbcc finds by itself, also when it is two trees. */
static const char *named_directory(const char *given)
{
	const char *named = given ? given : getenv("BCC_KERNEL_SOURCE");

	return named && *named ? named : NULL;
}

/* The release that the headers are of; "" when they do not say. */
static void read_release(const char *directory, char release[128])
{
	char *path;
	FILE *file;

	if (asprintf(&path, "%s/include/generated/utsrelease.h", directory) < 0)
		abort();
	file = fopen(path, "re");
	free(path);
	if (!file || fscanf(file, "#define UTS_RELEASE \"%127[^\"]\"", release) != 1)
		release[0] = 0;
	if (file)
		fclose(file);
}

bool compiler_has_headers(const char *given, const char **why)
{
	const char *running = running_release(), *directory = named_directory(given);
	char usual[128], release[128];

	if (!directory) {
		snprintf(usual, sizeof(usual), "/lib/modules/%.100s/build", running);
		directory = usual;
	}
	read_release(directory, release);
	if (strcmp(release, running) == 0)
		return true;
	snprintf(reason, sizeof(reason),
		 "the bcc backend needs the headers of this kernel, %s, or it would read wrong fields, and %.1000s %s%s "
		 "(install the package linux-headers-%s or kernel-devel-%s, or name their directory with --kernel-headers)",
		 running, directory, release[0] ? "has those of " : "has none", release, running, running);
	*why = reason;
	return false;
}

/* The first line that tells of an error, else the last one. */
static void explain(FILE *said)
{
	char *line = NULL;
	size_t size = 0;

	snprintf(reason, sizeof(reason), PROGRAM " has failed");
	rewind(said);
	while (getline(&line, &size, said) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			snprintf(reason, sizeof(reason), PROGRAM ": %.400s", line);
		if (strstr(line, "error:") || strstr(line, "libbcc"))
			break;
	}
	free(line);
	if (strstr(reason, "libbcc"))
		strncat(reason, " (install the package libbpfcc or bcc)", sizeof(reason) - strlen(reason) - 1);
}

/* In the new process. */
static void become_compiler(const char *directory, FILE *in, FILE *out, FILE *said)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM));
	char *slash;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(fileno(in), 0) < 0 || dup2(fileno(out), 1) < 0 || dup2(fileno(said), 2) < 0)
		_exit(127);
	if (directory)
		setenv("BCC_KERNEL_SOURCE", directory, 1);
	path[length < 0 ? 0 : length] = 0;
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, PROGRAM);
	execl(path, PROGRAM, (char *)NULL);
	dprintf(2, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

static FILE *memory_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	return fd < 0 ? NULL : fdopen(fd, "w+");
}

FILE *compiler_run(const char *given, const char *text, size_t length, const char **why)
{
	FILE *in = memory_file("text"), *out = memory_file("programs"), *said = memory_file("errors");
	int status = -1;
	pid_t child;

	if (!in || !out || !said || fwrite(text, length, 1, in) != 1 || fflush(in) != 0)
		abort(); /* out of memory */
	rewind(in);
	signal(SIGCHLD, SIG_DFL); /* who starts us may ignore it, and then how it ended cannot be asked for */
	child = fork();
	if (child == 0)
		become_compiler(named_directory(given), in, out, said);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	*why = NULL;
	if (status != 0) {
		explain(said);
		*why = reason;
		fclose(out);
		out = NULL;
	} else {
		rewind(out);
	}
	fclose(in);
	fclose(said);
	return out;
}
