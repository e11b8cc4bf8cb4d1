"""The line that is on the screen while a phase runs: done, rate, p99, errors, I/O and lost events, time left."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any

from controller.fleet import Fleet
from controller.plan import Plan, PlannedPhase
from controller.progress import Progress

_EVERY_S = 1.0


class PhaseProgress:
    """Prints from entering to leaving; then one line with the phase's totals."""

    def __init__(self, plan: Plan, phase: PlannedPhase, fleet: Fleet, progress: Progress) -> None:
        self._phase = phase
        self._fleet = fleet
        self._progress = progress
        self._traced = [traced.node for traced in plan.trace.nodes]
        self._place = f"{plan.phases.index(phase) + 1}/{len(plan.phases)} {phase.name}"
        self._task: asyncio.Task[None] | None = None
        self._started = 0.0

    def __enter__(self) -> PhaseProgress:
        self._started = time.monotonic()
        self._task = asyncio.create_task(self._tick())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        self._progress.line(self.total())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self._progress.status(self.text())

    def text(self) -> str:
        """The line as it would be now."""
        clients = self._clients()
        planned = sum(shard.operations for shard in self._phase.shards)
        done = sum(int(status.get("operations") or 0) for status in clients)
        # Who has ended says for ever what its last second was.
        busy = [status for status in clients if status.get("state") != "done"]
        rate = sum(float(status.get("ops_per_s") or 0) for status in busy)
        errors = sum(int(status.get("errors") or 0) for status in clients)
        # Clients cannot be merged from their percentiles: the largest is shown, and called so.
        p99s = [float(status["p99_us"]) for status in busy if status.get("p99_us") is not None]
        warming = any(status.get("state") == "warmup" for status in clients)
        parts = [
            f"{self._place} " + ("warm-up" if warming else f"{100 * done // planned:3d} %"),
            f"{rate:,.0f} ops/s",
            f"p99 <= {max(p99s) / 1000:.1f} ms" if p99s else "p99 -",
            f"errors {errors}",
            *self._ios(),
        ]
        if done < planned and rate > 0 and not warming:
            parts.append(f"ETA {(planned - done) / rate:.0f} s")
        return "  ".join(parts)

    def total(self) -> str:
        """The line that stays when the phase has ended."""
        done = sum(int(status.get("operations") or 0) for status in self._clients())
        errors = sum(int(status.get("errors") or 0) for status in self._clients())
        seconds = time.monotonic() - self._started
        return "  ".join([f"{self._place} {done:,} operations in {seconds:.1f} s", f"errors {errors}", *self._ios()])

    def _clients(self) -> list[dict[str, Any]]:
        return [self._fleet.status.get((shard.client, self._phase.name), {}) for shard in self._phase.shards]

    def _ios(self) -> list[str]:
        said = [(node, self._fleet.status.get((node, "tracer"), {})) for node in self._traced]
        return [
            f"{node} {status['completions']:,} I/O ({status['dropped']} lost)"
            for node, status in said
            if {"completions", "dropped"} <= status.keys()  # it has counted nothing when it is ready
        ]
