"""Operations and I/O of one run side by side: joined/{ops,io,joined,summary}.csv.

Every table is one Ibis expression; DuckDB evaluates them here. What the rules are, in short:

* A histogram interval of a client belongs to the bucket that holds its middle, and to the phase whose folder
  it came from. An I/O belongs to the bucket and the phase that hold its start.
* Inside the measured window of a phase an operation that did not happen has count 0 and no latency. Outside,
  and for a node that was not traced, cells are empty.
* Percentiles of operations are read off merged histograms; those of I/O are exact (linear between two rows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller.results import schema
from controller.results.block_io import (
    database_nodes,
    io_expression,
    io_per_node,
    io_rows,
    io_totals,
    traced_files,
)
from controller.results.clients import client_windows, histogram_counts, histogram_intervals, measured_windows
from controller.results.convert import Run, convert, open_run, write_csv
from controller.results.engine import engine
from controller.results.operations import operation_grid, operations_of, ops_expression, run_statistics
from controller.results.store import read_json
from controller.results.summary import summary_table
from controller.results.timeline import Timeline

_ROWS_SCHEMA = pa.schema(
    [
        ("bucket_start_us", pa.int64()),
        ("phase", pa.string()),
        ("node", pa.string()),
        ("traced", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class JoinOutcome:
    """The run that was joined and the files that were written for it."""

    run: Run
    written: list[Path]


def join(run_dir: Path, *, io_csv: bool = True) -> JoinOutcome:
    """Convert the run's raw logs and write the joined tables. DataError when the raw data cannot be used."""
    run = open_run(run_dir)
    converted = convert(run, io_csv=io_csv)
    with engine() as connection:
        tables = _evaluate(connection, run)
    joined = [write_csv(content, run.store.path / path) for path, content in tables.items()]
    return JoinOutcome(run, [*converted, *joined])


def _evaluate(connection: Any, run: Run) -> dict[str, pa.Table]:
    intervals = histogram_intervals(run.clients, run.clocks)
    by_client = client_windows(run.clients, intervals, run.timeline)
    grid = operation_grid(run, intervals, by_client)
    ops_table, statistics = _operations(run, grid, operations_of(intervals) | operations_of(grid))
    ops = ibis.memtable(ops_table)
    io = io_rows(connection, list(traced_files(run).values()), run.timeline)
    operations = sorted(set(grid["op"].to_pylist()))
    rows = ibis.memtable(joined_rows(run))
    return {
        schema.OPS.path: ops_table.select(schema.OPS.names),
        schema.IO.path: connection.to_pyarrow(io_expression(io)),
        schema.JOINED.path: connection.to_pyarrow(joined_expression(rows, ops, io, operations)),
        schema.SUMMARY.path: summary_table(
            statistics,
            connection.to_pyarrow(io_totals(io)),
            measured_windows(by_client),
            run.store.run_id,
        ),
    }


def _operations(run: Run, grid: pa.Table, which: set[tuple[str, str]]) -> tuple[pa.Table, pa.Table]:
    """ops.csv (with `covered_s`), and the statistics of each operation in each phase: one after the other, for the
    histograms of all of them together may be more than fits into memory."""
    by_bucket, by_phase = [], []
    for phase, op in sorted(which) or [("", "")]:  # none at all: the tables' columns are there nevertheless
        counts = histogram_counts(run.clients, run.clocks, phase, op)
        cells = grid.filter((pc.field("phase") == phase) & (pc.field("op") == op))
        with engine() as connection:  # one of its own, for it keeps what it was given
            histograms = ibis.memtable(counts)
            by_bucket.append(connection.to_pyarrow(ops_expression(histograms, ibis.memtable(cells), run.timeline)))
            by_phase.append(connection.to_pyarrow(run_statistics(histograms, ["phase", "op"])))
    order = [(name, "ascending") for name in ("bucket_start_us", "phase", "op")]
    return pa.concat_tables(by_bucket).sort_by(order), pa.concat_tables(by_phase)


def joined_rows(run: Run) -> pa.Table:
    """The rows of joined.csv that exist even when nothing happened: bucket x phase x database node.

    `traced` says that the node's tracer ran at some time in this part of the bucket, so that no I/O means 0.
    """
    parts: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for phase, start, end in _stretches(run.timeline):
        for bucket in run.timeline.buckets(start, end):
            begin = run.timeline.start_unix_ns + bucket * 1000
            part = max(start, begin), min(end, begin + run.timeline.bucket_ns)
            parts.setdefault((bucket, phase), []).append(part)
    rows = []
    for node in database_nodes(run):
        began, ended = traced_window(run, node) or (0, 0)
        rows += [
            {
                "bucket_start_us": bucket,
                "phase": phase,
                "node": node,
                "traced": any(start < ended and began < end for start, end in parts[bucket, phase]),
            }
            for bucket, phase in sorted(parts)
        ]
    return pa.Table.from_pylist(rows, schema=_ROWS_SCHEMA)


def _stretches(timeline: Timeline) -> Iterator[tuple[str, int, int]]:
    """Every phase, and what lies outside of all: name, [start, end)."""
    for span in timeline.spans:
        yield span.phase, span.start_unix_ns, span.end_unix_ns
    for start, end in _gaps(timeline):
        yield schema.BETWEEN_PHASES, start, end


def _gaps(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """[start, end) of what lies between the phases, before the first and behind the last."""
    begin = timeline.start_unix_ns
    for span in timeline.spans:
        yield begin, span.start_unix_ns
        begin = span.end_unix_ns
    yield begin, timeline.end_unix_ns


def traced_window(run: Run, node: str) -> tuple[int, int] | None:
    """[start, end) in which the node's tracer ran (unix ns, controller's clock); None when nothing tells."""
    path = run.store.node_dir(node) / "trace.json"
    rows = traced_files(run).get(node)
    if rows is None or not path.is_file():
        return None
    trace = read_json(path)
    started_ns, mono_ns = trace.get("started_unix_ns"), trace.get("started_mono_ns")
    epoch_ns = started_ns - mono_ns if type(started_ns) is type(mono_ns) is int else None
    start = run.clocks[node].one_to_controller(started_ns, epoch_ns, path)
    stop = run.clocks[node].one_to_controller(trace.get("stopped_unix_ns"), epoch_ns, path)
    if start is None:
        return None
    return start, _last_row_end(rows) if stop is None else stop


def _last_row_end(path: Path) -> int:
    """Of a tracer that was killed is known that it lived when its last I/O began. 0 after that would be a guess."""
    last = pc.max(pq.read_table(path, columns=["t_unix_ns"])["t_unix_ns"]).as_py()
    return 0 if last is None else int(last) + 1


def joined_expression(rows: ir.Table, ops: ir.Table, io: ir.Table, operations: list[str]) -> ir.Table:
    """joined.csv: the whole cluster's operations beside one node's I/O."""
    keys = ["bucket_start_us", "phase", "node"]
    nodes = rows.select("node").distinct()
    found = io_per_node(io)
    # A bucket or phase that only the measurements know (a late interval, a node that was not planned).
    seen_in_ops = ops.select("bucket_start_us", "phase").distinct().cross_join(nodes).select(*keys)
    every = reduce(
        lambda left, right: left.union(right, distinct=True),
        [rows.select(*keys), seen_in_ops, found.select(*keys)],
    )
    wide = (
        every.left_join(rows, keys)
        .select(*keys, "traced")
        .left_join(_ops_wide(ops, operations), ["bucket_start_us", "phase"])
        .drop("bucket_start_us_right", "phase_right")
        .left_join(found, keys)
        .drop(*(f"{key}_right" for key in keys))
    )
    counted = ["io_reads", "io_writes", "io_discards", "io_flushes", "read_bytes", "write_bytes"]
    zero_where_traced = {
        name: wide[name].coalesce(wide.traced.ifelse(ibis.literal(0, "int64"), ibis.null("int64"))) for name in counted
    }
    return wide.mutate(**zero_where_traced).order_by(*keys).select(*schema.joined_columns(operations))


def _ops_wide(ops: ir.Table, operations: list[str]) -> ir.Table:
    values = {}
    for op in sorted(operations):
        for column in schema.JOINED_PER_OP:
            name = column.name.removeprefix("{op}_")
            source = name if name in ops.columns else f"latency_{name}"
            values[f"{schema.op_prefix(op)}_{name}"] = ops[source].max(where=ops["op"] == op)
    return ops.group_by("bucket_start_us", "phase").agg(**values)
