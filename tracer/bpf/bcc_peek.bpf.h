/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How the programs look at the kernel with BCC (peek.bpf.h is the same for CO-RE), and what has changed between
 * kernels. Text, not to be included: the Makefile puts it before the shared headers. It keeps to what Linux 4.18 has:
 * no loops, no atomic operation that returns a value, no global variables, reads through bpf_probe_read only.
 */
#include <linux/version.h>
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/tcp.h>
#include <trace/events/block.h>
#include <trace/events/sched.h>
#include <trace/events/tcp.h>

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

struct folio; /* since 5.16 */

struct iomap_dio { /* its beginning; the rest stands in no header */
	struct kiocb *iocb;
};

struct dio { /* likewise, of fs/direct-io.c from 4.14 on */
	int flags, op, op_flags;
	blk_qc_t bio_cookie;
	struct gendisk *bio_disk;
	struct inode *inode;
};

/* ---- programs and maps ---- */

#undef BPF_PROG
#undef READ
#define SEC(name)

/*
 * Arguments of a tracepoint before the one that we begin with: the queue, until 5.11 and some 5.10. The kernel's own
 * headers tell, and a kernel that has others yet is refused.
 */
#define TAKES(tracepoint, types...) __builtin_types_compatible_p(typeof(trace_##tracepoint), void(types))
#define BEGINS_WITH(tracepoint, types...)                                                                             \
	enum { before_##tracepoint = !TAKES(tracepoint, types) };                                                     \
	_Static_assert(TAKES(tracepoint, types) || TAKES(tracepoint, struct request_queue *, types),                  \
		       #tracepoint " has arguments that are not known")

BEGINS_WITH(block_bio_queue, struct bio *);
BEGINS_WITH(block_split, struct bio *, unsigned int);
BEGINS_WITH(block_rq_insert, struct request *);
BEGINS_WITH(block_rq_issue, struct request *);
BEGINS_WITH(block_rq_requeue, struct request *);
enum {
	before_block_rq_complete = 0,
	before_block_io_done = 0,
	before_irq_handler_entry = 0,
	before_peer_retransmit = 0,
	before_peer_segment = 0,
	before_sched_switch = 0,
	before_sched_wakeup = 0,
	before_sched_wakeup_new = 0,
	before_span_enter = 0,
	before_span_exit = 0,
	before_span_switch = 0,
	before_span_wakeup = 0,
	before_sys_enter = 0,
	before_sys_exit = 0,
	before_tcp_probe = 0,
	before_tcp_retransmit = 0,
	before_writeback_dirty_folio = 0,
};
#define COMPLETES_WITH_ERRNO TAKES(block_rq_complete, struct request *, int, unsigned int)
_Static_assert(COMPLETES_WITH_ERRNO || TAKES(block_rq_complete, struct request *, blk_status_t, unsigned int),
	       "block_rq_complete has arguments that are not known");

#define SWITCH_TELLS_STATE TAKES(sched_switch, bool, struct task_struct *, struct task_struct *, unsigned int)
_Static_assert(SWITCH_TELLS_STATE || TAKES(sched_switch, bool, struct task_struct *, struct task_struct *),
	       "sched_switch has arguments that are not known");
#define retransmit_tells_error TAKES(tcp_retransmit_skb, const struct sock *, const struct sk_buff *, int)
_Static_assert(retransmit_tells_error || TAKES(tcp_retransmit_skb, const struct sock *, const struct sk_buff *),
	       "tcp_retransmit_skb has arguments that are not known");

#define ARGUMENT_COUNT(a1, a2, a3, a4, count, ...) count
#define ARGUMENTS_1 (void *)first[0]
#define ARGUMENTS_2 ARGUMENTS_1, (void *)first[1]
#define ARGUMENTS_3 ARGUMENTS_2, (void *)first[2]
#define ARGUMENTS_4 ARGUMENTS_3, (void *)first[3]
#define ARGUMENTS_OF(count) ARGUMENTS_##count
#define ARGUMENTS(count) ARGUMENTS_OF(count)
#define BPF_PROG(name, args...)                                                                                       \
	name(unsigned long long *ctx);                                                                                \
	static __always_inline int body_of_##name(unsigned long long *ctx, args);                                     \
	int name(unsigned long long *ctx)                                                                             \
	{                                                                                                             \
		unsigned long long *first = ctx + before_##name;                                                      \
                                                                                                                      \
		return body_of_##name(ctx, ARGUMENTS(ARGUMENT_COUNT(args, 4, 3, 2, 1)));                              \
	}                                                                                                             \
	static __always_inline int body_of_##name(unsigned long long *ctx, args)

static void *(*map_lookup)(u64 map, const void *key) = (void *)1;
static int (*map_update)(u64 map, const void *key, const void *value, u64 flags) = (void *)2;
static int (*map_delete)(u64 map, const void *key) = (void *)3;
static int (*perf_output)(void *ctx, u64 map, u64 flags, const void *data, u64 size) = (void *)25;
static int (*current_under_cgroup)(u64 map, int index) = (void *)37;
static int (*read_string)(void *to, int size, const void *from) = (void *)45;

/* src/bcc.c puts the map's descriptor where its number stands, and the kernel its address. */
#define MAP(name) bpf_pseudo_fd(1, MAP_##name)
#define LOOKUP(map, key) map_lookup(MAP(map), key)
#define UPDATE(map, key, value, flags) map_update(MAP(map), key, value, flags)
#define DELETE(map, key) map_delete(MAP(map), key)

/* For the shared programs. */
#define interrupts (*(char *)MAP_interrupts)
#define vfs_tables (*(char *)MAP_vfs_tables)
#define contexts (*(char *)MAP_contexts)
#define peers (*(char *)MAP_peers)
#define receivers (*(char *)MAP_receivers)
#define processes (*(char *)MAP_processes)
#define new_process (*(char *)MAP_new_process)
#define bpf_map_lookup_elem(map, key) map_lookup(bpf_pseudo_fd(1, (u64)(map)), key)
#define bpf_map_update_elem(map, key, value, flags) map_update(bpf_pseudo_fd(1, (u64)(map)), key, value, flags)

/* ---- looking at the kernel ---- */

/*
 * What a helper has read the verifier does not know, and so does not follow each value. Of one that it does follow, as far
 * as where it could be no index, that of 6.1 forgets the bounds, and refuses the program.
 */
#define forget(value)                                                                                                 \
	({                                                                                                            \
		u64 known_ = (value), forgotten_ = 0;                                                                 \
		bpf_probe_read(&forgotten_, sizeof(forgotten_), &known_);                                             \
		forgotten_;                                                                                           \
	})

/* Loops have to be written out before 5.3. */
#define UNTIL_OR_8_TIMES(done) ((done) || (done) || (done) || (done) || (done) || (done) || (done) || (done))
#define UNTIL_OR_32_TIMES(done)                                                                                       \
	(UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done) || UNTIL_OR_8_TIMES(done))

#define READ_STRING read_string
#define REQ_FLAG(bit) (1U << (bit))
#define OFFSET_OF(type, field) offsetof(type, field)
#define ALIAS_OFFSET OFFSET_OF(struct dentry, d_u.d_alias)

#define FIELD(pointer, field)                                                                                         \
	({                                                                                                            \
		typeof((pointer)->field) value_ = 0;                                                                  \
		bpf_probe_read((void *)&value_, sizeof(value_), (void *)&(pointer)->field);                                  \
		value_;                                                                                               \
	})
#define READ(pointer, field) FIELD(pointer, field)
#define bpf_core_type_exists(type) true
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

static __always_inline u64 number_at(u64 address)
{
	u64 number = 0;

	bpf_probe_read(&number, sizeof(number), (void *)address);
	return number;
}

/* The first page of the folio that the page belongs to. */
static __always_inline u64 head_of(struct page *page, u64 *cell)
{
	u64 head = PEEK(page, page, compound_head);

	return head & 1 ? head - 1 : (u64)page;
}

/* Of a page that is of no file: which one it holds encrypted, if fscrypt has made it; else any number. */
static __always_inline u64 page_encrypted_in(u64 page)
{
	return PEEK(page, page, private);
}

#define are_pinned(bio) false

/* The structures of the device mapper and of md stand in no header. */
#define request_above(cell, bio, end) 0

#define FUNCTION_ARGUMENT_1(regs) PT_REGS_PARM1(regs)
#define FUNCTION_ARGUMENT_2(regs) PT_REGS_PARM2(regs)

/* Bios merged behind these are not looked at. */
#define LOOKED_AT_ONCE static __always_inline
#define UNTIL_LAST_BIO(is_issued, done) ((void)((is_issued) ? UNTIL_OR_32_TIMES(done) : UNTIL_OR_8_TIMES(done)))

/* Drivers take several requests at once since 5.16, where loops need not be written out. */
#define HAS_BATCHES (LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0))
#define SEES_AROUND_BIOS 0 /* those structures stand in no header */
#define was_held_back(task) false
#define may_have_been_held() false
#define UNTIL_LAST_REQUEST(done) for (int i_ = 0; i_ < 64 && !(done); i_++)

#define SETTING(field)                                                                                                \
	({                                                                                                            \
		u32 zero_ = 0;                                                                                        \
		struct bcc_settings *settings_ = LOOKUP(settings, &zero_);                                            \
		settings_ ? settings_->field : 0;                                                                     \
	})
#define follows SETTING(follows)
#define switched_on SETTING(on_ns)
#define switched_on_ns SETTING(on_ns)
#define min_latency_ns SETTING(min_latency_ns)
#define modes_wanted SETTING(modes_wanted)
#define sample_every SETTING(sample_every)
#define uses_irqs SETTING(uses_irqs)

static __always_inline bool is_at(u64 end, enum bcc_function function)
{
	u64 address = SETTING(addresses[function]);

	return address && address == end;
}

#define ENDS_IN(end, function) is_at(end, BCC_##function)

/* Whether it is direct I/O of a file system that does not use iomap: ext4 before 5.5. */
static __always_inline bool ends_in_dio(u64 end)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 5, 0)
	return ENDS_IN(end, dio_bio_end_io) || ENDS_IN(end, dio_bio_end_aio);
#else
	return false;
#endif
}

static __always_inline u64 end_of_block(u64 buffer)
{
	return (u64)PEEK(buffer_head, buffer, b_end_io);
}

/* ---- system calls ---- */

#if defined(__x86_64__)
#define ABOVE_REGISTERS TOP_OF_KERNEL_STACK_PADDING
#define SYSCALL_NUMBER(registers) FIELD(registers, orig_ax)
#define SYSCALL_FIRST_ARGUMENT(registers) FIELD(registers, di)
#elif defined(__aarch64__)
#define ABOVE_REGISTERS 0
#define SYSCALL_NUMBER(registers) (long)FIELD(registers, syscallno)
#define SYSCALL_FIRST_ARGUMENT(registers) FIELD(registers, orig_x0)
#else
#error "where does this machine keep the number of the system call?"
#endif

/* ---- what has changed between kernels ---- */

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

/* The disk has no requests; it hands its bios on. */
static __always_inline bool goes_to_volume(struct bio *bio)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 9, 0)
	return PEEK(block_device_operations, FIELD(disk_of_bio(bio), fops), submit_bio);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 0, 0)
	return !FIELD(FIELD(disk_of_bio(bio), queue), mq_ops);
#else
	struct request_queue *queue = FIELD(disk_of_bio(bio), queue);

	return !FIELD(queue, mq_ops) && !FIELD(queue, request_fn);
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
	return COMPLETES_WITH_ERRNO && error ? 10 /* BLK_STS_IOERR */ : error;
}

/* The command stands behind its request, see blk_mq_rq_to_pdu(). */
static __always_inline u64 request_of_command(void *ctx)
{
	return address_of(ctx) - sizeof(struct request);
}
