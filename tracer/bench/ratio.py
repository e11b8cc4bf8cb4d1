"""How much of the undisturbed rate is left, with its interval. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom; the last one stands for all above.
# fmt: off
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
# fmt: on


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of the blocks' ratios and its 95 % interval; the bounds are None with a single block.

    What is asked for by `starts` was measured in as many runs of the same blocks: then each run is one measurement, for
    runs differ by more than blocks (where programs and their memory lie), and the interval is that of the runs.
    """

    value: float
    low: float | None
    high: float | None
    blocks: int


def between(before: float, with_it: float, after: float) -> tuple[float, float]:
    """A block of one window with, between two without.

    Those two by their geometric mean: by the arithmetic one a tool that costs nothing seems to cost a quarter of the
    windows' relative variance (0.4 % where they differ by 12 %), because the logarithms of ratios are averaged.
    """
    return with_it, math.sqrt(before * after)


def _by_start(values: Sequence[float], starts: int) -> list[Sequence[float]]:
    count = len(values) // starts
    return [values[at : at + count] for at in range(0, len(values), count)]


def of_blocks(blocks: Sequence[tuple[float, float]], starts: int = 1) -> Ratio:
    """Each block is (rate with, rate without), measured next to each other, so that drift cancels (A B B A).

    The interval is Student's, of the logarithms: ratios multiply.
    """
    logs = [math.log(with_it / without) for with_it, without in blocks]
    if starts > 1:
        logs = [statistics.fmean(each) for each in _by_start(logs, starts)]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, len(logs))
    t = T_975[min(len(logs) - 2, len(T_975) - 1)]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))


def median_of_blocks(blocks: Sequence[tuple[float, float]], starts: int = 1) -> Ratio:
    """The blocks' median ratio and its 95 % interval, between two of the blocks, which no distribution is assumed for.

    Where the load's pace jumps in some windows, this says more than a mean.
    """
    if starts > 1:
        each = _by_start([with_it / without for with_it, without in blocks], starts)
        return of_blocks([(statistics.median(ratios), 1.0) for ratios in each])
    ratios = sorted(with_it / without for with_it, without in blocks)
    count = len(ratios)
    below = -1  # so many ratios lie below the interval at most, and as many above
    ways, left = 1, 2**count // 40  # in which just `below + 1` blocks lie below the median; 2.5 % of all
    while (left := left - ways) >= 0:
        below += 1
        ways = ways * (count - below) // (below + 1)
    if below < 0:
        return Ratio(statistics.median(ratios), None, None, count)
    return Ratio(statistics.median(ratios), ratios[below], ratios[count - 1 - below], count)
