"""The line of a running phase, from what its clients and tracers have said last; every number is worked by hand."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any, cast

import pytest

from controller import phase_progress
from controller.fleet import Fleet
from controller.phase_progress import PhaseProgress
from controller.progress import Progress
from controller.tests.test_plan import plan

MEASURING = {"state": "measuring", "operations": 250, "ops_per_s": 1000.4, "errors": 3, "p99_us": 1540.0}


def line(status: dict[tuple[str, str], dict[str, Any]], stream: io.StringIO | None = None) -> PhaseProgress:
    """Of the second phase, in which two clients do 1001 operations, on two traced nodes."""
    made = plan(2, {"recordcount": 100, "operationcount": 1001}, servers=2)
    fleet = Fleet.__new__(Fleet)  # without agents
    fleet.status = status
    return PhaseProgress(made, made.phases[1], fleet, Progress(stream or io.StringIO()))


def client(number: int, **status: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(f"client{number}", "w-run"): status}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "2/2 w-run   0 %  0 ops/s  p99 -  errors 0"),
        (
            client(0, **MEASURING) | client(1, **{**MEASURING, "operations": 251, "p99_us": 2460.0}),
            # 501 of 1001; the 500 that are left at 2000.8 a second are 0.2499 s.
            "2/2 w-run  50 %  2,001 ops/s  p99 <= 2.5 ms  errors 6  ETA 0 s",
        ),
        (client(0, **MEASURING), "2/2 w-run  24 %  1,000 ops/s  p99 <= 1.5 ms  errors 3  ETA 1 s"),
        # The other one is still preparing: nobody knows how long that takes.
        (client(0, **MEASURING) | client(1, state="warmup"), "2/2 w-run warm-up  1,000 ops/s  p99 <= 1.5 ms  errors 3"),
        # Who has ended does nothing any more: its last second is not a part of the rate.
        (
            client(0, **{**MEASURING, "state": "done", "operations": 501, "p99_us": 9000.0})
            | client(1, state="measuring", operations=450, ops_per_s=25, errors=0),
            "2/2 w-run  95 %  25 ops/s  p99 -  errors 3  ETA 2 s",
        ),
        (
            client(0, state="measuring", operations=1000, ops_per_s=0, errors=0),
            "2/2 w-run  99 %  0 ops/s  p99 -  errors 0",
        ),
        (
            client(0, state="measuring", operations=1001, ops_per_s=9, errors=0)
            | {("node1", "tracer"): {"completions": 1234567, "dropped": 8}, ("node2", "tracer"): {"completions": 1}},
            "2/2 w-run 100 %  9 ops/s  p99 -  errors 0  node1 1,234,567 I/O (8 lost)",
        ),
        # Nobody knows yet what it has counted.
        ({("node0", "tracer"): {"state": "ready"}}, "2/2 w-run   0 %  0 ops/s  p99 -  errors 0"),
        (
            client(0, state="measuring", operations=1000, ops_per_s=0.5),
            "2/2 w-run  99 %  0 ops/s  p99 -  errors 0  ETA 2 s",
        ),
        # Of another phase.
        ({("client0", "w-load"): MEASURING}, "2/2 w-run   0 %  0 ops/s  p99 -  errors 0"),
    ],
)
def test_the_line_is_what_was_said_last(status: dict[tuple[str, str], dict[str, Any]], text: str) -> None:
    assert line(status).text() == text


def test_a_phase_leaves_one_line_with_its_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(phase_progress, "_EVERY_S", 0.02)
    status = (
        client(0, **MEASURING)
        | client(1, operations=1234, errors=1)
        | {("node0", "tracer"): {"completions": 5, "dropped": 0}}
    )
    screen = Terminal()

    async def use() -> None:
        with line(status, screen) as progress:
            task = cast("asyncio.Task[None]", progress._task)
            await asyncio.sleep(0.3)
        await asyncio.wait([task], timeout=5)
        assert task.cancelled(), "it would go on over the lines of the next phase"

    asyncio.run(use())
    assert re.search(r" 0 operations in .* s  errors 0$", line({}).total())
    *shown, last = re.split(r"\r\x1b\[2K", screen.getvalue())[1:]
    assert len(shown) > 1 and all("2/2 w-run 148 %" in text for text in shown)
    match = re.fullmatch(r"\[00:00\] 2/2 w-run 1,484 operations in (.+) s  errors 4  node0 5 I/O \(0 lost\)\n", last)
    assert match is not None, last
    assert 0.3 <= float(match[1]) < 30
