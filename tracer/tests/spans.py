"""Tracing spans, and reading what was written of them."""

from __future__ import annotations

import csv
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer.tests.scheduler_log import hidden_from_programs
from tracer.tests.tracing import Trace, ftrace, tracing

NEEDS = [
    pytest.mark.bpf,
    pytest.mark.root,
    pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not account waiting"),
]
PARTS = ("compute", "vfs", "io", "lock", "run_queue", "other")
SCHEDULER_LOG = "scheduler.log"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def samples(path: Path) -> list[dict[str, int]]:
    """Of all threads, in the order of their ends; the parts of each add up to it."""
    found = [
        {name: int(value) for name, value in row.items() if name != "comm"} for row in rows(Path(f"{path}.samples"))
    ]
    for sample in found:
        assert sample["total_ns"] == sum(sample[f"{part}_ns"] for part in PARTS)
    return found


def total(path: Path, pid: int, column: str) -> int:
    return sum(int(row[column]) for row in rows(path) if int(row["pid"]) == pid)


def ended(path: Path, pid: int) -> int:
    """How many spans there were, with those whose times are not known because a switch to their thread was not seen."""
    return total(path, pid, "spans") + total(path, pid, "switch_not_seen")


@contextmanager
def tracing_spans(tmp_path: Path, disk: str, pid: int) -> Iterator[tuple[Trace, Path]]:
    """Spans without times are as many, at most, as the kernel hides wake-ups and switches of their threads."""
    path = tmp_path / "spans.csv"
    arguments = ("--device", disk, "--pid", str(pid), "--spans", str(path), "--span-sample", "1")
    with ftrace(tmp_path, "sched/sched_switch", "sched/sched_wakeup") as log:
        with tracing(tmp_path / "io.bin", *arguments) as trace:
            yield trace, path
        kept = tmp_path / SCHEDULER_LOG
        kept.write_text(log.read_text(errors="replace"))
        assert sum(int(row["switch_not_seen"]) for row in rows(path)) <= hidden_from_programs(kept, pid)


def traced_in_a_thread(run: Callable[[], None], disk: str, tmp_path: Path) -> Path:
    """The spans of this process, in a thread of which that ran."""
    done, read = threading.Event(), threading.Event()

    def run_and_stay() -> None:
        run()
        done.set()
        read.wait()  # is there as long as the kernel's log is read

    thread = threading.Thread(target=run_and_stay)
    try:
        with tracing_spans(tmp_path, disk, os.getpid()) as (trace, path):
            thread.start()
            assert done.wait(30)
            assert trace.stop() == 0
    finally:
        read.set()
        if thread.ident:  # not where the trace was refused, or the backend has no spans
            thread.join()
    return path
