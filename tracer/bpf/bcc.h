/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs of the BCC backend and src/bcc.c share: the maps, which user space makes. */
#ifndef BCC_H
#define BCC_H

#include "iotrace.h"

/* Functions whose address tells whose bio it is. */
#define BCC_FUNCTIONS(function)                                                                                       \
	function(iomap_dio_bio_end_io) function(blkdev_bio_end_io) function(blkdev_bio_end_io_async)                  \
		function(blkdev_bio_end_io_simple) function(xlog_bio_end_io) function(dio_bio_end_io)                 \
			function(dio_bio_end_aio) function(end_swap_bio_read) function(end_swap_bio_write)        \
				function(swap_bio_read_end_io) function(end_bio_bh_io_sync)                       \
					function(end_buffer_read_sync) function(end_buffer_write_sync)

enum bcc_function {
#define BCC_FUNCTION_NUMBER(name) BCC_##name,
	BCC_FUNCTIONS(BCC_FUNCTION_NUMBER) BCC_FUNCTION_COUNT
};

struct bcc_settings {
	__u64 on_ns; /* 0 = switched off */
	__u64 min_latency_ns;
	__u64 comms[IOTRACE_MAX_COMMS][IOTRACE_COMM_BYTES / 8]; /* filled up with zeros */
	__u64 addresses[BCC_FUNCTION_COUNT]; /* 0: this kernel has no such function, or hides where it is */
	__u32 comm_count, cgroup_count;
	__u32 modes_wanted, sample_every;
	__u32 log_events, cpu_count;
	__u32 span_sample_every;
	__u8 filter_devices, filter_pids, uses_irqs, measures_vfs;
	__u8 follows;
	__u8 io_done_follows; /* block_io_done is there, since 6.5, and frees the flights */
	__u8 writes_alone;    /* see write_out() */
};

/* Of one CPU. */
struct bcc_cpu {
	__u64 reserved; /* events sent, since the start */
	__u64 files;	/* told, or tried to */
	__u64 names_dropped;
	__u64 processes_not_counted;
	__u64 samples; /* sent, whether there was room or not */
	__u64 writes; /* a program is in write_out() */
};

struct bcc_call {
	struct call call; /* first of all: see wait_begin() */
	struct wait wait;
};

struct bcc_span {
	struct span span;
	__u64 task; /* address of the thread's task_struct: numbers of threads are used again */
};

struct bcc_file {
	__u32 number;
	__u32 told; /* files until then, by all CPUs */
};

struct bcc_dirtier {
	struct iotrace_task task;
	__u64 selected;
};

/* map(name, type, key, value, entries). An LRU map forgets: bios may be forgotten, requests are not. */
#define BCC_MAPS(map)                                                                                                 \
	map(settings, ARRAY, __u32, struct bcc_settings, 1)                                                           \
	map(counters, PERCPU_HASH, __u32, struct iotrace_counters, IOTRACE_DEVICE_SLOTS)                               \
	map(no_counters, ARRAY, __u32, struct iotrace_counters, 1)                                                    \
	map(requests, HASH, __u64, struct iotrace_flight, 16384)                                                      \
	map(bios, LRU_HASH, __u64, struct iotrace_flight, 32768)                                                      \
	map(no_flight, ARRAY, __u32, struct iotrace_flight, 1)                                                        \
	map(irqs, HASH, __u32, __u32, IOTRACE_IRQS)                                                                   \
	map(interrupts, PERCPU_ARRAY, __u32, struct iotrace_interrupt, 1)                                             \
	map(call_kinds, ARRAY, __u32, __u32, IOTRACE_SYSCALLS)                                                        \
	map(calls, LRU_HASH, __u32, struct bcc_call, 16384)                                                           \
	map(vfs_tables, PERCPU_ARRAY, __u32, struct iotrace_vfs_table, 1)                                             \
	map(dirtiers, LRU_HASH, __u64, struct bcc_dirtier, 16384)                                                     \
	map(files, LRU_HASH, __u64, struct bcc_file, 16384)                                                           \
	map(files_told, ARRAY, __u32, __u64, 1)                                                                       \
	map(name_buffers, PERCPU_ARRAY, __u32, struct iotrace_name_buffer, 1)                                                 \
	map(cpus, PERCPU_ARRAY, __u32, struct bcc_cpu, 1)                                                             \
	map(consumed, ARRAY, __u32, __u64, IOTRACE_MAX_CPUS)                                                          \
	map(pids, HASH, __u32, __u8, 1024)                                                                            \
	map(cgroups, CGROUP_ARRAY, __u32, __u32, IOTRACE_MAX_CGROUPS)                                                 \
	map(contexts, PERCPU_ARRAY, __u32, struct iotrace_context, 1)                                                 \
	map(waiting, HASH, __u32, __u64, 32768)                                                                       \
	map(peers, HASH, struct iotrace_address, struct iotrace_peer, IOTRACE_PEERS)                                  \
	map(no_peer, ARRAY, __u32, struct iotrace_peer, 1)                                                            \
	map(span_calls, ARRAY, __u32, __u32, IOTRACE_SYSCALLS)                                                        \
	map(spans, LRU_HASH, __u32, struct bcc_span, 16384)                                                           \
	map(no_span, ARRAY, __u32, struct bcc_span, 1)                                                                \
	map(receivers, LRU_HASH, __u64, struct receiver, IOTRACE_SPAN_SOCKETS)                                        \
	map(processes, HASH, __u32, struct iotrace_process, IOTRACE_SPAN_PROCESSES)                                   \
	map(new_process, ARRAY, __u32, struct iotrace_process, 1)                                                     \
	map(samples, PERF_EVENT_ARRAY, __u32, __u32, IOTRACE_MAX_CPUS)                                                \
	map(events, PERF_EVENT_ARRAY, __u32, __u32, IOTRACE_MAX_CPUS)                                                 \
	map(names, PERF_EVENT_ARRAY, __u32, __u32, IOTRACE_MAX_CPUS)

/* In the programs a map is known by its number, until they are loaded. */
enum bcc_map {
#define BCC_MAP_NUMBER(name, type, key, value, entries) MAP_##name,
	BCC_MAPS(BCC_MAP_NUMBER) BCC_MAP_COUNT
};

#endif
