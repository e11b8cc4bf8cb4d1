# SPDX-License-Identifier: Apache-2.0
"""The benchmark's figures: from what the clients and the JVM print to the table. Pure."""

import math
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


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """The median's 95 % interval: the innermost pair of values, of equal ranks from both ends, that is as sure as that.

    Whatever the distribution is, a value is above its median as often as not, so the ranks follow the binomial
    distribution (sign test). With fewer than six values the pair is the extremes, and less sure.
    """
    ordered, n = sorted(values), len(values)
    outside = [2 * sum(math.comb(n, below) for below in range(rank + 1)) / 2**n for rank in range(n // 2)]
    rank = max((r for r, probability in enumerate(outside) if probability <= 0.05), default=0)
    return ordered[rank], ordered[n - 1 - rank]


def markdown(results: Sequence[Result], reference: str, subject: str) -> str:
    """The table: medians with extremes, and how many times as much the reference costs (median of the pairs).

    What has not been measured of the reference are two variants of the subject, without something and with it: their
    row is the median of the pairs' differences with its 95 % interval.
    """
    lines = [f"| measure | {reference} | {subject} | ratio |", "|---|---|---|---|"]
    for result in results:
        if reference not in result.samples:
            without, extra = result.samples.values()
            differences = [b - a for a, b in zip(without, extra, strict=True)]
            low, high = interval_of_median(differences)
            cell = f"{statistics.median(differences):.1f} (95 %: {low:.1f} to {high:.1f}; {len(differences)} pairs)"
            lines.append(f"| {result.title}: {result.unit} | | {cell} | |")
            continue
        theirs = result.samples[reference]
        for variant, values in result.samples.items():
            if variant != reference:
                title = result.title if variant == subject else f"{result.title}, {variant}"
                ratio = statistics.median(t / v if v else float("inf") for t, v in zip(theirs, values, strict=True))
                lines.append(f"| {title}: {result.unit} | {Spread.of(theirs)} | {Spread.of(values)} | {ratio:.1f} |")
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> list[dict[str, object]]:
    """All values, for machines."""
    return [{"title": r.title, "unit": r.unit, "samples": r.samples} for r in results]
