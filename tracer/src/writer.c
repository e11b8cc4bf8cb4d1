// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "writer.h"

#include <unistd.h>

/*
 * Of at most 64 KiB each: 130,000 records, 0.4 s at 300,000 a second, may wait besides those in the logs. A disk that
 * others write to may take that long: replacing the status waited up to 502 ms for ext4, a write of 64 KiB 232 ms where
 * more was dirty than the kernel likes (balance_dirty_pages).
 */
#define MOST_UNFINISHED 128

static struct job *take(struct writer *writer)
{
	struct job *job = writer->first;

	writer->first = job->next;
	if (!writer->first)
		writer->last = NULL;
	return job;
}

static void *work(void *context)
{
	struct writer *writer = context;
	struct job *job;

	pthread_mutex_lock(&writer->mutex);
	writer->tid = gettid();
	pthread_cond_broadcast(&writer->changed);
	for (;;) {
		while (!writer->first && !writer->ends)
			pthread_cond_wait(&writer->changed, &writer->mutex);
		if (!writer->first)
			break;
		job = take(writer);
		pthread_mutex_unlock(&writer->mutex);
		job->run(job);
		pthread_mutex_lock(&writer->mutex);
		writer->unfinished--;
		if (!writer->unfinished || writer->unfinished == MOST_UNFINISHED - 1)
			pthread_cond_broadcast(&writer->changed);
	}
	pthread_mutex_unlock(&writer->mutex);
	return NULL;
}

int writer_begin(struct writer *writer)
{
	int error;

	*writer = (struct writer){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	error = pthread_create(&writer->thread, NULL, work, writer);
	writer->began = !error;
	if (error)
		return error;
	pthread_mutex_lock(&writer->mutex);
	while (!writer->tid)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	pthread_mutex_unlock(&writer->mutex);
	return 0;
}

void writer_put(struct writer *writer, struct job *job)
{
	bool idle;

	job->next = NULL;
	pthread_mutex_lock(&writer->mutex);
	while (writer->unfinished >= MOST_UNFINISHED)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	if (writer->last)
		writer->last->next = job;
	else
		writer->first = job;
	writer->last = job;
	idle = !writer->unfinished++;
	pthread_mutex_unlock(&writer->mutex);
	if (idle)
		pthread_cond_broadcast(&writer->changed);
}

void writer_wait(struct writer *writer)
{
	pthread_mutex_lock(&writer->mutex);
	while (writer->unfinished)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	pthread_mutex_unlock(&writer->mutex);
}

void writer_end(struct writer *writer)
{
	if (!writer->began)
		return;
	pthread_mutex_lock(&writer->mutex);
	writer->ends = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->mutex);
	pthread_join(writer->thread, NULL);
	writer->began = false;
}
