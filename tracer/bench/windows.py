"""Windows with and without a tool in one run of the load, in the order without, with, with, without."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tracer.bench import ratio
from tracer.bench.counters import bpf_statistics, busy_cpu_ns, requests, resident_bytes
from tracer.bench.load import Load, LoadError
from tracer.bench.tools import Attached, Tool, ToolError

OUTPUT_ROOT = Path("/dev/shm")  # noqa: S108  (what tools write must not become I/O of the disk under test)

STANDSTILL_S = 30


@dataclass(frozen=True)
class Plan:
    """How long, how often. `settle_s` passes after each attaching and detaching and is not measured."""

    blocks: int
    window_s: float
    settle_s: float


FULL = Plan(blocks=10, window_s=3.0, settle_s=0.5)
QUICK = Plan(blocks=3, window_s=1.0, settle_s=0.2)


@dataclass(frozen=True)
class Window:
    """I/Os per second, and the CPU time per I/O of everything on the machine."""

    iops: float
    cpu_ns_per_io: float


@dataclass
class ToolResult:
    """One cell of the table. What was not measured is None; `error` says why a tool gave nothing."""

    tool: str
    own: bool = False
    error: str = ""
    ratio: ratio.Ratio | None = None
    without: list[Window] = field(default_factory=list)
    with_it: list[Window] = field(default_factory=list)
    bpf_ns_per_request: float | None = None
    resident_bytes: int | None = None
    kernel_bytes: int | None = None
    start_s: float | None = None
    consumer_ns_per_record: float | None = None
    records: int | None = None
    lost: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def window(load: Load, seconds: float) -> Window:
    begin_ns, begin_ios, begin_cpu_ns = time.monotonic_ns(), load.ios(), busy_cpu_ns()
    time.sleep(seconds)
    deadline = time.monotonic() + STANDSTILL_S
    while load.ios() == begin_ios:  # a machine with far more work than CPUs: the window lasts until something came
        if time.monotonic() > deadline:
            raise LoadError(f"the load moved nothing for {STANDSTILL_S} s")
        time.sleep(0.01)
    ios, cpu_ns = load.ios() - begin_ios, busy_cpu_ns() - begin_cpu_ns
    return Window(ios / (time.monotonic_ns() - begin_ns) * 1e9, cpu_ns / ios)


def _settled_window(load: Load, plan: Plan) -> Window:
    time.sleep(plan.settle_s)
    return window(load, plan.window_s)


@contextmanager
def tool_attached(tool: Tool, device: str) -> Iterator[Attached]:
    folder = Path(tempfile.mkdtemp(dir=OUTPUT_ROOT, prefix="strata-bench-"))
    try:
        attached = Attached(tool, device, folder)
        try:
            yield attached
        finally:
            attached.detach()
    finally:
        shutil.rmtree(folder)


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _bpf_ns_per_request(tool: Tool, load: Load, plan: Plan) -> float | None:
    """In a window of its own, because the statistics cost time themselves. The probes see the requests of all disks, so
    it is per request of all of them; on TCP, where hardly any is made, per request and response.
    """
    done = load.ios if load.workload.medium == "network" else requests
    with bpf_statistics(), tool_attached(tool, load.device) as attached:
        if not attached.objects.programs:
            return None
        time.sleep(plan.settle_s)
        begin_ns, begin = attached.objects.run_time_ns(), done()
        time.sleep(plan.window_s)
        completed = done() - begin
        return (attached.objects.run_time_ns() - begin_ns) / completed if completed else None


def _block(tool: Tool, load: Load, plan: Plan, result: ToolResult) -> Attached:
    """Adds one window without, two with, one without."""
    before = _settled_window(load, plan)
    with tool_attached(tool, load.device) as attached:
        with_it = [_settled_window(load, plan), _settled_window(load, plan)]
        result.resident_bytes = max(result.resident_bytes or 0, resident_bytes(attached.pid))
        result.kernel_bytes = attached.objects.kernel_bytes() or None
        result.start_s = attached.start_s
    after = _settled_window(load, plan)
    result.without += [before, after]
    result.with_it += with_it
    return attached


def measure(tool: Tool, load: Load, plan: Plan) -> ToolResult:
    """All windows of one tool under one load. A tool that does not run here gives a result with `error`."""
    result = ToolResult(tool.name, tool.own)
    ended: list[Attached] = []
    try:
        for _ in range(plan.blocks):
            ended.append(_block(tool, load, plan, result))
        result.bpf_ns_per_request = _bpf_ns_per_request(tool, load, plan)
    except ToolError as error:
        result.error = str(error)
    if ended:
        result.ratio = ratio.of_blocks(
            [
                (sum(w.iops for w in result.with_it[i : i + 2]), sum(w.iops for w in result.without[i : i + 2]))
                for i in range(0, len(result.with_it), 2)
            ]
        )
        result.records, result.lost = _total([one.records for one in ended]), _total([one.lost for one in ended])
        if result.records and load.workload.medium != "network":  # hardly any there
            result.consumer_ns_per_record = sum(one.cpu_ns for one in ended) / result.records
    return result
