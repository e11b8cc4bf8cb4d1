"""95 % intervals over repeated runs: of a mean, and of the quotient of two means. Pure.

Few repeats are the rule, so Student's t it is. Nothing of one run alone has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; ``low`` and ``high`` are None where nothing says how much runs differ."""

    value: float
    low: float | None = None
    high: float | None = None


def mean(values: Sequence[float]) -> Estimate:
    """Mean over at least one run, of something that cannot be negative; so its interval does not reach below zero."""
    centre = fmean(values)
    if len(values) < 2:
        return Estimate(centre)
    margin = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Estimate(centre, max(centre - margin, 0.0), centre + margin)


def quotient(values: Sequence[float], reference: Sequence[float]) -> Estimate:
    """Mean of ``values`` by the mean of ``reference``, both positive and of independent runs.

    The interval is that of the logarithm's difference (delta method), with the degrees of freedom of the smaller
    sample: the cautious form of Welch's test.
    """
    value = fmean(values) / fmean(reference)
    fewest = min(len(values), len(reference))
    if fewest < 2:
        return Estimate(value)
    error = math.sqrt(sum((stdev(sample) / fmean(sample)) ** 2 / len(sample) for sample in (values, reference)))
    factor = math.exp(t_quantile(fewest - 1) * error)
    return Estimate(value, value / factor, value * factor)


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t for which Student's distribution has ``confidence`` of its mass within -t..t; ``freedom`` >= 1."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(80):  # halves to the last bit of a double
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Mass within -t..t: the closed form for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2 == 1
    term = math.cos(theta) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= math.cos(theta) ** 2 * k / (k + 1)
        total += term
    return 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
