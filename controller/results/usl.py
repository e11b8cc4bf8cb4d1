"""The Universal Scalability Law (N. J. Gunther, 1993), fitted to repeated measurements. Pure.

    X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))

lambda is the throughput of one server as the law sees it, sigma the share of the work that servers do one after the
other (contention), kappa what each pair of servers costs in agreement (coherence). None can be negative.

Divided by X and n the law is linear in a = 1/lambda, b = sigma/lambda and c = kappa/lambda. The fit minimises the
squares of the *relative* deviations 1 - X_i / X(n_i), for runs of fast clusters scatter more in absolute terms: a
linear least-squares problem with three non-negative unknowns, whose optimum is the best of the seven problems in which
each unknown is free or 0. No starting value, no iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.results.intervals import CONFIDENCE, Estimate

#: Three unknowns need as many different sizes.
FEWEST_SIZES = 3
RESAMPLES = 2000
_SEED = 20261121
_FREE = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A fitted law. ``peak_servers``: where throughput is largest, sqrt((1 - sigma) / kappa); None where it never falls
    again. ``note`` says why something is missing."""

    lambda_ops_per_s: Estimate
    sigma: Estimate
    kappa: Estimate
    peak_servers: float | None
    runs: int
    note: str = ""

    def throughput(self, servers: float) -> float:
        """Operations per second that the law expects of so many servers."""
        rate, sigma, kappa = self.lambda_ops_per_s.value, self.sigma.value, self.kappa.value
        return rate * servers / (1 + sigma * (servers - 1) + kappa * servers * (servers - 1))


def fit(measured: Mapping[int, Sequence[float]]) -> Law | str:
    """The law for throughputs (operations/s, > 0) by number of servers; else one clause why there is none.

    Intervals are percentiles of a bootstrap over the repeats, so every size must have been measured twice."""
    sizes = sorted(size for size, runs in measured.items() if runs)
    if len(sizes) < FEWEST_SIZES:
        return f"three sizes are needed for three parameters, {len(sizes)} measured"
    servers = np.array([size for size in sizes for _ in measured[size]], dtype=float)
    throughput = np.array([value for size in sizes for value in measured[size]], dtype=float)
    if (throughput <= 0).any():
        return "a run without any throughput has no place in the law"
    rate, sigma, kappa = (float(values[0]) for values in _parameters(servers, throughput[np.newaxis]))
    if not math.isfinite(rate):
        return "the throughputs do not follow the law: no finite lambda comes nearest"
    notes = [] if sigma > 0 or kappa > 0 else ["neither contention nor coherence: at least as fast as linear"]
    intervals: list[tuple[float | None, float | None]] = [(None, None)] * 3
    if min(len(measured[size]) for size in sizes) >= 2:
        intervals = _intervals([np.array(measured[size], dtype=float) for size in sizes], servers)
        if intervals[0][0] is None:
            notes.append("no interval: the runs differ too much")
    else:
        notes.append("no interval: not every size was measured twice")
    return Law(
        lambda_ops_per_s=Estimate(rate, *intervals[0]),
        sigma=Estimate(sigma, *intervals[1]),
        kappa=Estimate(kappa, *intervals[2]),
        peak_servers=math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else None,
        runs=len(servers),
        note="; ".join(notes),
    )


def _parameters(servers: Floats, throughput: Floats) -> tuple[Floats, Floats, Floats]:
    """lambda, sigma and kappa of each row of ``throughput`` (resamples x runs); not finite where a is 0."""
    basis = np.stack([np.ones_like(servers), servers - 1, servers * (servers - 1)], axis=1)
    # Relative deviations: each row of the linear problem is divided by its own right-hand side n/X.
    weighted = basis * (throughput / servers)[..., np.newaxis]
    best = np.zeros((len(throughput), 3))
    least = np.full(len(throughput), np.inf)
    for free in _FREE:
        part = weighted[..., free]
        found = np.zeros_like(best)
        gram = np.einsum("rij,rik->rjk", part, part)
        found[:, free] = np.linalg.solve(gram, part.sum(axis=1)[..., np.newaxis])[..., 0]
        deviations = ((1 - np.einsum("rij,rj->ri", weighted, found)) ** 2).sum(axis=1)
        better = (found >= 0).all(axis=1) & (deviations < least)
        best[better], least[better] = found[better], deviations[better]
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 / best[:, 0], best[:, 1] / best[:, 0], best[:, 2] / best[:, 0]


def _intervals(by_size: Sequence[Floats], servers: Floats) -> list[tuple[float | None, float | None]]:
    """Bootstrap of each size's relative deviations from its mean, drawn from those of all sizes together.

    A deviation from a mean of r runs is too small by sqrt((r - 1) / r); three repeats make that 18 %."""
    random = np.random.default_rng(_SEED)
    centres = np.concatenate([np.full(len(runs), runs.mean()) for runs in by_size])
    deviations = np.concatenate([(runs / runs.mean() - 1) * math.sqrt(len(runs) / (len(runs) - 1)) for runs in by_size])
    drawn = centres * (1 + random.choice(deviations, size=(RESAMPLES, len(servers))))
    tail = (1 - CONFIDENCE) / 2 * 100
    parameters = _parameters(servers, np.maximum(drawn, centres * 1e-3))  # a throughput stays positive
    if not np.isfinite(parameters[0]).all():
        return [(None, None)] * 3
    ends = [np.percentile(values, [tail, 100 - tail]) for values in parameters]
    return [(float(low), float(high)) for low, high in ends]
