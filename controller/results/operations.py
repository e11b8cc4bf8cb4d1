"""The operations' side of the join: merged histograms per bucket, phase and operation (joined/ops.csv)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from controller.results import hdr, schema
from controller.results.convert import Run
from controller.results.timeline import Timeline, bucket_of

#: Length of a client's histogram interval (docs/interfaces.md).
INTERVAL_NS = 1_000_000_000
#: What its log gives their beginnings to.
_LOGGED_TO_NS = 1_000_000
#: Share of a bucket that must have been measured before count divided by time is called a throughput.
LEAST_COVER = 0.1

#: Beginning (unix ns, controller's clock) and length in ns.
Interval = tuple[int, int]
#: The window in which a client measured, and its intervals that have a histogram.
Client = tuple[tuple[int, int], list[Interval]]

_GRID_SCHEMA = pa.schema(
    [
        ("bucket_start_us", pa.int64()),
        ("phase", pa.string()),
        ("op", pa.string()),
        ("covered_s", pa.float64()),
    ]
)


def run_statistics(histograms: ir.Table, keys: list[str]) -> ir.Table:
    """Merge histograms per `keys` and what they hold: counts, mean, quantiles and maximum in ns.

    Columns: keys, `what`, `n`, `mean_ns`, `p50_ns`.., `max_ns`. The q-quantile is the upper end of the
    first value range up to which at least q of all values lie, as HdrHistogram defines it.
    """
    group = [*keys, "what"]
    merged = histograms.group_by(*group, "value_high_ns", "value_mid_ns").agg(n=histograms["count"].sum())
    upwards = ibis.cumulative_window(group_by=group, order_by="value_high_ns")
    ranked = merged.mutate(seen=merged.n.sum().over(upwards), total=merged.n.sum().over(group_by=group))
    quantiles = {
        f"{name}_ns": ranked.value_high_ns.min(where=ranked.seen * 1000 >= ranked.total * permille)
        for name, permille in schema.QUANTILES.items()
    }
    return ranked.group_by(group).agg(
        n=ranked.n.sum().cast("int64"),
        mean_ns=(ranked.value_mid_ns.cast("float64") * ranked.n).sum() / ranked.n.sum(),
        **quantiles,
        max_ns=ranked.value_high_ns.max(),
    )


def operation_grid(run: Run, intervals: pa.Table, windows: dict[tuple[str, str], tuple[int, int]]) -> pa.Table:
    """The cells of ops.csv inside the measured windows of the clients: bucket, phase, op and the seconds measured.

    In these cells a count of 0 is a fact. An operation belongs to a phase when any client counted it there.
    """
    operations: dict[str, set[str]] = {}
    for phase, op in operations_of(intervals):
        operations.setdefault(phase, set()).add(op)
    for part in run.clients:
        operations.setdefault(part.phase, set()).update(part.operations)
    logged = _logged_intervals(intervals)
    by_phase: dict[str, list[Client]] = {}
    for (client, phase), window in windows.items():
        by_phase.setdefault(phase, []).append((window, logged.get((client, phase), [])))
    rows: list[dict[str, Any]] = []
    for phase, of_clients in by_phase.items():
        covered = _covered_seconds(run.timeline, of_clients)
        rows += [
            {"bucket_start_us": bucket, "phase": phase, "op": op, "covered_s": seconds}
            for op in sorted(operations[phase])
            for bucket, seconds in covered.items()
        ]
    return pa.Table.from_pylist(rows, schema=_GRID_SCHEMA)


def operations_of(table: pa.Table) -> set[tuple[str, str]]:
    """(phase, op) of the rows of a table."""
    return {(row["phase"], row["op"]) for row in table.group_by(["phase", "op"]).aggregate([]).to_pylist()}


def _logged_intervals(intervals: pa.Table) -> dict[tuple[str, str], list[Interval]]:
    """(client, phase) -> the intervals of its histograms, in their order."""
    found: dict[tuple[str, str], list[Interval]] = {}
    keys = ["client", "phase", "interval_start_unix_ns"]
    longest = intervals.group_by(keys).aggregate([("interval_ns", "max")]).sort_by([(key, "ascending") for key in keys])
    for row in longest.to_pylist():
        found.setdefault((row["client"], row["phase"]), []).append(
            (row["interval_start_unix_ns"], row["interval_ns_max"])
        )
    return found


def _covered_seconds(timeline: Timeline, clients: list[Client]) -> dict[int, float]:
    """bucket -> seconds in which the operations that are counted there were done.

    Clients do not begin and end together, and each one's intervals count from its own start: the mean of those that
    measured through the whole bucket; where none did, of the one whose intervals there are longest.
    """
    whole: dict[int, list[float]] = {}
    longest: dict[int, float] = {}
    for (start, end), logged in clients:
        for bucket, seconds in _interval_seconds(timeline, start, end, logged).items():
            longest[bucket] = max(seconds, longest.get(bucket, 0.0))
            begin = timeline.start_unix_ns + bucket * 1000
            if start <= begin and begin + timeline.bucket_ns <= end:
                whole.setdefault(bucket, []).append(seconds)
    return {bucket: fmean(whole.get(bucket, [longest[bucket]])) for bucket in sorted(longest)}


def _interval_seconds(
    timeline: Timeline, start_unix_ns: int, end_unix_ns: int, logged: list[Interval]
) -> dict[int, float]:
    """bucket -> seconds of one client's [start, end) whose histogram intervals are counted in that bucket."""
    covered: dict[int, float] = {}
    for begin, length in _intervals(start_unix_ns, end_unix_ns, logged):
        bucket = timeline.bucket_start_us(begin + length // 2)
        covered[bucket] = covered.get(bucket, 0.0) + min(length, end_unix_ns - begin) / 1e9
    if not covered:
        return {}
    # Clocks drift: where a bucket holds the middles of two intervals, another one may hold none.
    return {bucket: covered.get(bucket, 0.0) for bucket in range(min(covered), max(covered) + 1, timeline.bucket_us)}


def _intervals(start_unix_ns: int, end_unix_ns: int, logged: list[Interval]) -> Iterator[Interval]:
    """One client's intervals: as its histograms have them, for only then seconds and counts lie in the same bucket.
    No histogram was written of a second in which nothing ended: that begins a second after the one before."""
    begin, place = start_unix_ns, 0
    while begin + _LOGGED_TO_NS <= end_unix_ns:
        while place < len(logged) and logged[place][0] < begin - INTERVAL_NS // 2:
            place += 1
        length = min(INTERVAL_NS, end_unix_ns - begin)
        if place < len(logged) and logged[place][0] < begin + INTERVAL_NS // 2:
            begin, length = logged[place]
        yield begin, length
        begin += INTERVAL_NS


def ops_expression(histograms: ir.Table, grid: ir.Table, timeline: Timeline) -> ir.Table:
    """ops.csv, with one more column `covered_s`."""
    middle = histograms.interval_start_unix_ns + histograms.interval_ns // 2
    bucketed = histograms.mutate(bucket_start_us=bucket_of(middle, timeline))
    statistics = run_statistics(bucketed, ["bucket_start_us", "phase", "op"])
    empty = {name: ibis.null(kind) for name, kind in statistics.schema().items() if name not in grid.columns}
    cells = grid.mutate(**{**empty, "what": ibis.literal("cell"), "n": ibis.literal(0, "int64")})
    known = statistics.mutate(covered_s=ibis.null("float64"))
    both = known.union(cells.select(*known.columns))
    ok, failed, intended = (both.what == what for what in (hdr.OK, hdr.FAILED, hdr.INTENDED))

    def micros(name: str, where: ir.BooleanValue) -> ir.Value:
        return (both[f"{name}_ns"].max(where=where).cast("float64") / 1000).round(3)

    latencies = {f"latency_{name}_us": micros(name, ok) for name in ("mean", *schema.QUANTILES, "max")}
    wide = both.group_by("bucket_start_us", "phase", "op").agg(
        **{
            "count": both.n.sum(where=(both.what != hdr.INTENDED)).coalesce(0).cast("int64"),
            "errors": both.n.sum(where=failed).coalesce(0).cast("int64"),
            "covered_s": both.covered_s.max(),
            **latencies,
            **{f"intended_{name}_us": micros(name, intended) for name in ("p50", "p99")},
        }
    )
    enough = wide.covered_s >= LEAST_COVER * timeline.bucket_ns / 1e9
    return wide.mutate(
        throughput_ops_per_s=enough.ifelse((wide["count"] / wide.covered_s).round(3), ibis.null("float64"))
    ).order_by("bucket_start_us", "phase", "op")
