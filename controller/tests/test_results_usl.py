"""The law and its intervals against data of known parameters, a search over a grid and printed tables."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.results.intervals import mean, quotient, t_quantile
from controller.results.usl import Law, fit

SIZES = (1, 2, 3, 4, 5)


def law(servers: float, rate: float, sigma: float, kappa: float) -> float:
    return rate * servers / (1 + sigma * (servers - 1) + kappa * servers * (servers - 1))


def fitted(measured: dict[int, list[float]]) -> Law:
    found = fit(measured)
    assert isinstance(found, Law), found
    return found


def noisy(random: np.random.Generator, truth: dict[str, float]) -> dict[int, list[float]]:
    """Three runs on each size, with a scatter of 2 %."""
    return {n: [law(n, *truth.values()) * (1 + 0.02 * random.standard_normal()) for _ in range(3)] for n in SIZES}


@given(
    rate=st.floats(1, 1e7),
    sigma=st.one_of(st.just(0.0), st.floats(0.001, 0.95)),
    kappa=st.one_of(st.just(0.0), st.floats(0.0001, 0.2)),
    sizes=st.sets(st.integers(1, 12), min_size=3),
)
def test_data_that_follow_the_law_give_its_parameters(rate: float, sigma: float, kappa: float, sizes: set[int]) -> None:
    found = fitted({n: [law(n, rate, sigma, kappa)] * 2 for n in sizes})
    assert found.lambda_ops_per_s.value == pytest.approx(rate, rel=1e-4)
    assert found.sigma.value == pytest.approx(sigma, rel=1e-3, abs=1e-5)
    assert found.kappa.value == pytest.approx(kappa, rel=1e-3, abs=1e-5)
    assert ("neither contention nor coherence" in found.note) == (found.sigma.value == found.kappa.value == 0)
    assert found.throughput(max(sizes)) == pytest.approx(law(max(sizes), rate, sigma, kappa), rel=1e-4)
    if kappa > 0:
        assert found.peak_servers is not None
        peak = found.peak_servers
        assert law(peak, rate, sigma, kappa) >= max(law(peak * f, rate, sigma, kappa) for f in (0.9, 1.1)) * (1 - 1e-9)


@given(st.lists(st.floats(50, 5000), min_size=5, max_size=5))
def test_no_other_law_is_nearer(throughputs: list[float]) -> None:
    """Whatever was measured: a search around the fit and over a coarse grid finds nothing better."""
    measured = dict(zip(SIZES, throughputs, strict=True))

    def deviation(rate: float, sigma: float, kappa: float) -> float:
        return sum((1 - value / law(n, rate, sigma, kappa)) ** 2 for n, value in measured.items())

    found = fit({n: [value] for n, value in measured.items()})
    assume(isinstance(found, Law))
    assert isinstance(found, Law)
    rate, sigma, kappa = found.lambda_ops_per_s.value, found.sigma.value, found.kappa.value
    assert sigma >= 0 and kappa >= 0
    least = deviation(rate, sigma, kappa)
    steps = [
        (rate * f, sigma + s, kappa + k) for f, s, k in product((0.99, 1, 1.01), (0, 1e-3, -1e-3), (0, 1e-4, -1e-4))
    ]
    grid = list(product(np.geomspace(10, 10_000, 25), np.linspace(0, 3, 10), np.linspace(0, 1, 10)))
    others = [deviation(*p) for p in [*steps, *grid] if p[1] >= 0 and p[2] >= 0]
    assert least <= min(others) * (1 + 1e-9) + 1e-12


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(5)
    truth = {"lambda_ops_per_s": 1000.0, "sigma": 0.2, "kappa": 0.02}
    rounds = 150
    laws = [fitted(noisy(random, truth)) for _ in range(rounds)]
    held = dict.fromkeys(truth, 0)
    # How the parameters scatter, by the derivatives of the law's logarithm; what is normal lies within 1.96 standard
    # deviations 95 times of 100. A deviation from ten degrees of freedom is too small by 2.5 %.
    n: Any = np.repeat(SIZES, 3)
    divisor = 1000 * n / law(n, *truth.values())
    slopes = np.stack([np.full(len(n), 1 / 1000), -(n - 1) / divisor, -n * (n - 1) / divisor], axis=1)
    scatter = 0.02 * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    expected = dict(zip(truth, 2 * 1.96 * 0.975 * scatter, strict=True))
    for name, true in truth.items():
        found = [getattr(one, name) for one in laws]
        held[name] = sum(of.low <= true <= of.high for of in found)
        below, above = (
            fmean(lengths) for lengths in zip(*((of.value - of.low, of.high - of.value) for of in found), strict=True)
        )
        assert below + above == pytest.approx(expected[name], rel=0.03)
        assert above == pytest.approx(below, rel=0.03)
    # 95 % of 150 is 142.5 with a standard deviation of 2.7.
    assert all(count >= 132 for count in held.values()), held
    assert any(count < rounds for count in held.values()), "an interval that always holds says nothing"


def test_faster_than_linear_is_at_the_bound_and_said() -> None:
    found = fitted({n: [100.0 * n**1.3] * 2 for n in SIZES})
    assert (found.sigma.value, found.kappa.value, found.peak_servers) == (0, 0, None)
    assert "at least as fast as linear" in found.note


def test_one_repeat_has_no_interval_and_says_so() -> None:
    found = fitted({n: [law(n, 100, 0.1, 0.01)] for n in SIZES})
    for estimate in (found.lambda_ops_per_s, found.sigma, found.kappa):
        assert (estimate.low, estimate.high) == (None, None)
    assert "no interval" in found.note


@pytest.mark.parametrize("sizes", [(), (3,), (1, 2)])
def test_too_few_sizes_have_no_law(sizes: tuple[int, ...]) -> None:
    assert fit({n: [100.0, 101.0] for n in sizes} | {9: []}) == (
        f"three sizes are needed for three parameters, {len(sizes)} measured"
    )


def test_measurements_that_no_finite_lambda_comes_nearest_to() -> None:
    measured = dict(zip(SIZES, (50.0, 318.0, 51.0, 50.0, 50.0), strict=True))
    deviations = [
        min(sum((1 - x / law(n, rate, 0, rate / c)) ** 2 for n, x in measured.items()) for c in range(200, 260))
        for rate in (1e2, 1e3, 1e4)
    ]
    assert deviations == sorted(deviations, reverse=True), "the larger lambda and with it kappa, the nearer"
    assert "no finite lambda" in str(fit({n: [x] for n, x in measured.items()}))


def test_where_some_resamples_have_no_finite_lambda_there_is_no_interval() -> None:
    """Nearly the measurements above, and their scatter brings some of their resamples there."""
    found = fitted({1: [50, 48], 2: [330, 270], 3: [51, 60], 4: [50, 45], 5: [50, 52]})
    assert math.isfinite(found.lambda_ops_per_s.value) and "the runs differ too much" in found.note
    for estimate in (found.lambda_ops_per_s, found.sigma, found.kappa):
        assert (estimate.low, estimate.high) == (None, None)


def test_a_run_without_throughput_has_no_law() -> None:
    assert "without any throughput" in str(fit({1: [1.0], 2: [0.0], 3: [2.0]}))


@pytest.mark.parametrize(  # a printed table of Student's t, two-sided 95 %
    ("freedom", "t"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_the_quantiles_of_student(freedom: int, t: float) -> None:
    assert t_quantile(freedom) == pytest.approx(t, abs=5e-4)


def test_a_mean_and_a_quotient() -> None:
    # Worked by hand: 10, 12, 14 have mean 12 and standard deviation 2; t is 4.303.
    found = mean([10, 12, 14])
    assert found.low is not None and found.high is not None
    assert (found.value, found.low, found.high) == pytest.approx((12, 12 - 4.969, 12 + 4.969), abs=1e-3)
    assert mean([7]).low is None
    assert mean([1, 9]).low == 0, "there is no negative throughput"
    alone = quotient([24], [10, 12, 14])
    assert (alone.value, alone.low, alone.high) == (2, None, None)
    # Two runs have an interval, with the t of the smaller sample, 12.706. The standard deviation of 20 and 30 is
    # sqrt(50), that of their mean 5, a fifth of it.
    for few, many in (([20, 30], [10, 10]), ([20, 30], [10, 10, 10])):
        for found, value in ((quotient(few, many), 2.5), (quotient(many, few), 0.4)):
            assert found.low is not None and found.high is not None
            factor = math.exp(12.706 * 0.2)
            assert (found.value, found.low, found.high) == pytest.approx((value, value / factor, value * factor), 1e-3)
    assert mean([10, 12]).high == pytest.approx(11 + 12.706, abs=1e-3)


def test_the_interval_of_a_quotient_holds_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        found = quotient(list(random.normal(300, 9, 3)), list(random.normal(100, 3, 3)))
        assert found.low is not None and found.high is not None
        held += found.low <= 3 <= found.high
        assert math.isclose(found.low * found.high, found.value**2)
    assert held >= 372  # 93 %; cautious degrees of freedom may hold it more often
