/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the CO-RE programs of the context, the peers and the spans do in beside.bpf.h, with the maps of BCC. Text, not to be
 * included: the Makefile puts it before them.
 */

/* ---- context ---- */

#define WAITING_TIME (~0ULL)

static __always_inline void waiting_begin(u32 tid)
{
	u64 now = bpf_ktime_get_ns();

	UPDATE(waiting, &tid, &now, BPF_ANY);
}

/* Since when it has waited, and no longer does; 0: nobody knows. */
static __always_inline u64 waiting_end(u32 tid)
{
	u64 *since = LOOKUP(waiting, &tid), waits = since ? *since : 0;

	if (since)
		DELETE(waiting, &tid);
	return waits;
}

/* ---- threads ---- */

/* What the thread that sched_switch takes from its CPU waits for; 0 = for nothing. */
static __always_inline u32 state_of(unsigned long long *sched_switch, struct task_struct *from)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 14, 0)
	return FIELD(from, state);
#else
	return SWITCH_TELLS_STATE ? (u32)sched_switch[3] : FIELD(from, __state);
#endif
}

/* Whether it goes on when it can. */
static __always_inline bool stays_runnable(unsigned long long *sched_switch, struct task_struct *from)
{
	bool preempted = sched_switch[0];

	return preempted || !state_of(sched_switch, from);
}

/* ---- peers ---- */

/* False: the kernel has no IPv6. */
static __always_inline bool read_address_6(const struct sock_common *common, struct iotrace_address *address)
{
#if IS_ENABLED(CONFIG_IPV6)
	bpf_probe_read(address->bytes, sizeof(address->bytes), (void *)&common->skc_v6_daddr);
	return true;
#else
	return false;
#endif
}

static __always_inline void peer_begin(const struct iotrace_address *address)
{
	u32 zero = 0;
	void *nothing = LOOKUP(no_peer, &zero);

	if (nothing)
		bpf_map_update_elem(&peers, address, nothing, BPF_NOEXIST);
}

/* ---- spans ---- */

#define span_sample_every SETTING(span_sample_every)

static __always_inline u8 span_call(u64 number)
{
	u32 index = number, *kind = number < IOTRACE_SYSCALLS ? LOOKUP(span_calls, &index) : NULL;

	return kind ? *kind : IOTRACE_SPAN_NONE;
}

/* NULL: it has had none. */
static __always_inline struct span *span_known(struct task_struct *task)
{
	u32 tid = FIELD(task, pid);
	struct bcc_span *known = LOOKUP(spans, &tid);

	return known && known->task == (u64)task ? &known->span : NULL;
}

static __always_inline struct span *span_place(struct task_struct *task)
{
	u32 tid = FIELD(task, pid), zero = 0;
	struct span *known = span_known(task);
	struct bcc_span *place;
	void *nothing;

	if (known)
		return known;
	nothing = LOOKUP(no_span, &zero);
	if (!nothing)
		return NULL;
	UPDATE(spans, &tid, nothing, BPF_ANY);
	place = LOOKUP(spans, &tid);
	if (!place)
		return NULL;
	place->task = (u64)task;
	return &place->span;
}

/* `task` is about to sleep. Bits like in_iowait have no address; who waits for a socket can be interrupted. */
static __always_inline bool waits_for_disk(unsigned long long *sched_switch, struct task_struct *task)
{
	return state_of(sched_switch, task) & TASK_UNINTERRUPTIBLE;
}

static __always_inline void count_process_left_out(void)
{
	struct bcc_cpu *cpu = this_cpu();

	if (cpu)
		count(&cpu->processes_not_counted);
}

static __always_inline void send_sample(void *ctx, const struct iotrace_span *sample)
{
	struct bcc_cpu *cpu = this_cpu();

	if (!cpu)
		return;
	write_out(ctx, cpu, MAP(samples), sample, sizeof(*sample));
	count(&cpu->samples); /* only now: user space takes what it does not find then for lost */
}
