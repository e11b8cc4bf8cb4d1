// SPDX-License-Identifier: Apache-2.0
/*
 * The load of tracer/bench/latency.py: 4 KiB of a file are read (O_DIRECT), or written and synced, one at a time, each
 * timed as its caller sees it. What the device took of each is told by peers/device_time.py, through a map; the rest is
 * software's. Arguments: read or fsync, the file, the shared memory (struct shared), the file descriptor of that map.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define MOST 16384 /* I/Os of a window */

/* latency.py has the same. */
struct shared {
	uint32_t window; /* latency.py: the number of the window that is measured, 0 = none */
	uint32_t seen;	 /* this one: the number that it goes by */
	uint32_t count;
	uint32_t not_told; /* of which nobody knows the device's time: it had no interrupt, or others' I/O came between */
	uint32_t software_ns[MOST];
	uint32_t whole_ns[MOST];
};

struct device_time { /* until now */
	uint64_t device_ns;
	uint64_t interrupts;
};

static void *map(int fd, size_t bytes, int protection)
{
	void *mapped = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return mapped;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void note(volatile struct shared *shared, uint64_t whole_ns, uint64_t device_ns, bool told)
{
	if (shared->seen == 0 || shared->count == MOST)
		return;
	if (!told || device_ns > whole_ns) {
		shared->not_told++;
		return;
	}
	shared->software_ns[shared->count] = whole_ns - device_ns;
	shared->whole_ns[shared->count++] = whole_ns;
}

static bool move_block(int file, bool writes, void *block, off_t offset)
{
	if (writes)
		return pwrite(file, block, BLOCK_BYTES, offset) == BLOCK_BYTES && !fsync(file);
	return pread(file, block, BLOCK_BYTES, offset) == BLOCK_BYTES;
}

int main(int argc, char **argv)
{
	int file = argc == 5 ? open(argv[2], !strcmp(argv[1], "fsync") ? O_RDWR : O_RDONLY | O_DIRECT) : -1;
	int memory = argc == 5 ? open(argv[3], O_RDWR) : -1;
	volatile const struct device_time *device;
	volatile struct shared *shared;
	struct stat stat;
	uint64_t number = 88172645463325252ULL; /* Marsaglia's xorshift */
	bool writes = argc == 5 && !strcmp(argv[1], "fsync");
	void *block;

	if (file < 0 || memory < 0 || fstat(file, &stat) || stat.st_size < BLOCK_BYTES ||
	    posix_memalign(&block, BLOCK_BYTES, BLOCK_BYTES)) {
		perror("one-at-a-time read|fsync FILE MEMORY FD");
		return 1;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	shared = map(memory, sizeof(*shared), PROT_READ | PROT_WRITE);
	device = map(atoi(argv[4]), sizeof(*device), PROT_READ);
	memset(block, 1, BLOCK_BYTES);
	for (;;) {
		uint32_t window = shared->window;
		uint64_t device_ns = device->device_ns, interrupts = device->interrupts, begin_ns, whole_ns;

		if (window != shared->seen) {
			if (window)
				shared->count = shared->not_told = 0;
			shared->seen = window;
		}
		number ^= number << 13;
		number ^= number >> 7;
		number ^= number << 17;
		begin_ns = now_ns();
		if (!move_block(file, writes, block, number % (stat.st_size / BLOCK_BYTES) * BLOCK_BYTES)) {
			perror(argv[2]);
			return 1;
		}
		whole_ns = now_ns() - begin_ns;
		device_ns = device->device_ns - device_ns;
		interrupts = device->interrupts - interrupts;
		note(shared, whole_ns, device_ns, interrupts == 1 || (writes && interrupts));
	}
}
