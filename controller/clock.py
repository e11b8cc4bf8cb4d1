"""How far each node's clock is from the controller's, and how well that is known (Cristian's method, 1989)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic_ns, time_ns


@dataclass(frozen=True)
class ClockReading:
    """A node's clocks at one instant: ``offset_ns`` = its unix time minus the controller's, true within
    ``error_bound_ns`` whatever the network's asymmetry was."""

    t_unix_ns: int
    t_mono_ns: int
    offset_ns: int
    error_bound_ns: int


async def read_offset(ask: Callable[[], Awaitable[tuple[int, int]]], attempts: int = 8) -> ClockReading:
    """The reading with the tightest bound of several. ``ask`` returns the node's (unix, monotonic) ns."""
    best: ClockReading | None = None
    for _ in range(attempts):
        # In this order: a pause between the two makes the round trip, and so the bound, longer.
        sent, sent_unix = monotonic_ns(), time_ns()
        t_unix_ns, t_mono_ns = await ask()
        round_trip = monotonic_ns() - sent
        # Rounded up: the bound must hold for odd round trips too.
        bound = (round_trip + 1) // 2
        if best is None or bound < best.error_bound_ns:
            best = ClockReading(t_unix_ns, t_mono_ns, t_unix_ns - (sent_unix + round_trip // 2), bound)
    assert best is not None
    return best
