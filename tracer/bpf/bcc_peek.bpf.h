/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How the programs look at the kernel with BCC (peek.bpf.h is the same for CO-RE), and what has changed between
 * kernels. Text, not to be included: the Makefile puts it before the shared headers. It keeps to what Linux 4.18 has: no loops, no atomic
 * operation that returns a value, no global variables, reads through bpf_probe_read only. Before it stands what
 * src/bcc.c writes: the kernel's headers, the options as constants, addresses of functions, and the descriptors of
 * the maps as FD_<map>.
 */
#undef current /* a macro of the kernel's */
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef barrier_var
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))
#endif
#ifndef PF_IO_WORKER
#define PF_IO_WORKER 0
#endif
#ifndef PAGE_MAPPING_FLAGS
#define PAGE_MAPPING_FLAGS 3UL
#endif

enum { OP_MASK = 0xff, OP_WRITE = 1, OP_FLUSH = 2, OP_DISCARD = 3, OP_DRV_IN = 34, OP_DRV_OUT = 35 };

struct iomap_dio { /* its beginning; the rest stands in no header */
	struct kiocb *iocb;
};

/* ---- programs and maps ---- */

#undef BPF_PROG
#undef READ
#define SEC(name)
#define ARGUMENT_COUNT(a1, a2, a3, a4, count, ...) count
#define ARGUMENTS_1 (void *)ctx[0]
#define ARGUMENTS_2 ARGUMENTS_1, (void *)ctx[1]
#define ARGUMENTS_3 ARGUMENTS_2, (void *)ctx[2]
#define ARGUMENTS_4 ARGUMENTS_3, (void *)ctx[3]
#define ARGUMENTS_OF(count) ARGUMENTS_##count
#define ARGUMENTS(count) ARGUMENTS_OF(count)
#define BPF_PROG(name, args...)                                                                                       \
	name(unsigned long long *ctx);                                                                                \
	static __always_inline int body_of_##name(unsigned long long *ctx, args);                                     \
	int name(unsigned long long *ctx)                                                                             \
	{                                                                                                             \
		return body_of_##name(ctx, ARGUMENTS(ARGUMENT_COUNT(args, 4, 3, 2, 1)));                              \
	}                                                                                                             \
	static __always_inline int body_of_##name(unsigned long long *ctx, args)

static void *(*map_lookup)(u64 map, const void *key) = (void *)1;
static int (*map_update)(u64 map, const void *key, const void *value, u64 flags) = (void *)2;
static int (*map_delete)(u64 map, const void *key) = (void *)3;
static int (*perf_output)(void *ctx, u64 map, u64 flags, const void *data, u64 size) = (void *)25;
static int (*current_under_cgroup)(u64 map, int index) = (void *)37;
static int (*read_string)(void *to, int size, const void *from) = (void *)45;

/* The loader puts the map's address where its descriptor stands. */
#define MAP(name) bpf_pseudo_fd(1, FD_##name)
#define LOOKUP(map, key) map_lookup(MAP(map), key)
#define UPDATE(map, key, value, flags) map_update(MAP(map), key, value, flags)
#define DELETE(map, key) map_delete(MAP(map), key)

/* For the shared programs. */
#define flushes (*(char *)FD_flushes)
#define interrupts (*(char *)FD_interrupts)
#define bpf_map_lookup_elem(map, key) map_lookup(bpf_pseudo_fd(1, (u64)(map)), key)
#define bpf_map_update_elem(map, key, value, flags) map_update(bpf_pseudo_fd(1, (u64)(map)), key, value, flags)

/* ---- looking at the kernel ---- */

/* Loops have to be written out before 5.3. */
#define UNTIL_OR_8_TIMES(done) ((done) || (done) || (done) || (done) || (done) || (done) || (done) || (done))
#define UNTIL_OR_32_TIMES(done)                                                                                       \
	((void)(UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done)))

#define READ_STRING read_string
#define REQ_FLAG(bit) (1U << (bit))
#define OFFSET_OF(type, field) offsetof(type, field)

#define FIELD(pointer, field)                                                                                         \
	({                                                                                                            \
		typeof((pointer)->field) value_ = 0;                                                                  \
		bpf_probe_read(&value_, sizeof(value_), (void *)&(pointer)->field);                                   \
		value_;                                                                                               \
	})
#define READ(pointer, field) FIELD(pointer, field)
#define PEEK(type, address, field) FIELD((struct type *)(address), field)

static __always_inline u64 as_number(u64 *cell, const void *pointer)
{
	return (u64)pointer;
}

static __always_inline u64 address_of(void *ctx)
{
	return *(u64 *)ctx;
}

static __always_inline struct task_struct *task_now(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

/* Bios merged behind these are not looked at. */
#define FOR_EACH_BIO(look, gathering) UNTIL_OR_32_TIMES(look(0, gathering))

/* 0: this kernel has no such function, or hides its address. */
#define ENDS_IN(end, function) (ADDRESS_##function && (end) == ADDRESS_##function)

/* ---- what has changed between kernels ---- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
#define OF_QUEUE struct request_queue *queue_,
#define address_behind_queue(ctx) address_of((u64 *)(ctx) + 1)
#else
#define OF_QUEUE
#define address_behind_queue(ctx) address_of(ctx)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 18, 0)
#define writeback_dirty_folio writeback_dirty_page
#endif

static __always_inline struct gendisk *disk_of_bio(struct bio *bio)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 12, 0)
	return FIELD(bio, bi_disk);
#else
	return PEEK(block_device, FIELD(bio, bi_bdev), bd_disk);
#endif
}

static __always_inline struct gendisk *disk_of_request(struct request *rq)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 17, 0)
	return FIELD(rq, rq_disk);
#else
	return PEEK(request_queue, FIELD(rq, q), disk);
#endif
}

static __always_inline u64 flush_queue_of(struct request *rq)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 0, 0)
	return (u64)FIELD(rq, q);
#else
	return (u64)FIELD(rq, mq_hctx);
#endif
}

static __always_inline bool in_flush_sequence(struct request *rq)
{
	return FIELD(rq, rq_flags) & (__force u32)RQF_FLUSH_SEQ;
}

static __always_inline bool in_diskstats(struct request *rq)
{
	return FIELD(rq, rq_flags) & (__force u32)RQF_IO_STAT;
}

static __always_inline bool flushes_are_in_diskstats(void)
{
	return LINUX_VERSION_CODE >= KERNEL_VERSION(5, 5, 0);
}

/* Before 5.16 the tracepoint gives an errno, which not every kernel makes of the same blk_status_t. */
static __always_inline u8 status_of(int error)
{
	return LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0) ? error : error ? 10 /* BLK_STS_IOERR */ : 0;
}

/* The command stands behind its request, see blk_mq_rq_to_pdu(). */
static __always_inline u64 request_of_command(void *ctx)
{
	return address_of(ctx) - sizeof(struct request);
}
