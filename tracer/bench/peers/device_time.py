"""Starts a load that has one I/O at a time, and tells it how long the device took: from an issue to the interrupt.

Of several requests under way at once it is the time from the first one's issue to the first interrupt; what others do
on any disk is in it. Arguments: the CPU to run the load on, the disk's interrupts (with commas between), the command;
the map's file descriptor is added to that. At SIGUSR1 the program at the issue is attached anew, behind those that have
come meanwhile: what they take is then before that time. The one at the interrupt stays in front of all that come later:
what those take is behind it. Needs BCC, so the system's Python; reads no field of the kernel's structures: headers of
another kernel do no harm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import floor  # type: ignore[import-not-found]

PROGRAMS = """
#include <linux/bpf.h>

struct device_time { u64 device_ns, interrupts, issued_ns; };
BPF_F_TABLE("array", u32, struct device_time, times, 1, BPF_F_MMAPABLE);

int on_block_rq_issue(struct bpf_raw_tracepoint_args *ctx)
{
    u32 zero = 0;
    struct device_time *time = times.lookup(&zero);

    if (time && !time->issued_ns)
        time->issued_ns = bpf_ktime_get_ns();
    return 0;
}

int on_irq_handler_entry(struct bpf_raw_tracepoint_args *ctx)
{
    u32 zero = 0;
    int irq = ctx->args[0];
    struct device_time *time = times.lookup(&zero);

    if (!time || !time->issued_ns || !(INTERRUPTS))
        return 0;
    time->device_ns += bpf_ktime_get_ns() - time->issued_ns;
    time->issued_ns = 0;
    time->interrupts++;
    return 0;
}
"""


def main(cpu: int, interrupts: Sequence[str], command: Sequence[str]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {*floor.ENDS, signal.SIGUSR1})
    bpf = floor.BPF(text=PROGRAMS.replace("INTERRUPTS", " || ".join(f"irq == {int(each)}" for each in interrupts)))
    bpf.attach_raw_tracepoint(tp="irq_handler_entry", fn_name="on_irq_handler_entry")
    bpf.attach_raw_tracepoint(tp="block_rq_issue", fn_name="on_block_rq_issue")
    times = bpf["times"]
    with subprocess.Popen([*command, str(times.map_fd)], pass_fds=[times.map_fd]) as load:
        os.sched_setaffinity(load.pid, {cpu})
        floor.say("ready")
        while signal.sigwait({*floor.ENDS, signal.SIGUSR1}) not in floor.ENDS and load.poll() is None:
            bpf.detach_raw_tracepoint(tp="block_rq_issue")
            bpf.attach_raw_tracepoint(tp="block_rq_issue", fn_name="on_block_rq_issue")
            floor.say("on")
        load.kill()
    bpf.cleanup()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:])
