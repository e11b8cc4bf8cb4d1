/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What BPF and user space share. All times are CLOCK_MONOTONIC nanoseconds; a time of 0 = not seen. */
#ifndef IOTRACE_H
#define IOTRACE_H

#include <linux/types.h>

#define IOTRACE_COMM_BYTES 16
#define IOTRACE_SYSCALLS 512 /* system call numbers above this are not looked at */
#define IOTRACE_MAX_CGROUPS 16
#define IOTRACE_MAX_COMMS 16
#define IOTRACE_MAX_CPUS 1024
#define IOTRACE_IRQS 4096 /* interrupt numbers above this are not looked at */

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

/* How the time between block layer and completion was split; see docs/tracer.md. */
enum iotrace_tracing {
	IOTRACE_BLOCK = 0,  /* no driver layer */
	IOTRACE_IRQ = 1,    /* driver: interrupt -> completion */
	IOTRACE_NVME = 2,   /* driver: nvme_setup_cmd -> issue, nvme_sq -> completion */
	IOTRACE_SCSI = 3,   /* driver: issue -> scsi_dispatch_cmd_start, scsi_dispatch_cmd_done -> completion */
	IOTRACE_FENTRY = 4, /* driver: queue_rq -> issue, blk_mq_complete_request_remote -> completion */
	IOTRACE_KPROBE = 5, /* the same */
	IOTRACE_TRACINGS,
};

/* Why a request that the kernel counted gave no record. */
enum iotrace_excluded {
	IOTRACE_EX_IN_FLIGHT_AT_START = 0, /* began before the trace was switched on */
	IOTRACE_EX_FILTERED,		   /* not what the filters ask for */
	IOTRACE_EX_SAMPLED_OUT,		   /* passed the filters, but is not in the sample */
	IOTRACE_EX_PASSTHROUGH,		   /* SCSI or NVMe command from user space */
	IOTRACE_EX_UNTRACKED,		   /* its way through the block layer was not seen */
	IOTRACE_EX_COMPLETION_NOT_SEEN,	   /* issued, then gone: no tracepoint fired at its completion */
	IOTRACE_EX_NOT_IN_DISKSTATS,	   /* the other way round: a record, but the kernel did not count it */
	IOTRACE_EX_COUNT,
};

/* Per device and per CPU. While the trace is off, only `idle` moves. */
struct iotrace_counters {
	__u64 idle; /* requests counted by the kernel while the trace was off */
	__u64 completions; /* of which records are to be made: user space gets them, or they are */
	__u64 dropped;
	__u64 excluded[IOTRACE_EX_COUNT];
};

#define IOTRACE_DEVICE_BITS 9
#define IOTRACE_DEVICE_SLOTS (1U << IOTRACE_DEVICE_BITS) /* volumes have one, too, when no disks were named */

/* Where the counters of a device are, or the first place to look for it. */
static inline __u32 iotrace_device_slot(__u32 device)
{
	return device * 2654435761U >> (32 - IOTRACE_DEVICE_BITS);
}

/* They are per CPU, but an interrupt may come between reading and writing one. */
static inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/*
 * What it was before. `alone`: no other program writes to it on this CPU. A locked instruction would wait until the flight,
 * which was looked at just before, has come from the CPU that issued the request.
 */
static inline __u64 add_one(__u64 *counter, int alone)
{
	return alone ? (*(volatile __u64 *)counter)++ : __sync_fetch_and_add(counter, 1);
}

/* ---- requests ---- */

enum iotrace_flags { /* the first byte is part of the records */
	IOTRACE_SYNC = 1,  /* somebody waits for it: reads, and writes marked so */
	IOTRACE_OWNED = 2, /* the task is known */
	IOTRACE_FUA = 4,
	IOTRACE_PREFLUSH = 8, /* the device had to flush before it */
	IOTRACE_META = 16,    /* file system metadata */
	IOTRACE_DIRTIER = 32, /* the task dirtied the page; a kernel thread wrote it */
	IOTRACE_THROTTLED = 64, /* waited in the block layer for the limit of its cgroup (io.max) */
	IOTRACE_SWAP = 128,     /* memory that was taken from a process */

	FLIGHT_SELECTED = 256, /* the task passes the filters */
	FLIGHT_DONE = 512,     /* its completion has been dealt with */
	FLIGHT_COUNTED = 1024, /* a request that diskstats will count, and the driver has it */
	FLIGHT_FLUSHED = 2048, /* waited for a flush command: one command does not tell its time in the driver */
	FLIGHT_HELD = 4096,    /* throttled, and still waits */
	FLIGHT_UNTIMED = 8192, /* throttled, and since when and for whom was not seen */
	FLIGHT_PLACED = 16384, /* its sector was noted: the kernel's no longer is where it began */
};

/* Who caused an I/O. */
struct iotrace_task {
	__u64 cgroup_id;
	__u32 pid; /* process (thread group) */
	__u32 tid;
	char comm[IOTRACE_COMM_BYTES];
};

/* What is known about a bio or a request; two cache lines. */
struct iotrace_event {
	__u64 enter_ns;	   /* system call entered */
	__u64 queue_ns;	   /* bio queued */
	__u64 insert_ns;   /* I/O scheduler took it */
	__u64 submit_ns;   /* driver took it */
	__u64 issue_ns;	   /* block_rq_issue */
	__u64 dispatch_ns; /* driver gave it to the device */
	__u64 seen_ns;	   /* driver saw the completion */
	__u64 done_ns;	   /* block_rq_complete */
	struct iotrace_task task;
	__u64 sector;
	__u32 file; /* number of a file that was told in an iotrace_name; 0 = unknown */
	__u32 size_bytes;
	__u32 device; /* major << 20 | minor */
	__u16 flags;  /* enum iotrace_flags */
	__u16 bios;
	__u16 requeues;
	__u8 origin;  /* enum iotrace_origin */
	__u8 tracing; /* enum iotrace_tracing */
	__u8 mode;    /* enum iotrace_mode, or IOTRACE_RETURN: it is an iotrace_return */
	__u8 status;  /* blk_status_t, 0 = no error */
	__u16 wait;   /* of the call that waits for it (return.bpf.h), 0 = none that is looked at; in the log: its lap */
};

_Static_assert(sizeof(struct iotrace_event) == 128, "an event is two cache lines");

#define IOTRACE_RETURN 16

/* With --vfs: a call that had requests has returned. Takes the place of an event. */
struct iotrace_return {
	__u64 enter_ns;
	__u64 exit_ns;
	__u64 done_ns; /* its last request was complete; 0 = some were still under way when it returned */
	__u64 bytes;   /* of its bios */
	__u32 bios;
	__u32 requests; /* that were complete when it returned */
	__u64 unused[3];
	struct iotrace_task task;
	__u64 unused_too[3];
	__u16 unused_more;
	__u8 kind; /* enum iotrace_call */
	__u8 still_unused;
	__u8 mode; /* IOTRACE_RETURN */
	__u8 padding[3];
};

_Static_assert(sizeof(struct iotrace_return) == sizeof(struct iotrace_event), "they share the log");
_Static_assert(__builtin_offsetof(struct iotrace_return, mode) == __builtin_offsetof(struct iotrace_event, mode),
	       "what tells them apart");

/* A bio or request that is under way. User space looks at those that are left at the end. */
struct iotrace_flight {
	__u64 key; /* address of the bio, the request, or a queue that flushes; 0 = free */
	__u64 touched_ns;
	__u64 generation; /* start_time_ns of the request: tells it from an older one at the same address */
	__u64 request;	  /* its address; 0 = that of a bio which is in no request yet */
	struct iotrace_event event;
};

#define IOTRACE_WAYS 4
#define IOTRACE_BUCKET_BITS 13

struct iotrace_bucket {
	struct iotrace_flight way[IOTRACE_WAYS];
};

struct iotrace_interrupt {
	__u64 entry_ns;
	__u32 device;
};

/* ---- what goes to user space ---- */

/*
 * The log of one CPU is a ring without a lock: programs of that CPU take a slot by adding to `reserved`, and
 * write the number of the lap into it when it is filled. User space moves `consumed`.
 */
struct iotrace_head {
	__u64 reserved;
	__u64 consumed;
	__u64 padding[14]; /* CPUs do not share a cache line */
};

/* What stands in a slot that is whole; another number than a lap ago. `number` counts the events of a CPU. */
static inline __u16 iotrace_lap(__u64 number, __u32 log_bits)
{
	return (number >> log_bits) + 1;
}

#define IOTRACE_NESTING 8 /* programs that may interrupt each other on a CPU between look and take */

#define IOTRACE_NAME_BYTES 1024 /* of a path */

/*
 * Programs use the number of a file until so many others have been told, and then tell it anew. User space knows at least
 * the last 5 / 3 times as many, for records come to it later.
 */
#define IOTRACE_FILES_USED (3U << 12)

/* A file, at the first sight of it under this name. */
struct iotrace_name {
	__u64 inode;
	__u32 generation;
	__u32 filesystem; /* s_dev: major << 20 | minor */
	__u32 file;	  /* the number that stands for it */
	__u16 bytes;
	__u8 whole; /* the names reach up to the root of the file system */
	__u8 padding;
	char names[IOTRACE_NAME_BYTES]; /* from the file up to the root, a zero byte after each */
};

/* Where it is put together. */
struct iotrace_name_buffer {
	struct iotrace_name name;
	char behind[256]; /* the last name may begin in the last byte of `names` */
};

/* ---- system calls on files, with --vfs ---- */

enum iotrace_vfs_class { IOTRACE_VFS_READ, IOTRACE_VFS_WRITE, IOTRACE_VFS_SYNC, IOTRACE_VFS_CLASSES };

#define IOTRACE_VFS_BUCKETS 40 /* bucket i: 2^i to 2^(i+1) nanoseconds */

/* Calls that took their whole way. `cached` 1: none of their bios went to a traced disk. */
struct iotrace_vfs {
	__u64 calls, sum_ns;
	__u64 buckets[IOTRACE_VFS_BUCKETS];
};

struct iotrace_vfs_table {
	struct iotrace_vfs cell[IOTRACE_VFS_CLASSES][2];
	__u64 returns; /* of calls with a request of which a record was to be made: user space gets them, or they are */
	__u64 returns_dropped;
};

#define IOTRACE_WAITS 8192 /* tasks that may wait for requests at a time; those of io_uring's requests are behind them */
#define IOTRACE_URING_BUCKET_BITS 12
#define IOTRACE_URING_REQUESTS (IOTRACE_WAYS << IOTRACE_URING_BUCKET_BITS)
#define IOTRACE_URING_PROCESSES 1024

/* ---- what is not I/O, with --context ---- */

#define IOTRACE_FINE_BUCKETS 160 /* four to each power of two */

struct iotrace_fine {
	__u64 count, sum;
	__u64 buckets[IOTRACE_FINE_BUCKETS];
};

#define IOTRACE_WAITING_BUCKET_BITS 13 /* tasks that wait for a CPU */

/* Per CPU, since the start. */
struct iotrace_context {
	struct iotrace_fine run_queue_ns; /* from runnable to running */
	struct iotrace_fine tcp_rtt_us;	  /* smoothed round-trip time, at each segment received */
	__u64 tcp_retransmits;
	__u64 page_cache_added; /* folios: what was not cached, and what was read ahead or written anew */
};

/* ---- spans of requests, with --spans ---- */

enum iotrace_span_call { /* what a system call means to a span */
	IOTRACE_SPAN_NONE = 0,
	IOTRACE_SPAN_RECEIVE, /* when it is on a socket; else as IOTRACE_SPAN_FILE */
	IOTRACE_SPAN_SEND,    /* likewise */
	IOTRACE_SPAN_SENDFILE, /* likewise, but when it is on a socket waits for the disk are those of a file */
	IOTRACE_SPAN_FILE,    /* when it is on a file or disk */
	IOTRACE_SPAN_LOCK,
};

enum iotrace_span_part {
	IOTRACE_SPAN_COMPUTE,	/* on a CPU, not in a call on a file */
	IOTRACE_SPAN_VFS,	/* in a call on a file, on a CPU or waiting before it had requests */
	IOTRACE_SPAN_IO,	/* in a call on a file, waiting after it had requests: block layer and device */
	IOTRACE_SPAN_LOCKED,	/* waiting in a futex */
	IOTRACE_SPAN_RUN_QUEUE, /* runnable without a CPU */
	IOTRACE_SPAN_OTHER,	/* waiting for anything else */
	IOTRACE_SPAN_PARTS,
};

#define IOTRACE_SPAN_PROCESSES 256
#define IOTRACE_SPAN_SOCKETS 16384
#define IOTRACE_SAMPLE_BYTES (256 << 10)

#define IOTRACE_SPAN_ASKED 8

enum iotrace_span_place { IOTRACE_ON_CPU, IOTRACE_ASLEEP, IOTRACE_RUNNABLE };

/* What a thread does for a request. */
struct span {
	__u64 begin_ns; /* 0 = none is open */
	__u64 since_ns; /* of what the thread does now */
	__u64 socket;	/* inode; the request came from there */
	__u64 asked[IOTRACE_SPAN_ASKED]; /* inodes of others on which the thread itself asked for something; 0 = no more */
	__u64 answers;	/* inode; the thread is in a call that may answer what another one received there; 0 = in none */
	__u64 parts[IOTRACE_SPAN_PARTS];
	__u8 place; /* enum iotrace_span_place */
	__u8 call;  /* enum iotrace_span_call: the one it is in, IOTRACE_SPAN_FILE, _SENDFILE, _LOCK or none */
	__u8 waits_for_disk; /* asleep, in IOTRACE_SPAN_SENDFILE */
	__u8 switch_not_seen;
	__u8 asked_too_many; /* an answer cannot be told from a request: it makes no span, and is counted */
	__u8 unused[3];	     /* else a copy would be of bytes that nobody has written, which 5.15 refuses */
};

/* Who received the last request on a socket, by the socket's inode. */
struct receiver {
	__u32 pid, tid;
	__u32 waits;   /* no response yet */
	__u32 sending; /* so many other threads are in a call that may send it */
};

/* Since the start. */
struct iotrace_process {
	struct iotrace_fine total_ns;
	struct iotrace_fine parts_ns[IOTRACE_SPAN_PARTS];
	__u64 handed_over; /* requests that one thread received, and another one went on with or answered */
	__u64 interleaved; /* not answered when their thread received another one elsewhere, or asked on too many sockets */
	__u64 switch_not_seen; /* nobody saw their thread wake up or get a CPU: its times are not known */
};

/* One span, its parts add up to its length. */
struct iotrace_span {
	__u64 begin_ns;
	__u64 socket; /* inode */
	__u64 parts[IOTRACE_SPAN_PARTS];
	__u32 pid, tid;
	char comm[IOTRACE_COMM_BYTES];
};

/* ---- other machines, with --peers ---- */

#define IOTRACE_PEERS 1024 /* addresses; one stands for all that are too many */

struct iotrace_address {
	__u8 bytes[16]; /* IPv6; IPv4 as ::ffff:a.b.c.d */
};

/* Of all CPUs, since the start. */
struct iotrace_peer {
	struct iotrace_fine rtt_us; /* smoothed round-trip time, at each segment received from there */
	__u64 retransmits;
};

/* ---- system calls ---- */

enum iotrace_call { /* what a system call means to the tracer */
	IOTRACE_CALL_NONE = 0,
	IOTRACE_CALL_TIMED,    /* its entry begins the VFS layer */
	IOTRACE_CALL_READ,     /* the same, on a file descriptor, and of a class of --vfs */
	IOTRACE_CALL_WRITE,
	IOTRACE_CALL_SYNC,
	IOTRACE_CALL_SUBMIT,   /* submits many requests at once: origin is known, no VFS time */
	IOTRACE_CALL_IO_URING, /* likewise, origin io_uring; each request is a call of its own */
};

static inline int call_is_timed(__u32 kind)
{
	return kind >= IOTRACE_CALL_TIMED && kind <= IOTRACE_CALL_SYNC;
}

/* With --vfs: whether the call is one on a file that may be read from a disk, and went to a disk that is not traced. */
enum iotrace_on_file { IOTRACE_OFF_FILE, IOTRACE_ON_FILE, IOTRACE_ON_FILE_ELSEWHERE };

/* The system call that a task is in, or was in last. */
struct call {
	__u64 enter_ns;
	__u64 stamp; /* see is_whole() */
	__u32 tid;
	__u32 bios; /* queued within the call */
	__u16 number;
	__u16 wait; /* the task's place among the waits, from its first one on; 0 = none yet */
	__u8 kind;  /* enum iotrace_call */
	__u8 on_file; /* enum iotrace_on_file */
	__u8 waits;  /* for requests: has a place, or had */
	__u8 is_new; /* see again.bpf.h */
};

/* With --vfs: what the call waits for that entered then (return.bpf.h). */
struct wait {
	__u64 enter_ns;
	__u64 bytes;	/* of its bios */
	__u64 asked;	/* the same, but an empty bio is 1 */
	__u64 others;	/* bytes of others' bios that were merged into its requests */
	__u64 complete; /* like `asked`, of its requests that are, with others' bios */
	__u64 last_ns;	/* the latest completion */
	__u32 tid;
	__u32 requests; /* complete */
	__u32 recorded; /* of these, the ones that pass the filters and the sample */
	__u32 bios;	/* that the requests are made of */
};

#endif
