"""One clock for all nodes: every time of a node becomes the controller's time before anything is joined.

`clock.csv` holds readings of a node's clocks and of its offset (its unix time minus the controller's). Between
two readings what lies between the clocks is interpolated linearly, because they drift slowly against each other;
before the first and after the last reading the nearest one holds. A reading is off by its `error_bound_ns` at
most, and so is the alignment. Two events on different nodes can thus only be ordered when they lie further apart
than twice the largest bound: no bucket may be finer than that.

Whatever times something on a node does it by the monotonic clock, and writes that down as unix time by one reading
of both at its beginning: the file's epoch, unix minus monotonic. Where it is known, times are aligned by the
monotonic clock, so that setting the node's unix clock during a run moves none of them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.errors import ConfigError, DataError

#: The clients write a histogram a second (docs/interfaces.md): their operations cannot be split finer.
LEAST_BUCKET_MS = 1000
#: Clocks that are kept by NTP drift by less: the kernel corrects a frequency by 500 ppm at most (adjtimex(2)).
MOST_DRIFT = 500e-6
COLUMNS = ["t_unix_ns", "t_mono_ns", "offset_ns", "error_bound_ns"]


@dataclass(frozen=True)
class NodeClock:
    """Readings of one node, by increasing monotonic time. `error_bound_ns` is None when there is no reading."""

    t_unix_ns: NDArray[np.int64]
    t_mono_ns: NDArray[np.int64]
    offset_ns: NDArray[np.int64]
    error_bound_ns: int | None

    def to_controller(self, t_unix_ns: NDArray[np.int64], epoch_ns: int | None = None) -> NDArray[np.int64]:
        """Unix times of this node in the controller's clock (ns); `epoch_ns` is that of the file they are from.

        Without it they are aligned by the unix clock, which is the same as long as nobody sets that.
        """
        times = np.asarray(t_unix_ns, dtype=np.int64)
        if len(self.t_unix_ns) == 0:
            return times
        if epoch_ns is None:
            return times - _between(times, self.t_unix_ns, self.offset_ns)
        return times - epoch_ns + _between(times - epoch_ns, self.t_mono_ns, self._controller_minus_mono())

    def one_to_controller(self, t_unix_ns: Any, epoch_ns: int | None, path: Path) -> int | None:
        """The same for a member of the JSON file `path`, which can be missing."""
        if type(t_unix_ns) is not int:
            return None
        try:
            return int(self.to_controller(np.array([t_unix_ns], np.int64), epoch_ns)[0])
        except OverflowError:
            raise DataError(f"{path} has the time {t_unix_ns} ns, which no clock shows") from None

    def jumps(self) -> tuple[int, int]:
        """The largest jumps between two readings, in ns, else 0: of the unix clock, which was set; and between the
        monotonic clock and the controller's time: one of the two stood still or was set, and no alignment is right.
        """
        if self.error_bound_ns is None:
            return 0, 0
        # The node reads its two clocks within the round trip, which is at most twice the bound.
        unsure = 2 * self.error_bound_ns
        unix = np.diff(self.t_unix_ns - self.t_mono_ns)
        mono = np.diff(self._controller_minus_mono())
        was_set = np.abs(unix) > unsure
        # Of a clock that was set and one that was not, the controller's time goes with the second.
        blamed = np.where(
            was_set,
            np.abs(mono) > np.abs(unix - mono),
            np.abs(mono) > unsure + np.diff(self.t_mono_ns) * MOST_DRIFT,
        )
        return _largest(unix[was_set & ~blamed]), _largest(mono[blamed])

    def _controller_minus_mono(self) -> NDArray[np.int64]:
        return self.t_unix_ns - self.offset_ns - self.t_mono_ns


def _between(at: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    # Relative to the first reading, so that a double holds every nanosecond of the difference exactly.
    drift = np.interp(
        (at - times[0]).astype(np.float64),
        (times - times[0]).astype(np.float64),
        (values - values[0]).astype(np.float64),
    )
    found: NDArray[np.int64] = values[0] + np.rint(drift).astype(np.int64)
    return found


def _largest(jumps: NDArray[np.int64]) -> int:
    return int(jumps[np.abs(jumps).argmax()]) if len(jumps) else 0


#: A node whose clock was never read: its times are taken as they are, and validation says so.
UNREAD = NodeClock(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), None)


def read_clock(path: Path) -> NodeClock:
    """The readings in one `clock.csv`; a missing or empty file is :data:`UNREAD`."""
    if not path.is_file():
        return UNREAD
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        readings = sorted((tuple(int(row[name]) for name in COLUMNS) for row in rows), key=lambda row: row[1])
        table = np.array(readings, dtype=np.int64)
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise DataError(f"{path} is no clock table ({', '.join(COLUMNS)}; whole numbers): {error}") from error
    if not readings:
        return UNREAD
    if (table[:, 3] < 0).any():
        raise DataError(f"{path} holds a negative error bound")
    return NodeClock(table[:, 0], table[:, 1], table[:, 2], int(table[:, 3].max()))


def bucket_ns(plan: dict[str, Any], clocks: dict[str, NodeClock]) -> int:
    """The bucket's length in ns, as planned; refused when the clocks are not good enough for it."""
    bucket_ms = plan.get("bucket_ms", 1000)
    if not isinstance(bucket_ms, int) or isinstance(bucket_ms, bool) or bucket_ms <= 0:
        raise ConfigError(f"bucket_ms must be a positive whole number of milliseconds, not {bucket_ms!r}")
    if bucket_ms < LEAST_BUCKET_MS:
        raise ConfigError(
            f"bucket_ms is {bucket_ms}, the clients' histograms have intervals of {LEAST_BUCKET_MS} ms",
            hint=f"use {LEAST_BUCKET_MS} or more",
        )
    bounds = {node: clock.error_bound_ns for node, clock in clocks.items() if clock.error_bound_ns is not None}
    length_ns = bucket_ms * 1_000_000
    if bounds:
        worst = max(bounds, key=lambda node: bounds[node])
        if length_ns < 2 * bounds[worst]:
            raise DataError(
                f"buckets of {bucket_ms} ms are finer than twice the clock's error bound ({bounds[worst] / 1e6:g} ms)",
                node=worst,
                hint="use a larger bucket_ms, or synchronise the nodes' clocks (chrony)",
            )
    return length_ns
