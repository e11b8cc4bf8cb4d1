# SPDX-License-Identifier: Apache-2.0
"""The benchmark's pure parts: slopes, medians, what is read from the clients and the JVM, the table."""

import figures
import pytest
from figures import Result, Spread
from hypothesis import given, settings
from hypothesis import strategies as st

YCSB_OUTPUT = """\
[OVERALL], RunTime(ms), 3193
[READ], Operations, 100060
[READ], Return=OK, 100060
[UPDATE], Operations, 99941
[UPDATE], Return=OK, 99940
[UPDATE-FAILED], Operations, 1
[UPDATE], Return=ERROR, 1
[Intended-READ], 50thPercentileLatency(us), 77
[Intended-READ], 99thPercentileLatency(us), 900
[Intended-UPDATE], 50thPercentileLatency(us), 81.250
"""


def test_slope_cancels_what_both_runs_have_in_common() -> None:
    start_up, each = 1.75, 279e-9
    points = [(n, start_up + n * each) for n in (5_000_000, 20_000_000)]
    assert figures.slope(points) == pytest.approx(each)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_spread_is_the_middle_and_the_extremes(values: list[float]) -> None:
    spread = Spread.of(values)
    assert (spread.low, spread.high) == (min(values), max(values))
    below = sum(v < spread.median for v in values)
    above = sum(v > spread.median for v in values)
    assert max(below, above) <= len(values) / 2


@pytest.mark.parametrize(
    ("values", "shown"), [([9.96, 1.0, 12.04], "10.0 (1.0 to 12.0)"), ([300, 280.4, 99.5], "280 (100 to 300)")]
)
def test_spread_shows_three_digits(values: list[float], shown: str) -> None:
    assert str(Spread.of(values)) == shown


def test_only_successes_count() -> None:
    assert figures.successes(YCSB_OUTPUT) == 200_000
    assert figures.successes("") == 0


def test_intended_median_is_that_of_the_slowest_operation() -> None:
    assert figures.intended_p50_us(YCSB_OUTPUT) == 81.25


def heap_log(allocations_kb: list[int], eden_kb: int, survivors_kb: int, promoted_kb: int) -> str:
    """What a serial collector would log that allocates so much and keeps and promotes the same at each collection."""
    lines, used, tenured = [], 0, 0
    for allocation in allocations_kb:
        used += allocation
        if used >= eden_kb:
            lines.append(
                f"[gc,heap] GC(0) DefNew: {used}K(116160K)->{survivors_kb}K(116160K) Eden: {used}K(103296K)->0K(1K)"
            )
            lines.append(f"[gc,heap] GC(0) Tenured: {tenured}K(258048K)->{tenured + promoted_kb}K(258048K)")
            used, tenured = survivors_kb, tenured + promoted_kb
    lines.append(f"[gc,heap,exit]  def new generation   total 116160K, used {used}K [0x0000000687400000, 0x0, 0x0)")
    lines.append("[gc,heap,exit]   eden space 103296K,  61% used [0x0, 0x0, 0x0)")
    lines.append(f"[gc,heap,exit]  tenured generation   total 258048K, used {tenured}K [0x0000000704d50000, 0x0, 0x0)")
    return "\n".join(lines)


@settings(deadline=None)
@given(st.lists(st.integers(1, 30_000), max_size=50), st.integers(0, 2_400), st.integers(0, 100))
def test_allocation_is_all_that_was_ever_put_into_the_heap(
    sizes_kb: list[int], survivors_kb: int, promoted_kb: int
) -> None:
    log = heap_log(sizes_kb, 103_296, survivors_kb, promoted_kb)
    assert figures.allocated_bytes(log) == sum(sizes_kb) * 1024


def test_allocation_without_a_collection_is_what_is_there_at_exit() -> None:
    assert figures.allocated_bytes(heap_log([15_149], 103_296, 0, 0)) == 15_149 * 1024


def test_table_pairs_the_repetitions() -> None:
    samples = {"A": [300.0, 200.0, 400.0], "B": [100.0, 100.0, 100.0], "B otherwise": [120.0, 130.0, 110.0]}
    log = {"off": [100.0, 190.0, 100.0], "on": [120.0, 200.0, 130.0]}
    results = [Result("no-op", "ns/op", samples), Result("log", "ns/op", log)]
    assert figures.markdown(results, "A", "B").splitlines() == [
        "| measure | A | B | ratio |",
        "|---|---|---|---|",
        "| no-op: ns/op | 300 (200 to 400) | 100 (100 to 100) | 3.0 |",
        "| no-op, B otherwise: ns/op | 300 (200 to 400) | 120 (110 to 130) | 2.5 |",
        "| log: ns/op | | 20.0 (95 %: 10.0 to 30.0; 3 pairs) | |",
    ]


# ranks from tables of the sign test (5 %, two-sided): n = 6, 12, 24 leave out 0, 2 and 6 values at each end
@pytest.mark.parametrize(("count", "left_out"), [(3, 0), (6, 0), (12, 2), (24, 6)])
def test_interval_of_the_median_is_that_of_the_sign_test(count: int, left_out: int) -> None:
    values = [float((7 * i) % count) for i in range(count)]
    assert figures.interval_of_median(values) == (left_out, count - 1 - left_out)
