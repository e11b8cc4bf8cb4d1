"""The least that a tracer does: times at queue, issue and completion, a record of 64 bytes for each request, in a file.

Bios are not linked to their requests, addresses that hash alike are not told apart, nobody looks at a record, and one
that is overwritten before it is read is missed: no measurement, but no tracer with records costs less. Arguments: the
file, and more tracepoints. At irq_handler_entry a time is taken, without which driver and device are not told apart; at
sys_enter, too, in the calls of the bench, without which there is no VFS layer; the programs at others do nothing. Needs
BCC, so the system's Python; reads no field of the kernel's structures, so headers of another kernel do no harm.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import floor  # type: ignore[import-not-found]

PROGRAMS = """
#include <linux/bpf.h>

struct record { u64 address, issue_ns, done_ns, task, unused[4]; };
struct written { u64 count, unused[15]; };

BPF_ARRAY(stamps, u64, 1 << 16);
BPF_F_TABLE("array", u32, struct written, written, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct record, records, CPUS << LOG_BITS, BPF_F_MMAPABLE);
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
    u32 cpu = bpf_get_smp_processor_id(), index;
    struct written *log = written.lookup(&cpu);
    struct record *record;

    if (!issued || !log)
        return 0;
    index = cpu << LOG_BITS | log->count++ & ((1 << LOG_BITS) - 1);
    record = records.lookup(&index);
    if (!record)
        return 0;
    *record = (struct record){ctx->args[0], *issued, bpf_ktime_get_ns(), bpf_get_current_pid_tgid()};
    return 0;
}
"""

TIMED = ("irq_handler_entry", "sys_enter")
CPUS = os.cpu_count() or 1
RECORD_BYTES = 64
HEAD_BYTES = 128
LOG_BITS = 15  # 32,768 records of a CPU: more than come within a pause


def reader_to(file: Path) -> Callable[[Any], Callable[[], None]]:
    """Makes of the loaded programs what appends all new records to the file."""

    def reader(bpf: Any) -> Callable[[], None]:
        log_bytes = RECORD_BYTES << LOG_BITS
        heads = mmap.mmap(bpf["written"].map_fd, max(CPUS * HEAD_BYTES, mmap.PAGESIZE), prot=mmap.PROT_READ)
        records = memoryview(mmap.mmap(bpf["records"].map_fd, CPUS * log_bytes, prot=mmap.PROT_READ))
        counts = memoryview(heads).cast("Q")
        out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        until = [0] * CPUS

        def read() -> None:
            for cpu in range(CPUS):
                end = counts[cpu * HEAD_BYTES // 8] * RECORD_BYTES
                while until[cpu] < end:
                    at = until[cpu] % log_bytes
                    whole = records[cpu * log_bytes :][at : min(at + end - until[cpu], log_bytes)]
                    until[cpu] += os.write(out, whole)

        return read

    return reader


if __name__ == "__main__":
    floor.run(
        PROGRAMS + floor.empty([name for name in sys.argv[2:] if name not in TIMED]),
        ("block_bio_queue", "block_rq_issue", "block_rq_complete", *sys.argv[2:]),
        [f"-DCPUS={CPUS}", f"-DLOG_BITS={LOG_BITS}"],
        reader_to(Path(sys.argv[1])),
    )
