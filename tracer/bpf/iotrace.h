/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What BPF and user space share: the record of one request, and the counters of one device.
 * The record is also the format of the output file (docs/tracer.md), so any change of it is a new
 * version of that file. All integers are little-endian; times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef IOTRACE_H
#define IOTRACE_H

#include <linux/types.h>

#define IOTRACE_COMM_BYTES 16
#define IOTRACE_SYSCALLS 512 /* system call numbers above this are not looked at */
#define IOTRACE_MAX_CGROUPS 16

/* A layer, or another value, that was not seen. A real duration never comes near it. */
#define IOTRACE_EMPTY 0xffffffffffffffffULL

enum iotrace_mode { /* the group in which the kernel counts the request in diskstats */
	IOTRACE_READ = 0,
	IOTRACE_WRITE = 1,
	IOTRACE_DISCARD = 2,
	IOTRACE_FLUSH = 3,
};

enum iotrace_origin {
	IOTRACE_OTHER = 0,
	IOTRACE_SYSCALL = 1,
	IOTRACE_WRITEBACK = 2,
	IOTRACE_JOURNAL = 3,
	IOTRACE_IO_URING = 4,
};

enum iotrace_flags {
	IOTRACE_SYNC = 1,  /* somebody waits for it: reads, and writes marked so */
	IOTRACE_OWNED = 2, /* pid, tid, comm, cgroup_id are known */
	IOTRACE_FUA = 4,
	IOTRACE_PREFLUSH = 8, /* the device had to flush before it */
	IOTRACE_META = 16,    /* file system metadata */
};

/* offset: field. 112 bytes, no holes. */
struct iotrace_record {
	__u64 start_ns;	    /*   0: begin of the first layer that is there */
	__u64 vfs_ns;	    /*   8: system call entered -> bio queued */
	__u64 block_ns;	    /*  16: bio queued -> first command issued for it */
	__u64 driver_ns;    /*  24 */
	__u64 device_ns;    /*  32: issued -> completed */
	__u64 scheduler_ns; /*  40: the part of block_ns spent in the I/O scheduler; not a layer */
	__u64 sector;	    /*  48: first 512-byte sector */
	__u64 cgroup_id;    /*  56 */
	__u64 inode;	    /*  64: 0 = unknown */
	__u32 size_bytes;   /*  72 */
	__u32 device;	    /*  76: major << 20 | minor */
	__u32 pid;	    /*  80: process (thread group) */
	__u32 tid;	    /*  84: thread */
	char comm[IOTRACE_COMM_BYTES]; /* 88: of the thread */
	__u8 mode;	    /* 104: enum iotrace_mode */
	__u8 origin;	    /* 105: enum iotrace_origin */
	__u8 flags;	    /* 106: enum iotrace_flags */
	__u8 status;	    /* 107: blk_status_t, 0 = no error */
	__u16 bios;	    /* 108: bios merged into this request, at least 1; 0 for a bare flush */
	__u16 requeues;	    /* 110: how often the driver gave it back */
};

_Static_assert(sizeof(struct iotrace_record) == 112, "the file format has changed");

/* Why a request that the kernel counted gave no record. */
enum iotrace_excluded {
	IOTRACE_EX_IN_FLIGHT_AT_START = 0, /* began before the trace was switched on */
	IOTRACE_EX_FILTERED,		   /* not of the processes or cgroups asked for */
	IOTRACE_EX_PASSTHROUGH,		   /* SCSI or NVMe command from user space */
	IOTRACE_EX_UNTRACKED,		   /* its way through the block layer was not seen */
	IOTRACE_EX_COMPLETION_NOT_SEEN,	   /* issued, then gone: no tracepoint fired at its completion */
	IOTRACE_EX_NOT_IN_DISKSTATS,	   /* the other way round: a record, but the kernel did not count it */
	IOTRACE_EX_COUNT,
};

/* Per device and per CPU. While the trace is off, only `idle` moves. */
struct iotrace_counters {
	__u64 idle; /* requests counted by the kernel while the trace was off */
	__u64 completions;
	__u64 emitted;
	__u64 dropped;
	__u64 excluded[IOTRACE_EX_COUNT];
};

/*
 * What is known about a bio or a request that is under way. User space looks at the flights that are left
 * at the end.
 */
enum iotrace_flight_flags {
	FLIGHT_SELECTED = 1, /* the task passes the filters */
	FLIGHT_DONE = 2,     /* its completion has been dealt with */
	FLIGHT_PREFLUSH = 4,
	FLIGHT_FUA = 8,
	FLIGHT_COUNTED = 16, /* a request that diskstats will count, and the driver has it */
};

struct iotrace_flight {
	__u64 key; /* address of the bio or request, 0 = free */
	__u64 touched_ns;
	__u64 generation; /* start_time_ns of the request: tells it from an older one at the same address */
	__u64 enter_ns;
	__u64 queue_ns;
	__u64 insert_ns;
	__u64 issue_ns;
	__u64 cgroup_id;
	__u64 inode;
	__u64 pid_tgid;
	char comm[IOTRACE_COMM_BYTES];
	__u32 bytes;
	__u32 device;
	__u16 bios;
	__u16 requeues;
	__u8 origin;
	__u8 flags;
};

#define IOTRACE_WAYS 4
#define IOTRACE_BUCKET_BITS 13

struct iotrace_bucket {
	struct iotrace_flight way[IOTRACE_WAYS];
};

enum iotrace_call { /* what a system call means to the tracer */
	IOTRACE_CALL_NONE = 0,
	IOTRACE_CALL_TIMED,    /* its entry begins the VFS layer */
	IOTRACE_CALL_SUBMIT,   /* submits many requests at once: origin is known, no VFS time */
	IOTRACE_CALL_IO_URING, /* the same, origin io_uring */
};

#endif
