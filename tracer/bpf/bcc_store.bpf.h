/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What CO-RE programs do in call, device, dirtier, file, filter, log, store and uring.bpf.h, with the maps of BCC. Text,
 * not to be included: the Makefile puts it behind name.bpf.h.
 */

/* ---- devices ---- */

static __always_inline u32 device_of(struct gendisk *disk)
{
	return disk ? (u32)FIELD(disk, major) << 20 | (u32)FIELD(disk, first_minor) : 0;
}

static __always_inline u32 device_of_bio(struct bio *bio)
{
	return device_of(disk_of_bio(bio));
}

static __always_inline u32 device_of_request(struct request *rq)
{
	return device_of(disk_of_request(rq));
}

#define device_of_untrusted(rq) device_of_request(rq)

/* NULL: not a device to trace. Without a filter, a new device begins to count when it is first seen. */
static __always_inline struct iotrace_counters *counters_of(u32 device)
{
	struct iotrace_counters *found = LOOKUP(counters, &device);
	void *nothing;
	u32 zero = 0;

	if (found || SETTING(filter_devices))
		return found;
	nothing = LOOKUP(no_counters, &zero);
	if (!nothing)
		return NULL;
	UPDATE(counters, &device, nothing, BPF_NOEXIST);
	return LOOKUP(counters, &device);
}

static __always_inline bool is_traced(u32 device)
{
	return counters_of(device);
}

static __always_inline u32 device_of_interrupt(int irq)
{
	u32 number = irq, *device = LOOKUP(irqs, &number);

	return device ? *device : 0;
}

/* ---- bios and requests under way ---- */

#define FIND(map, key)                                                                                                \
	({                                                                                                            \
		u64 key_ = key;                                                                                       \
		LOOKUP(map, &key_);                                                                                   \
	})
#define CLAIM(map, key)                                                                                               \
	({                                                                                                            \
		u64 key_ = key;                                                                                       \
		u32 zero_ = 0;                                                                                        \
		struct iotrace_flight *found_ = LOOKUP(map, &key_);                                                   \
		void *nothing_ = found_ ? NULL : LOOKUP(no_flight, &zero_);                                           \
		if (nothing_) {                                                                                       \
			UPDATE(map, &key_, nothing_, BPF_NOEXIST);                                                    \
			found_ = LOOKUP(map, &key_);                                                                  \
			if (found_)                                                                                   \
				found_->key = key_;                                                                   \
		}                                                                                                     \
		found_;                                                                                               \
	})
#define FREE(map, flight)                                                                                             \
	({                                                                                                            \
		u64 key_ = (flight)->key;                                                                             \
		DELETE(map, &key_);                                                                                   \
	})

/* Two tables: that of the bios may forget. */
#define BIOS_FLIGHTS_GO_ON false
#define io_done_follows SETTING(io_done_follows)
#define counts_alone false
#define was_counted_without_flight(request, generation) ((void)(request), (void)(generation), false)
#define ended_note(request, generation) ((void)(request), (void)(generation))
#define ended_forget(request, generation) ((void)(request), (void)(generation), false)

static __always_inline struct iotrace_flight *flight_find(u64 key)
{
	return FIND(requests, key);
}

static __always_inline struct iotrace_flight *flight_claim(u64 key)
{
	return CLAIM(requests, key);
}

static __always_inline void flight_free(struct iotrace_flight *flight)
{
	FREE(requests, flight);
}

static __always_inline struct iotrace_flight *bio_find(u64 key)
{
	return FIND(bios, key);
}

static __always_inline struct iotrace_flight *bio_claim(u64 key)
{
	return CLAIM(bios, key);
}

static __always_inline void bio_free(struct iotrace_flight *flight)
{
	FREE(bios, flight);
}

/* The same as flight_inherit() where nothing else is known of either, in a fifth of the instructions. */
static __always_inline void flight_note(struct iotrace_flight *to, const struct iotrace_flight *from)
{
	bpf_probe_read(&to->event, sizeof(to->event), (void *)&from->event);
}

/* ---- tasks ---- */

static __always_inline void task_fill(struct iotrace_task *task, struct task_struct *current)
{
	u64 ids = bpf_get_current_pid_tgid();

	task->pid = ids >> 32;
	task->tid = ids;
	task->cgroup_id = bpf_get_current_cgroup_id();
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 5, 0)
	task->cgroup_id = (u32)task->cgroup_id; /* above it the generation, which nobody can see (40430452fd5d) */
#endif
	__builtin_memset(task->comm, 0, sizeof(task->comm)); /* the kernel writes nothing behind the name's end (6.1) */
	bpf_get_current_comm(task->comm, sizeof(task->comm));
}

static __always_inline bool comm_selected(const struct bcc_settings *settings, const u64 *comm)
{
#pragma unroll
	for (int i = 0; i < IOTRACE_MAX_COMMS; i++)
		if (i < settings->comm_count && settings->comms[i][0] == comm[0] && settings->comms[i][1] == comm[1])
			return true;
	return !settings->comm_count;
}

/* `task` is the current one. */
static __always_inline bool task_selected(const struct iotrace_task *task)
{
	u32 zero = 0, pid = task->pid;
	struct bcc_settings *settings = LOOKUP(settings, &zero);

	if (!settings || (settings->filter_pids && !LOOKUP(pids, &pid)))
		return false;
	if (!comm_selected(settings, (const u64 *)task->comm))
		return false;
#pragma unroll
	for (int i = 0; i < IOTRACE_MAX_CGROUPS; i++)
		if (i < settings->cgroup_count && current_under_cgroup(MAP(cgroups), i) == 1)
			return true;
	return !settings->cgroup_count;
}

static __always_inline bool filters_tasks(void)
{
	return SETTING(filter_pids) || SETTING(cgroup_count) || SETTING(comm_count);
}

/* ---- system calls ---- */

#define measures_vfs SETTING(measures_vfs)
#define uring_own(flight, current, bio, of, in_ring) (in_ring)
#define uring_goes_elsewhere(current, now) ((void)0)

/* The number of the call that the task is in, read where the entry to the kernel has left it. */
static __always_inline u64 number_of_call(struct task_struct *current, u64 *cell)
{
	unsigned long top = (unsigned long)FIELD(current, stack) + THREAD_SIZE;

	return SYSCALL_NUMBER((struct pt_regs *)(top - ABOVE_REGISTERS) - 1);
}

static __always_inline u8 kind_of_call(u64 number)
{
	u32 index = number, *kind = number < IOTRACE_SYSCALLS ? LOOKUP(call_kinds, &index) : NULL;

	return kind ? *kind : IOTRACE_CALL_NONE;
}

static __always_inline struct call *call_known(u32 tid)
{
	struct bcc_call *known = LOOKUP(calls, &tid);

	return known ? &known->call : NULL;
}

static __always_inline struct call *call_place(u32 tid)
{
	struct call *known = call_known(tid);
	struct bcc_call new = {};

	if (known)
		return known;
	UPDATE(calls, &tid, &new, BPF_NOEXIST);
	return call_known(tid);
}

/* It stands beside the call, so `index` does not tell which one, but whether there is one. */
static __always_inline struct wait *wait_of(u32 index, u64 enter_ns, u32 tid)
{
	struct bcc_call *known = index ? LOOKUP(calls, &tid) : NULL;

	return known && known->wait.enter_ns == enter_ns && known->wait.tid == tid ? &known->wait : NULL;
}

static __always_inline struct wait *wait_begin(struct call *call, u32 tid)
{
	struct wait *wait = &((struct bcc_call *)call)->wait;

	call->waits = true;
	call->wait = 1;
	*wait = (struct wait){.enter_ns = call->enter_ns, .tid = tid};
	return wait;
}

/* When two CPUs complete requests of one call at the same instant, the earlier time may stay: see bcc_peek.bpf.h. */
static __always_inline void wait_until(struct wait *wait, u64 now)
{
	if (wait->last_ns < now)
		wait->last_ns = now;
}

/* ---- what is sent ---- */

static __always_inline struct bcc_cpu *this_cpu(void)
{
	u32 zero = 0;

	return LOOKUP(cpus, &zero);
}

/*
 * Before 5.2 (kernel commit 9594dc3c7e71, which some older ones have been given) the kernel describes what a program
 * writes in one place of its CPU. When an interrupt's program writes meanwhile, the first one goes on with what stands
 * there of the other's stack, and the kernel dies of it. So the interrupt's does not.
 */
static __always_inline bool write_out(void *ctx, struct bcc_cpu *cpu, u64 map, const void *data, u64 bytes)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 2, 0)
	volatile u64 *writes = &cpu->writes;
	bool ok;

	if (SETTING(writes_alone)) {
		if (*writes)
			return false;
		*writes = 1;
		ok = !perf_output(ctx, map, BPF_F_CURRENT_CPU, data, bytes);
		*writes = 0;
		return ok;
	}
#endif
	return !perf_output(ctx, map, BPF_F_CURRENT_CPU, data, bytes);
}

/* ---- files ---- */

/* The file's number; 0 for no file, block devices, and files that could not be told to user space. */
static __always_inline u32 file_of(void *ctx, struct inode *inode)
{
	struct iotrace_name_buffer *buffer;
	struct identity id;
	struct bcc_cpu *cpu;
	struct bcc_file *known, file;
	u32 zero = 0, bytes;
	u64 hash, *told = LOOKUP(files_told, &zero);

	if (!told || !identify(&id, inode))
		return 0;
	hash = identity_hash(&id);
	known = LOOKUP(files, &hash);
	if (known && (u32)*told - known->told < IOTRACE_FILES_USED)
		return known->number;
	cpu = this_cpu();
	buffer = LOOKUP(name_buffers, &zero);
	if (!cpu || !buffer)
		return 0;
	/* Bios are not queued by interrupts, so nothing comes between counting and reading. */
	count(&cpu->files);
	count(told);
	file.number = (u32)cpu->files * SETTING(cpu_count) - bpf_get_smp_processor_id();
	file.told = *told;
	bytes = name_fill(&buffer->name, &id, file.number);
	if (!write_out(ctx, cpu, MAP(names), &buffer->name, offsetof(struct iotrace_name, names) + bytes)) {
		count(&cpu->names_dropped);
		return 0;
	}
	UPDATE(files, &hash, &file, BPF_ANY);
	return file.number;
}

/* ---- who dirtied ---- */

static __always_inline u64 dirtier_key(struct inode *inode)
{
	u64 hash = mix(PEEK(inode, inode, i_ino), PEEK(inode, inode, i_generation));

	return mix(hash, PEEK(super_block, PEEK(inode, inode, i_sb), s_dev));
}

/* The name, too: a task may have become another program since. */
static __always_inline bool is_still(const struct iotrace_task *task, const struct iotrace_task *now)
{
	const u64 *name = (const u64 *)task->comm, *name_now = (const u64 *)now->comm;

	return task->tid == now->tid && name[0] == name_now[0] && name[1] == name_now[1];
}

static __always_inline void dirtier_note(struct inode *inode, struct task_struct *current)
{
	u64 key = dirtier_key(inode);
	struct bcc_dirtier *known = LOOKUP(dirtiers, &key), new = {};

	task_fill(&new.task, current);
	if (known && is_still(&known->task, &new.task))
		return;
	new.selected = task_selected(&new.task);
	UPDATE(dirtiers, &key, &new, BPF_ANY);
}

/* A kernel thread writes pages back: the flight is of the task that dirtied them, when that is known. */
static __always_inline void flight_blame(struct iotrace_flight *flight, struct inode *inode)
{
	u64 key = dirtier_key(inode);
	struct bcc_dirtier *dirtier = LOOKUP(dirtiers, &key);

	if (!dirtier)
		return;
	flight->event.task = dirtier->task;
	flight->event.flags |= IOTRACE_DIRTIER;
	flight->event.flags &= ~FLIGHT_SELECTED;
	if (dirtier->selected)
		flight->event.flags |= FLIGHT_SELECTED;
}

/* ---- records ---- */

/* NULL: user space has not yet read as much as there is room for, so that the kernel need not drop it silently. */
static __always_inline struct iotrace_event *log_begin(struct iotrace_event *event, u16 *lap)
{
	u32 number = bpf_get_smp_processor_id();
	u64 *consumed = LOOKUP(consumed, &number);
	struct bcc_cpu *cpu = this_cpu();

	if (!cpu || !consumed || cpu->reserved - *consumed >= SETTING(log_events) - IOTRACE_NESTING)
		return NULL;
	count(&cpu->reserved);
	return event;
}

static __always_inline bool log_end(void *ctx, struct iotrace_event *event, u16 lap)
{
	struct bcc_cpu *cpu = this_cpu();

	if (!cpu)
		return false;
	if (write_out(ctx, cpu, MAP(events), event, sizeof(*event)))
		return true;
	__sync_fetch_and_add(&cpu->reserved, -1);
	return false;
}
