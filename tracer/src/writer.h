/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that does one thing after another that may have to wait for a disk. The logs are read meanwhile. */
#ifndef WRITER_H
#define WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* The first member of what is to be done; `run` frees it. */
struct job {
	void (*run)(struct job *job);
	struct job *next;
};

struct writer {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct job *first, *last; /* those not begun */
	unsigned unfinished;
	bool began, ends;
	pid_t tid;
};

/* 0 or an errno. */
int writer_begin(struct writer *writer);

/* Waits while too much is unfinished. */
void writer_put(struct writer *writer, struct job *job);

/* Until all that was put is done. */
void writer_wait(struct writer *writer);

/* Waits, too. May be called when it has not begun. */
void writer_end(struct writer *writer);

#endif
