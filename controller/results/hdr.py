"""Histogram logs (`.hdr`): interval histograms -> one long table of counts, which merges without loss.

A histogram is a count per value range. Kept as rows (interval, range, count), histograms of several clients
or seconds merge by adding the counts of equal ranges, in SQL like everything else; percentiles are then read
off the merged counts. Percentiles themselves are never averaged.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import pyarrow as pa
from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from controller.errors import DataError

#: What a file's histograms hold: latencies of successful operations, of failed ones, or from the schedule.
OK, FAILED, INTENDED = "ok", "failed", "intended"
_LINE = re.compile(r"(?:Tag=[^,]*,)?([0-9.]+),([0-9.]+),[0-9.]+,(\S+)$")
_BASE_TIME = re.compile(r"#\[BaseTime: *([0-9.]+) ")
_DAMAGE = (
    HdrCookieException,
    HdrHistogramSettingsException,
    HdrLengthException,
    zlib.error,
    ValueError,
    IndexError,
    TypeError,
    OverflowError,
    MemoryError,
)

#: Times of a log are sums of two of these, in 64 bits.
_LATEST_NS = 1 << 62

#: How the names of a read-modify-write's parts begin; they are operations already counted as a whole.
PART_PREFIX = "RMW-"

#: One row per interval and value range: the range ends at value_high_ns, its middle is value_mid_ns.
COUNTS_SCHEMA = pa.schema(
    [
        ("interval_start_unix_ns", pa.int64()),
        ("interval_ns", pa.int64()),
        ("value_high_ns", pa.int64()),
        ("value_mid_ns", pa.int64()),
        ("count", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Interval:
    """One line of a histogram log; times in the clock of the client that wrote it."""

    start_unix_ns: int
    length_ns: int
    value_high_ns: NDArray[np.int64]
    value_mid_ns: NDArray[np.int64]
    count: NDArray[np.int64]


def log_content(path: Path) -> tuple[str, str] | None:
    """(operation, what) from a log's name: `READ.hdr`, `READ-FAILED.hdr`, `Intended-READ.hdr`.

    None for what is not an operation of its own: the parts of read-modify-writes (`RMW-READ.hdr`)."""
    name = path.stem
    if name.removeprefix("Intended-").startswith(PART_PREFIX):
        return None
    if name.startswith("Intended-"):
        operation = name.removeprefix("Intended-")
        return None if operation.endswith("-FAILED") else (operation, INTENDED)
    if name.endswith("-FAILED"):
        return name.removesuffix("-FAILED"), FAILED
    return name, OK


def read_intervals(path: Path) -> Iterator[Interval]:
    """The intervals of one log. A last line without its end is left out: the writer was killed in it."""
    for number, start_ns, length_ns, payload in _lines(path):
        yield Interval(start_ns, length_ns, *_counts(path, number, payload))


def interval_times(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and lengths of the intervals of one log, in ns; what was counted in them is not looked at."""
    times = np.array([(start_ns, length_ns) for _, start_ns, length_ns, _ in _lines(path)], np.int64).reshape(-1, 2)
    return times[:, 0], times[:, 1]


def _lines(path: Path) -> Iterator[tuple[int, int, int, str]]:
    """Of each interval: its line's number, start and length in ns, and its encoded histogram."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    base_ns = 0
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if base := _BASE_TIME.match(line):
            base_ns = _nanoseconds(path, number, base.group(1))
        if not line.strip() or line.startswith(("#", '"')):
            continue
        match = _LINE.match(line)
        if match is None:
            raise DataError(f"{path} line {number} is no histogram interval")
        start_ns = base_ns + _nanoseconds(path, number, match.group(1))
        yield number, start_ns, _nanoseconds(path, number, match.group(2)), match.group(3)


def counts_table(path: Path) -> pa.Table:
    """All intervals of one log as rows of :data:`COUNTS_SCHEMA`."""
    intervals = list(read_intervals(path))
    sizes = [len(interval.count) for interval in intervals]
    if sum(sizes) == 0:
        return COUNTS_SCHEMA.empty_table()
    return pa.table(
        [
            np.repeat([interval.start_unix_ns for interval in intervals], sizes),
            np.repeat([interval.length_ns for interval in intervals], sizes),
            np.concatenate([interval.value_high_ns for interval in intervals]),
            np.concatenate([interval.value_mid_ns for interval in intervals]),
            np.concatenate([interval.count for interval in intervals]),
        ],
        schema=COUNTS_SCHEMA,
    )


def _counts(path: Path, number: int, payload: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Non-empty value ranges of one encoded histogram: their upper ends, middles and counts."""
    try:
        histogram = HdrHistogram.decode(payload.encode("ascii"))
        counts = np.ctypeslib.as_array(histogram.counts)
    except _DAMAGE as error:
        raise DataError(f"{path} line {number} holds a damaged histogram: {error}") from error
    index = np.flatnonzero(counts)
    half = histogram.sub_bucket_half_count
    bucket = (index >> histogram.sub_bucket_half_count_magnitude) - 1
    sub_bucket = (index & (half - 1)) + np.where(bucket < 0, 0, half)
    shift = np.maximum(bucket, 0) + histogram.unit_magnitude
    low, width = sub_bucket << shift, np.int64(1) << shift
    return low + width - 1, low + width // 2, counts[index].astype(np.int64)


def _nanoseconds(path: Path, number: int, seconds: str) -> int:
    try:
        nanoseconds = int(Decimal(seconds) * 1_000_000_000)
    except (InvalidOperation, OverflowError) as error:
        raise DataError(f"{path} line {number}: {seconds!r} is no number of seconds") from error
    if not 0 <= nanoseconds < _LATEST_NS:
        raise DataError(f"{path} line {number}: {seconds!r} seconds lie outside the years that nanoseconds can count")
    return nanoseconds
