"""Adds up the requests of a trace by any of their columns: in one pass, in memory that does not grow with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracer.decode import LAYERS

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Key = tuple[Any, ...]

#: Buckets to each power of two: a quantile is less than 1/128 above the exact one, and never above the maximum.
SUB_BUCKETS = 128
#: After so many blocks of rows their sums are added up.
_MOST_PARTS = 64
#: Before the name of a column that was added up; it may also be one of the keys.
SUM = "sum of "


@dataclass(frozen=True)
class Distribution:
    """Durations in buckets, ascending: how many there are in each, and the largest one."""

    counts: Numbers
    largest_ns: Numbers
    sum_ns: int

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.count

    def bucket_of(self, quantile: float) -> int:
        """Place of the bucket with the smallest value that at least so large a part of all do not exceed."""
        return int(np.searchsorted(np.cumsum(self.counts), max(1, math.ceil(quantile * self.count))))

    def quantile_ns(self, quantile: float) -> int:
        """The largest value of that bucket."""
        return int(self.largest_ns[self.bucket_of(quantile)])


@dataclass(frozen=True)
class Group:
    """The requests that have these values in the columns it was asked for.

    `total` is of those that show a layer at all, None without any. `sums_ns`: the total, and each layer that some
    request shows; `slow_sums_ns`: the same of the requests from the bucket of the total's 99th percentile on.
    """

    key: Key
    requests: int
    size_bytes: int
    total: Distribution | None
    sums_ns: dict[str, int]
    slow_sums_ns: dict[str, int]


class Sums:
    """Rows by `keys` and by bucket of one duration: how many, the largest one, and sums of `columns`."""

    def __init__(self, keys: Sequence[str], duration: str, columns: Sequence[str]) -> None:
        self._keys = list(keys)
        self._duration = duration
        self._columns = list(columns)
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """`batch`: rows of tracer.decode. Those without the duration have no bucket."""
        duration = batch[self._duration]
        bucket = pa.array(buckets(duration.fill_null(0).to_numpy()), mask=duration.is_null().to_numpy(False))
        rows = pa.table(
            {
                **{name: batch[name] for name in self._keys},
                **{SUM + name: batch[name] for name in self._columns},
                "bucket": bucket,
                "largest": duration,
                "requests": pa.array(np.ones(batch.num_rows, np.int64)),
            }
        )
        self._parts.append(_without_dictionaries(self._added_up(rows)))
        if len(self._parts) == _MOST_PARTS:
            self._parts = [self._added_up(pa.concat_tables(self._parts))]

    def groups(self) -> Iterator[tuple[Key, pa.Table]]:
        """For each key its buckets, ascending; last the rows without one."""
        if not self._parts:
            return
        order = [(name, "ascending") for name in (*self._keys, "bucket")]
        rows = self._added_up(pa.concat_tables(self._parts)).sort_by(order)
        keys = list(zip(*(rows[name].to_pylist() for name in self._keys), strict=True))
        firsts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
        for first, after in zip(firsts, [*firsts[1:], len(keys)], strict=True):
            yield keys[first], rows.slice(first, after - first)

    def distributions(self) -> dict[Key, Distribution]:
        """Of the keys that have the duration at all."""
        found = ((key, _distribution(rows, self._duration)) for key, rows in self.groups())
        return {key: distribution for key, distribution in found if distribution}

    def _added_up(self, rows: pa.Table) -> pa.Table:
        by = [*self._keys, "bucket"]
        sums = ["requests", *(SUM + name for name in self._columns)]
        added = rows.group_by(by).aggregate([("largest", "max"), *((name, "sum") for name in sums)])
        wanted = {**{name: name for name in by}, "largest": "largest_max", **{name: f"{name}_sum" for name in sums}}
        return pa.table({name: added[column] for name, column in wanted.items()})


class Groups:
    """All requests by `keys`, names of columns."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self._sums = Sums(keys, "total_ns", ("total_ns", *LAYERS, "size_bytes"))

    def add(self, batch: pa.RecordBatch) -> None:
        self._sums.add(batch)

    def list(self) -> list[Group]:
        """Those with the most time first."""
        groups = [_group(key, rows) for key, rows in self._sums.groups()]
        return sorted(groups, key=lambda group: -group.sums_ns.get("total_ns", 0))


def buckets(durations_ns: Numbers) -> Numbers:
    """Numbers that ascend with the durations; the same one only for those that differ by less than 1/128."""
    fraction, exponent = np.frexp(durations_ns.astype(np.float64))
    within = (fraction - 0.5) * (2 * SUB_BUCKETS)
    return exponent.astype(np.int64) * SUB_BUCKETS + within.astype(np.int64)


def _distribution(rows: pa.Table, duration: str) -> Distribution | None:
    known = rows.filter(rows["bucket"].is_valid())
    if not known.num_rows:
        return None
    return Distribution(
        known["requests"].to_numpy(), known["largest"].to_numpy(), sum(known[SUM + duration].to_pylist())
    )


def _group(key: Key, rows: pa.Table) -> Group:
    total = _distribution(rows, "total_ns")
    slow = rows.slice(total.bucket_of(0.99)) if total else rows  # which show no layer
    return Group(
        key,
        requests=sum(rows["requests"].to_pylist()),
        size_bytes=sum(rows[SUM + "size_bytes"].to_pylist()),
        total=total,
        sums_ns=_sums(rows),
        slow_sums_ns=_sums(slow),
    )


def _sums(rows: pa.Table) -> dict[str, int]:
    sums = {name: pc.sum(rows[SUM + name]).as_py() for name in ("total_ns", *LAYERS)}
    return {name: value for name, value in sums.items() if value is not None}


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Their texts differ from one block to the next."""
    columns = [column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table.columns]
    return pa.table(columns, names=table.column_names)
