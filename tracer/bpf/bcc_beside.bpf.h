/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the CO-RE programs of the context and the peers do in beside.bpf.h, with the maps of BCC. Text, not to be included:
 * the Makefile puts it before them.
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

/* Whether the thread that sched_switch takes from its CPU goes on when it can. */
static __always_inline bool stays_runnable(unsigned long long *sched_switch, struct task_struct *from)
{
	bool preempted = sched_switch[0];

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 14, 0)
	return preempted || !FIELD(from, state);
#else
	return preempted || !(SWITCH_TELLS_STATE ? (u32)sched_switch[3] : FIELD(from, __state));
#endif
}

/* ---- peers ---- */

static __always_inline void peer_begin(const struct iotrace_address *address)
{
	u32 zero = 0;
	void *nothing = LOOKUP(no_peer, &zero);

	if (nothing)
		bpf_map_update_elem(&peers, address, nothing, BPF_NOEXIST);
}
