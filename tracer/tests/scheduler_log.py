"""What a thread did, by the kernel's own log of switches and wake-ups."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracer.tests.tracing import threads_of

WAKE_UP = re.compile(r"-(\d+) +\[\d+\] ..(\S).* sched_wakeup: .* pid=(\d+) .* target_cpu=(\d+)")
IN_INTERRUPT = "hHsZz"
#: Then an interrupt that comes while a program looks for a thread's span finds none (kernel commit e8b02296a6b8).
FINDS_NONE = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 2)
IDLE = "0"
SWITCH = re.compile(r"\[(\d+)\] .* prev_pid=(\d+) .* prev_state=(\S+) .* next_pid=(\d+) ")
AT = re.compile(r" (\d+)\.(\d{6}): sched_")


def hidden_from_programs(log: Path, pid: int) -> int:
    """How often a thread of the process woke up or got a CPU and no program can have seen it, by the kernel's own log.

    Those are the switches away from threads of process 1, which are not in the log either: the next one on the same CPU
    is away from a thread to which there was none. And the wake-ups that interrupt such a thread, or are not there. Of
    the idle task's the log may miss some that programs see. Before Linux 6.2, too, wake-ups that interrupt a thread.
    """
    running: dict[str, str] = {}
    asleep: set[str] = set()
    hidden: list[str] = []
    first = threads_of(1)
    for line in log.read_text().splitlines():
        if woken := WAKE_UP.search(line):
            interrupted, context, thread, cpu = woken.groups()
            may_find_none = FINDS_NONE and interrupted != IDLE and context in IN_INTERRUPT
            if interrupted not in first and not may_find_none:
                asleep.discard(thread)
            if thread in first and running.get(cpu) == IDLE:
                running[cpu] = thread
        elif switch := SWITCH.search(line):
            cpu, before, state, after = switch.groups()
            if running.get(cpu, before) != before and running[cpu] in first:
                hidden.append(before)
            if after in asleep:
                hidden.append(after)
            asleep -= {before, after}
            if not state.startswith("R"):
                asleep.add(before)
            running[cpu] = after
    threads = threads_of(pid)
    return sum(thread in threads for thread in hidden)


def runnable_ns(log: Path, sample: dict[str, int]) -> int:
    """For how long the span's thread was runnable without a CPU, by the kernel's own log.

    Not by the scheduler's account: where a wake-up has preempted the thread, that begins with the wake-up, before the
    thread leaves the CPU (RQCF_REQ_SKIP), 2.6 ms of 640 with 1,600 of them a second.
    """
    begin_ns, end_ns = sample["t_mono_ns"], sample["t_mono_ns"] + sample["total_ns"]
    thread, waited_ns, since_ns = str(sample["tid"]), 0, None
    for line in log.read_text().splitlines():
        if not (at := AT.search(line)):
            continue
        now_ns = int(at[1]) * 1_000_000_000 + int(at[2]) * 1000
        if (woken := WAKE_UP.search(line)) and woken[3] == thread:
            since_ns = since_ns or now_ns
        elif (switch := SWITCH.search(line)) and switch[2] == thread:
            since_ns = now_ns if switch[3].startswith("R") else None
        elif switch and switch[4] == thread and since_ns is not None:
            waited_ns += max(0, min(now_ns, end_ns) - max(since_ns, begin_ns))
            since_ns = None
    return waited_ns


def asleep_ns(log: Path, sample: dict[str, int], state: str) -> int | None:
    """For how long the span's thread slept in this state, by the kernel's own log.

    None: the log misses how it came back to a CPU, as it may where the idle task ran there.
    """
    begin_ns, end_ns = sample["t_mono_ns"], sample["t_mono_ns"] + sample["total_ns"]
    thread, slept_ns, since_ns = str(sample["tid"]), 0, None
    for line in log.read_text().splitlines():
        if not (at := AT.search(line)):
            continue
        now_ns = int(at[1]) * 1_000_000_000 + int(at[2]) * 1000
        woken, switch = WAKE_UP.search(line), SWITCH.search(line)
        if (woken and woken[3] == thread) or (switch and switch[4] == thread):
            if since_ns is not None:
                slept_ns += max(0, min(now_ns, end_ns) - max(since_ns, begin_ns))
            since_ns = None
        elif switch and switch[2] == thread:
            if since_ns is not None and begin_ns <= since_ns < end_ns:
                return None
            since_ns = now_ns if switch[3].startswith(state) else None
    return slept_ns
