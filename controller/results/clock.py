"""One clock for all nodes: every time of a node becomes the controller's time before anything is joined.

`clock.csv` holds readings of a node's offset (its unix time minus the controller's). Between two readings
the offset is interpolated linearly, because clocks drift slowly against each other; before the first and
after the last reading the nearest one holds. A reading is off by its `error_bound_ns` at most, and so is the
alignment. Two events on different nodes can thus only be ordered when they lie further apart than twice the
largest bound: no bucket may be finer than that.
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
COLUMNS = ["t_unix_ns", "t_mono_ns", "offset_ns", "error_bound_ns"]


@dataclass(frozen=True)
class NodeClock:
    """Offset readings of one node, by increasing time. `error_bound_ns` is None when there is no reading."""

    t_unix_ns: NDArray[np.int64]
    offset_ns: NDArray[np.int64]
    error_bound_ns: int | None

    def to_controller(self, t_unix_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Unix times of this node in the controller's clock (ns)."""
        times = np.asarray(t_unix_ns, dtype=np.int64)
        return times - self.offset_at(times)

    def offset_at(self, t_unix_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(self.t_unix_ns) == 0:
            return np.zeros_like(t_unix_ns)
        # Relative to the first reading, so that a double holds every nanosecond of the difference exactly.
        base_time, base_offset = self.t_unix_ns[0], self.offset_ns[0]
        drift = np.interp(
            (t_unix_ns - base_time).astype(np.float64),
            (self.t_unix_ns - base_time).astype(np.float64),
            (self.offset_ns - base_offset).astype(np.float64),
        )
        offsets: NDArray[np.int64] = base_offset + np.rint(drift).astype(np.int64)
        return offsets


#: A node whose clock was never read: its times are taken as they are, and validation says so.
UNREAD = NodeClock(np.empty(0, np.int64), np.empty(0, np.int64), None)


def read_clock(path: Path) -> NodeClock:
    """The readings in one `clock.csv`; a missing or empty file is :data:`UNREAD`."""
    if not path.is_file():
        return UNREAD
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        readings = sorted(tuple(int(row[name]) for name in COLUMNS) for row in rows)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{path} is no clock table ({', '.join(COLUMNS)}; whole numbers): {error}") from error
    if not readings:
        return UNREAD
    table = np.array(readings, dtype=np.int64)
    if (table[:, 3] < 0).any():
        raise DataError(f"{path} holds a negative error bound")
    return NodeClock(table[:, 0], table[:, 2], int(table[:, 3].max()))


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
