# SPDX-License-Identifier: Apache-2.0
"""The benchmark's figures: from what the clients and the JVM print to the table. Pure."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RETURN_OK = re.compile(r"^\[[A-Z-]+\], Return=OK, (\d+)", re.MULTILINE)
INTENDED_P50 = re.compile(r"^\[Intended-[A-Z-]+\], 50thPercentileLatency\(us\), ([\d.]+)", re.MULTILINE)
# the space before and after a collection; at exit every space by itself
COLLECTED = re.compile(r"(?:DefNew|Tenured): (\d+)K\(\d+K\)->(\d+)K\(\d+K\)")
SPACE_AT_EXIT = re.compile(r"(?:def new|tenured) generation +total \d+K, used (\d+)K")


@dataclass(frozen=True)
class Result:
    """The values of one measure: by variant, in the order of the repetitions."""

    title: str
    unit: str
    samples: dict[str, list[float]]


@dataclass(frozen=True)
class Spread:
    """Median and extremes of some values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        digits = 0 if abs(self.median) >= 100 else 1
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def slope(points: Sequence[tuple[int, float]]) -> float:
    """What each further operation adds between a short and a long run: start-up, which both have, cancels."""
    (short, at_short), (long, at_long) = points
    return (at_long - at_short) / (long - short)


def successes(output: str) -> int:
    """Operations that succeeded, from YCSB's result lines."""
    return sum(int(n) for n in RETURN_OK.findall(output))


def intended_p50_us(output: str) -> float:
    """The median intended latency of the operation for which it is greatest; percentiles cannot be averaged."""
    return max(float(p50) for p50 in INTENDED_P50.findall(output))


def allocated_bytes(log: str) -> int:
    """Bytes allocated up to the exit, from the serial collector's log with the tags gc,heap and gc,heap,exit.

    What a collection finds more than the one before it left has been allocated in between. Promotion makes the tenured
    generation grow only during collections, so it adds nothing unless something was allocated there directly.
    """
    kilobytes = 0
    left = {"DefNew": 0, "Tenured": 0}
    for line in log.splitlines():
        if found := COLLECTED.search(line):
            space = found.group(0).partition(":")[0]
            kilobytes += int(found.group(1)) - left[space]
            left[space] = int(found.group(2))
        elif found := SPACE_AT_EXIT.search(line):
            space = "DefNew" if "def new" in found.group(0) else "Tenured"
            kilobytes += int(found.group(1)) - left[space]
    return kilobytes * 1024


def markdown(results: Sequence[Result], reference: str, subject: str, with_log: str) -> str:
    """The table: medians with extremes, and how many times as much the reference costs (median of the pairs)."""
    lines = [f"| measure | {reference} | {subject} | ratio |", "|---|---|---|---|"]
    for result in results:
        theirs = result.samples[reference]
        for variant, values in result.samples.items():
            if variant != reference:
                title = result.title if variant == subject else f"{result.title}, {variant}"
                ratio = statistics.median(t / v if v else float("inf") for t, v in zip(theirs, values, strict=True))
                lines.append(f"| {title}: {result.unit} | {Spread.of(theirs)} | {Spread.of(values)} | {ratio:.1f} |")
        if with_log in result.samples:
            pairs = zip(result.samples[with_log], result.samples[subject], strict=True)
            cost = Spread.of([on - off for on, off in pairs])
            lines.append(f"| {result.title}, the operation log itself: {result.unit} | | {cost} | |")
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> list[dict[str, object]]:
    """All values, for machines."""
    return [{"title": r.title, "unit": r.unit, "samples": r.samples} for r in results]
