/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types and fields that the program reads, and nothing else. Offsets are filled in
 * at load time from the running kernel's BTF, so neither building nor moving the binary to another
 * kernel needs a vmlinux.h.
 */
#ifndef IOTRACE_KERNEL_H
#define IOTRACE_KERNEL_H

#include <linux/magic.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct file_system_type {
	int fs_flags;
};

struct super_block {
	__u32 s_dev;
	struct file_system_type *s_type;
	unsigned long s_magic;
};

struct address_space;

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	struct hlist_head i_dentry;
	__u32 i_generation;
};

struct qstr {
	__u64 hash_len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct hlist_node d_alias;
};

struct dentry___named_union { /* until 6.18 or later */
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct address_space {
	struct inode *host;
};

struct page {
	struct address_space *mapping;
	unsigned long private;
	unsigned long compound_info; /* since 7.2 or earlier */
};

struct page___pointing {
	unsigned long compound_head;
};

struct folio;

struct file {
	struct inode *f_inode;
	unsigned int f_flags;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct kiocb {
	struct file *ki_filp;
	void *ki_waitq;
	void *dio_complete; /* since 6.6, in the same place: both are cleared for each request */
};

struct iomap_dio {
	struct kiocb *iocb;
};

struct dio { /* of fs/direct-io.c */
	struct inode *inode;
};

struct block_device_operations {
	void *submit_bio; /* of disks that have no requests */
};

struct gendisk {
	int major;
	int first_minor;
	const struct block_device_operations *fops;
};

struct block_device {
	struct gendisk *bd_disk;
	void *bd_holder;
};

struct buffer_head {
	struct block_device *b_bdev;
	void *b_end_io; /* until 7.2 or earlier */
};

struct bio_vec {
	struct page *bv_page;
};

struct bio_set;

struct bvec_iter {
	unsigned int bi_size;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	__u32 bi_opf;
	unsigned short bi_flags;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
	struct bio_vec *bi_io_vec;
	struct bio_set *bi_pool;
};

struct iomap_dio_simple {
	struct kiocb *iocb;
	struct bio bio;
};

struct btrfs_inode {
	struct inode vfs_inode;
};

struct btrfs_bio {
	struct btrfs_inode *inode; /* since 6.3 */
	void *end_io;
	void *private;
	struct bio bio;
};

struct btrfs_io_context {
	struct bio *orig_bio;
};

struct btrfs_io_stripe {
	struct btrfs_io_context *bioc;
};

struct blkdev_dio {
	struct kiocb *iocb;
	struct bio bio;
};

struct io_wq_work_node {
	struct io_wq_work_node *next;
};

struct io_wq_work {
	struct io_wq_work_node list;
};

struct io_cqe {
	__s32 res;
};

struct io_kiocb {
	struct file *file;
	__u8 opcode;
	__u32 flags;
	struct io_cqe cqe;
	struct io_wq_work work;
};

struct io_worker {
	struct io_wq_work *cur_work;
};

/* Of the device mapper and md, which are modules. */
struct dm_io {
	struct bio *orig_bio;
};

struct dm_target_io {
	struct dm_io *io;
	struct bio clone;
};

struct dm_rq_target_io {
	struct request *orig;
};

struct dm_rq_clone_bio_info {
	struct dm_rq_target_io *tio;
	struct bio clone;
};

struct dm_crypt_io {
	struct bio *base_bio;
};

struct md_io_clone {
	struct bio *orig_bio;
	struct bio bio_clone;
};

struct md_io_acct { /* the same on 6.1 */
	struct bio *orig_bio;
};

struct r1bio {
	struct bio *master_bio;
};

struct r10bio {
	struct bio *master_bio;
};

struct request_queue {
	struct gendisk *disk;
};

struct blk_mq_hw_ctx;

enum mq_rq_state { MQ_RQ_IDLE };

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	__u32 cmd_flags;
	__u32 rq_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
	struct bio *biotail;
	struct request *rq_next;
	__u64 start_time_ns;
	enum mq_rq_state state;
};

struct blk_mq_queue_data {
	struct request *rq;
};

struct irqaction;

struct sock_common {
	__u32 skc_daddr;
	unsigned short skc_family;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct sk_buff {
	char cb[48];
};

struct tcp_skb_cb { /* in sk_buff.cb */
	__u16 tcp_gso_segs;
};

struct tcp_sock {
	__u32 srtt_us; /* eighths */
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct kthread {
	void *data;
};

struct worker { /* of a work queue; the data of its thread */
	void *current_func;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	void *stack;
	unsigned int flags;
	unsigned int __state;
	unsigned int in_iowait : 1;
	int pid;
	int tgid;
	char comm[16];
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct files_struct *files;
	void *worker_private;
	void *pf_io_worker;
	int *set_child_tid;
	struct io_uring_task *io_uring;
};

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__u64 orig_x0;
	int syscallno;
#endif
};

#pragma clang attribute pop

/* The number of the system call that the task is in; -1 in a page fault or an interrupt of user mode. */
#if defined(__TARGET_ARCH_x86)
#define SYSCALL_NUMBER(at) ((long)(at)->orig_ax)
#define PEEK_SYSCALL_NUMBER(at) ((long)PEEK(pt_regs, at, orig_ax))
#define SYSCALL_FIRST_ARGUMENT(at) ((at)->di)
#define FUNCTION_ARGUMENT_1(at) ((at)->di)
#define FUNCTION_ARGUMENT_2(at) ((at)->si)
#elif defined(__TARGET_ARCH_arm64)
/* Of 32 bits: the verifier of 6.1 does not see the bounds of one that is extended by its sign. */
#define SYSCALL_NUMBER(at) ((__u32)(at)->syscallno)
#define PEEK_SYSCALL_NUMBER(at) ((__u32)PEEK(pt_regs, at, syscallno))
#define SYSCALL_FIRST_ARGUMENT(at) ((at)->orig_x0)
#define FUNCTION_ARGUMENT_1(at) ((at)->regs[0])
#define FUNCTION_ARGUMENT_2(at) ((at)->regs[1])
#else
#error "where does this machine keep the number of the system call?"
#endif

/* Values are relocated too; only the names matter. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
};

/* Part of the kernel's interface to drivers, the same in all versions. */
enum {
	OP_MASK = 0xff,
	OP_READ = 0,
	OP_WRITE = 1,
	OP_FLUSH = 2,
	OP_DISCARD = 3,
	OP_DRV_IN = 34,
	OP_DRV_OUT = 35,
};

/* include/linux/sched.h */
#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_SIGNALED 0x00000400
#define PF_KTHREAD 0x00200000

#define S_IFMT 0170000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFSOCK 0140000
#define FS_REQUIRES_DEV 1 /* include/linux/fs.h */
#define PAGE_MAPPING_FLAGS 3UL /* anonymous or movable: no file behind it */

#endif
