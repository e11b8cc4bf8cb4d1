"""The run's time axis: its start, its phases and its buckets, all in the controller's clock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ibis.expr.types as ir

from controller.errors import DataError

#: A run that was cut off may have gone on after its last event; what lasts longer than it by more is damaged.
_UNRECORDED_NS = 24 * 3600 * 1_000_000_000

RUN_START, RUN_END = "run_start", "run_end"
PHASE_START, PHASE_END = "phase_start", "phase_end"


@dataclass(frozen=True)
class Span:
    """A phase of the run, [start, end). `complete` is false when its end was never recorded."""

    phase: str
    start_unix_ns: int
    end_unix_ns: int
    complete: bool = True


@dataclass(frozen=True)
class Timeline:
    """Start of the run (t_us = 0), its last recorded instant, its phases in order, its bucket length."""

    start_unix_ns: int
    end_unix_ns: int
    spans: tuple[Span, ...]
    bucket_ns: int

    def bucket_start_us(self, t_unix_ns: int) -> int:
        """Start of the bucket that holds an instant, in us since the run's start (negative before it)."""
        return (t_unix_ns - self.start_unix_ns) // self.bucket_ns * self.bucket_us

    @property
    def longest_ns(self) -> int:
        """Nothing that was measured in the run can have lasted longer."""
        return self.end_unix_ns - self.start_unix_ns + _UNRECORDED_NS

    @property
    def bucket_us(self) -> int:
        return self.bucket_ns // 1000

    def buckets(self, start_unix_ns: int, end_unix_ns: int) -> range:
        """`bucket_start_us` of every bucket that [start, end) touches."""
        if end_unix_ns <= start_unix_ns:
            return range(0)
        first, last = self.bucket_start_us(start_unix_ns), self.bucket_start_us(end_unix_ns - 1)
        return range(first, last + 1, self.bucket_us)


def bucket_of(t_unix_ns: ir.IntegerValue, timeline: Timeline) -> ir.IntegerValue:
    """Floor to the bucket in whole numbers, also for times before the run's start."""
    since = t_unix_ns - timeline.start_unix_ns
    length = timeline.bucket_ns
    inside = ((since % length) + length) % length
    return ((since - inside) // 1000).cast("int64")


def read_timeline(events: list[dict[str, Any]], bucket_ns: int) -> Timeline:
    """The time axis that events.jsonl describes.

    A phase without an end (the run was cut off) lasts until the last event. A phase that starts before the
    previous one has ended, or ends before it starts, is a DataError: I/O could not be attributed.
    """
    starts = [event["t_unix_ns"] for event in events if event["event"] == RUN_START]
    if len(starts) != 1:
        raise DataError(f"events.jsonl has {len(starts)} `{RUN_START}` events, not one")
    last = max(event["t_unix_ns"] for event in events)
    spans: list[Span] = []
    opened: tuple[str, int] | None = None
    for event in events:
        if event["event"] == PHASE_START:
            if opened is not None:
                spans.append(Span(*opened, event["t_unix_ns"], complete=False))
            opened = (_phase(event), event["t_unix_ns"])
        elif event["event"] == PHASE_END:
            if opened is None or opened[0] != _phase(event) or event["t_unix_ns"] < opened[1]:
                raise DataError(f"events.jsonl ends phase {_phase(event)!r}, which was not running then")
            spans.append(Span(*opened, event["t_unix_ns"]))
            opened = None
    if opened is not None:
        spans.append(Span(*opened, last, complete=False))
    _refuse_repeated_or_overlapping(spans)
    return Timeline(starts[0], last, tuple(spans), bucket_ns)


def _phase(event: dict[str, Any]) -> str:
    phase = event.get("phase")
    if not isinstance(phase, str) or not phase:
        raise DataError(f"events.jsonl: a {event['event']} event names no phase")
    return phase


def _refuse_repeated_or_overlapping(spans: list[Span]) -> None:
    names = [span.phase for span in spans]
    if len(set(names)) != len(names):
        raise DataError(f"events.jsonl starts a phase twice ({', '.join(names)})")
    for before, after in pairwise(spans):
        if after.start_unix_ns < before.end_unix_ns:
            raise DataError(f"events.jsonl: phases {before.phase!r} and {after.phase!r} overlap")
