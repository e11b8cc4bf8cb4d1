"""The measured table, for people (Markdown) and programs (JSON)."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tracer.bench.load import Workload
from tracer.bench.windows import Plan, ToolResult, Window

# Without a tool, the rate should be the same in all windows.
RESTLESS = 0.05

Results = dict[str, list[ToolResult]]


def as_json(plan: Plan, workloads: Sequence[Workload], results: Results) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "measured_unix_s": int(time.time()),
        "plan": asdict(plan),
        "workloads": [
            {"name": w.name, "title": w.title, "fio": w.fio, "tools": [tool.as_json() for tool in results[w.name]]}
            for w in workloads
        ],
    }


def _median(windows: list[Window], of: Callable[[Window], float]) -> float | None:
    return statistics.median(map(of, windows)) if windows else None


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _row(result: ToolResult) -> list[str]:
    found = result.ratio
    if not found:
        return [result.tool, "does not run", *[""] * 8]
    cpu_with = _median(result.with_it, lambda w: w.cpu_ns_per_io)
    cpu_without = _median(result.without, lambda w: w.cpu_ns_per_io)
    return [
        result.tool,
        f"**{found.value:.3f}**",
        "" if found.low is None or found.high is None else f"{found.low:.3f} - {found.high:.3f}",
        _number(_median(result.without, lambda w: w.iops)),
        f"{_number(_scaled(cpu_without, 1000), 2)} / {_number(_scaled(cpu_with, 1000), 2)}",
        _number(_scaled(result.bpf_ns_per_request, 1000), 2),
        _number(result.consumer_ns_per_record),
        _number(_scaled(result.resident_bytes, 1e6), 1),
        _number(_scaled(result.kernel_bytes, 1e6), 1),
        _number(result.lost),
    ]


COLUMNS = (
    "tool", "IOPS with / without", "95 % interval", "IOPS without", "CPU us per I/O without / with",
    "BPF us per request", "process ns per record", "resident MB", "kernel MB", "lost",
)  # fmt: skip


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(plan: Plan, workloads: Sequence[Workload], results: Results) -> str:
    """A table per workload; below it, why tools did not run and whether the machine was quiet."""
    windows = f"per tool {plan.blocks} blocks of windows without, with, with, without it, {plan.window_s:g} s each"
    out = [f"Kernel {platform.release()}, {os.cpu_count()} CPUs; {windows}, in one run of fio."]
    for workload in workloads:
        tools = results[workload.name]
        out += ["", f"### {workload.title}", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
        out += [_line(_row(tool)) for tool in tools]
        out += ["", *(f"- {tool.tool}: {tool.error}" for tool in tools if tool.error)]
        rates = [window.iops for tool in tools for window in tool.without]
        if len(rates) > 1:
            spread = statistics.stdev(rates) / statistics.fmean(rates)
            note = f"- Windows without any tool differ by {spread:.1%} (standard deviation)"
            out.append(f"{note}: **the machine was not quiet**." if spread > RESTLESS else f"{note}.")
    return "\n".join(out) + "\n"
