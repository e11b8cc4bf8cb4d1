"""The least that a tracer does: times at queue, issue and completion, a record of 64 bytes for each request.

Bios are not linked to their requests, addresses that hash alike are not told apart, nobody reads the records, and old
ones are overwritten: no measurement, but no tracer with records costs less. Arguments: more tracepoints. At
irq_handler_entry a time is taken, without which driver and device are not told apart; at sys_enter, too, in the calls
of the bench, without which there is no VFS layer; the programs at others do nothing. Needs BCC, so the system's
Python; reads no field of the kernel's structures, so headers of another kernel do no harm.
"""

from __future__ import annotations

import os
import sys

import floor  # type: ignore[import-not-found]

PROGRAMS = """
#include <linux/bpf.h>

struct record { u64 address, issue_ns, done_ns, task, unused[4]; };

BPF_ARRAY(stamps, u64, 1 << 16);
BPF_PERCPU_ARRAY(written, u32, 1);
BPF_ARRAY(records, struct record, CPUS << 12);
BPF_PERCPU_ARRAY(entered, u64, 2);

static inline u64 *stamp_of(u64 address)
{
    u32 index = (address * 0x9e3779b97f4a7c15ULL) >> 48;
    return stamps.lookup(&index);
}

static inline int stamp(struct bpf_raw_tracepoint_args *ctx)
{
    u64 *at = stamp_of(ctx->args[0]);
    if (at)
        *at = bpf_ktime_get_ns();
    return 0;
}

static inline int stamp_cpu(u32 which)
{
    u64 *at = entered.lookup(&which);
    if (at)
        *at = bpf_ktime_get_ns();
    return 0;
}

int on_irq_handler_entry(struct bpf_raw_tracepoint_args *ctx) { return stamp_cpu(0); }

int on_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
    switch (ctx->args[1]) { /* on x86-64 */
    case 1: /* write */
    case 17: /* pread64 */
    case 18: /* pwrite64 */
    case 74: /* fsync */
        return stamp_cpu(1);
    }
    return 0;
}

int on_block_bio_queue(struct bpf_raw_tracepoint_args *ctx) { return stamp(ctx); }
int on_block_rq_issue(struct bpf_raw_tracepoint_args *ctx) { return stamp(ctx); }

int on_block_rq_complete(struct bpf_raw_tracepoint_args *ctx)
{
    u64 *issued = stamp_of(ctx->args[0]);
    u32 zero = 0, index = bpf_get_smp_processor_id() << 12, *count = written.lookup(&zero);
    struct record *record;

    if (!issued || !count)
        return 0;
    index |= (*count)++ & 4095;
    record = records.lookup(&index);
    if (!record)
        return 0;
    *record = (struct record){ctx->args[0], *issued, bpf_ktime_get_ns(), bpf_get_current_pid_tgid()};
    return 0;
}
"""

TIMED = ("irq_handler_entry", "sys_enter")


if __name__ == "__main__":
    floor.run(
        PROGRAMS + floor.empty([name for name in sys.argv[1:] if name not in TIMED]),
        ("block_bio_queue", "block_rq_issue", "block_rq_complete", *sys.argv[1:]),
        [f"-DCPUS={os.cpu_count()}"],
    )
