/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of the output file (docs/tracer-file.md); any change is a new version of it. Behind the header stand
 * slots of 64 bytes, little-endian. A slot whose byte 53 is printable ASCII is text: slots of text hold
 * definitions, one JSON object each, which end with a newline and always come before the records that refer
 * to them. A slot whose byte 53 is IOTRACE_RETURN tells of a system call that has returned. All others are
 * records of requests.
 */
#ifndef RECORD_H
#define RECORD_H

#include <linux/types.h>

#include "iotrace.h"

#define RECORD_VERSION 3

enum record_duration { VFS, BLOCK, DRIVER, DEVICE, SCHEDULER, DURATIONS };

/* A duration is low[i] + (high[i] << 32) nanoseconds; all bits set = not seen; up to 18 minutes. */
#define DURATION_EMPTY 0xffffffffffULL

/* offset: field. 64 bytes, no holes. */
struct record {
	__u64 start_ns;	      /*  0: begin of the first layer that is there (none: the end), CLOCK_MONOTONIC */
	__u64 sector;	      /*  8: first 512-byte sector */
	__u32 low[DURATIONS]; /* 16: of vfs, block, driver, device, scheduler */
	__u32 size_bytes;     /* 36 */
	__u32 task;	      /* 40: number of a task definition, 0 = unknown */
	__u32 file;	      /* 44: number of a file definition, 0 = unknown */
	__u8 high[DURATIONS]; /* 48 */
	__u8 mode;	      /* 53: enum iotrace_mode */
	__u16 device;	      /* 54: number of a device definition */
	__u8 origin;	      /* 56: enum iotrace_origin */
	__u8 flags;	      /* 57: enum iotrace_flags */
	__u8 status;	      /* 58: blk_status_t, 0 = no error */
	__u8 tracing;	      /* 59: enum iotrace_tracing */
	__u16 bios;	      /* 60: bios merged into this request, at least 1; 0 for a bare flush */
	__u16 requeues;	      /* 62: how often the driver gave it back */
};

/*
 * With --vfs: a call that had requests with records. They are those of the same task whose VFS layer begins at
 * `start_ns`; the one that ends `waited_ns` later is the last. Stands anywhere before or behind them.
 */
struct return_record {
	__u64 start_ns;	   /*  0: entry of the call */
	__u64 duration_ns; /*  8: until the return to the caller */
	__u64 waited_ns;   /* 16: until the last of its requests was complete; NOT_WAITED: it did not wait for all */
	__u64 bytes;	   /* 24: of its bios */
	__u32 bios;	   /* 32: queued within it */
	__u32 requests;	   /* 36: complete when it returned */
	__u32 task;	   /* 40 */
	__u32 unused;	   /* 44 */
	__u8 kind;	   /* 48: enum iotrace_call */
	__u8 unused_too[4]; /* 49 */
	__u8 mode;	   /* 53: IOTRACE_RETURN */
	__u8 padding[10];  /* 54 */
};

#define NOT_WAITED (~0ULL)
#define SLOT_BYTES 64

_Static_assert(sizeof(struct record) == SLOT_BYTES, "the file format has changed");
_Static_assert(sizeof(struct return_record) == SLOT_BYTES, "the file format has changed");
_Static_assert(__builtin_offsetof(struct return_record, mode) == __builtin_offsetof(struct record, mode),
	       "what tells slots apart");

/* Fills everything but the numbers of definitions. */
void record_fill(struct record *record, const struct iotrace_event *event);

/* Of these, those with an end before its beginning, which must not be. */
unsigned long long records_negative(void);

void return_record_fill(struct return_record *record, const struct iotrace_return *event);

#endif
