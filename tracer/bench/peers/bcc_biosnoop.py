"""A line per request, with BCC: a ring buffer and a Python callback. Runs under the system's Python, which has bcc.

Only arguments of tracepoints are read, whose layout the running kernel tells; so headers of another kernel do no harm.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

from bcc import BPF  # type: ignore[import-not-found]

PROGRAM = r"""
struct key { u32 dev; u64 sector; };
struct begin { u64 ns; u32 pid; char comm[16]; };
struct event { u64 ns, latency_ns, sector; u32 dev, sectors, pid; char comm[16]; };

BPF_HASH(begun, struct key, struct begin, 10240);
BPF_RINGBUF_OUTPUT(events, 4096);
BPF_ARRAY(lost, u64, 1);

TRACEPOINT_PROBE(block, block_rq_issue)
{
    struct key key = {};
    struct begin begin = {.ns = bpf_ktime_get_ns(), .pid = bpf_get_current_pid_tgid() >> 32};

    key.dev = args->dev;
    key.sector = args->sector;
    bpf_get_current_comm(begin.comm, sizeof(begin.comm));
    begun.update(&key, &begin);
    return 0;
}

TRACEPOINT_PROBE(block, block_rq_complete)
{
    struct event event = {.ns = bpf_ktime_get_ns(), .sectors = args->nr_sector};
    struct key key = {};
    struct begin *begin;

    key.dev = event.dev = args->dev;
    key.sector = event.sector = args->sector;
    begin = begun.lookup(&key);
    if (!begin)
        return 0;
    event.latency_ns = event.ns - begin->ns;
    event.pid = begin->pid;
    __builtin_memcpy(event.comm, begin->comm, sizeof(event.comm));
    begun.delete(&key);
    if (events.ringbuf_output(&event, sizeof(event), 0))
        lost.atomic_increment(0);
    return 0;
}
"""


def main() -> None:
    bpf = BPF(text=PROGRAM)
    records = 0
    stopped = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    def on_event(_context: object, data: object, _size: int) -> int:
        nonlocal records
        event = bpf["events"].event(data)
        records += 1
        sys.stdout.write(f"{event.ns} {event.pid} {event.comm.decode(errors='replace')} {event.dev} {event.sector} "
                         f"{event.sectors * 512} {event.latency_ns}\n")  # fmt: skip
        # The poll returns when the ring is empty, which under load is never.
        return -1 if stopped else 0

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    bpf["events"].open_ring_buffer(on_event)
    while not stopped:
        bpf.ring_buffer_poll(100)
    print(f"records {records} lost {bpf['lost'][0].value}", file=sys.stderr)


if __name__ == "__main__":
    main()
