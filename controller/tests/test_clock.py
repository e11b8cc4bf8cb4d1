"""How well a node's clock is known, in a world with one true time."""

from __future__ import annotations

import asyncio
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from controller import clock

UNIX_MINUS_MONO_NS = 1_790_000_000_000_000_000


@given(
    pauses=st.lists(st.integers(0, 10**8), min_size=10, max_size=10),
    ahead_ns=st.integers(-(10**12), 10**12),
)
def test_the_bound_holds_wherever_somebody_is_kept_waiting(pauses: list[int], ahead_ns: int) -> None:
    """`pauses`: before each reading of a clock and on the way back; the node is `ahead_ns` of the controller."""
    waits = iter(pauses)
    now_ns = 10**15

    def mono() -> int:
        nonlocal now_ns
        now_ns += next(waits)
        return now_ns

    def unix() -> int:
        return mono() + UNIX_MINUS_MONO_NS

    answers: list[tuple[int, int]] = []

    async def ask() -> tuple[int, int]:
        answers.append((unix() + ahead_ns, now_ns))
        mono()
        return answers[-1]

    with mock.patch.object(clock, "monotonic_ns", mono), mock.patch.object(clock, "time_ns", unix):
        reading = asyncio.run(clock.read_offset(ask, attempts=2))
    assert abs(reading.offset_ns - ahead_ns) <= reading.error_bound_ns
    # Of an attempt's five pauses the first lies before its round trip.
    bounds = [(sum(pauses[first : first + 4]) + 1) // 2 for first in (1, 6)]
    assert reading.error_bound_ns == min(bounds), "the tighter one"
    assert (reading.t_unix_ns, reading.t_mono_ns) == answers[bounds.index(min(bounds))]
