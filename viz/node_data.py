"""What only the I/O rows themselves tell about a node: requests in flight, and bytes by database component."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pandas as pd

from controller.errors import DataError
from controller.results.block_io import traced_files
from controller.results.convert import open_run
from controller.results.engine import engine, parquet_rows
from controller.results.timeline import Timeline, bucket_of

#: Component of I/O that no file and no rule of the tracer's explains.
UNEXPLAINED = "not attributed"
_NEEDED = ("node", "t_unix_ns", "vfs_ns", "total_ns", "size_bytes", "component")


@dataclass(frozen=True)
class NodeData:
    """`in_flight`: node, bucket_start_us, requests (time-weighted mean of the bucket, empty where unknown).
    `components`: node, bucket_start_us, component, bytes."""

    in_flight: pd.DataFrame
    components: pd.DataFrame


def load_node_data(run_dir: Path) -> NodeData:
    """Both tables of a run's traced nodes, without rows where nothing happened. DataError for damaged traces."""
    run = open_run(run_dir)
    files = list(traced_files(run).values())
    if not files:
        keys = ["node", "bucket_start_us"]
        return NodeData(pd.DataFrame(columns=[*keys, "requests"]), pd.DataFrame(columns=[*keys, "component", "bytes"]))
    with engine() as connection:
        rows = parquet_rows(connection, files).select(*_NEEDED)
        _refuse_endless(connection, rows, run.timeline)
        return NodeData(
            connection.to_pandas(in_flight_expression(rows, run.timeline)),
            connection.to_pandas(component_expression(rows, run.timeline)),
        )


def _refuse_endless(connection: Any, rows: ir.Table, timeline: Timeline) -> None:
    """DataError for a request that is longer than the run: it would be a row in each bucket of years."""
    timed = rows.select("node", "t_unix_ns", length_ns=rows.total_ns - rows.vfs_ns.coalesce(0))
    longest = timed.filter(timed.length_ns > timeline.longest_ns).order_by(ibis.desc("length_ns")).limit(1)
    for row in connection.to_pyarrow(longest).to_pylist():
        took_s = (timeline.end_unix_ns - timeline.start_unix_ns) / 1e9
        text = f"io.parquet has a request (t_unix_ns {row['t_unix_ns']}) of {row['length_ns'] / 1e9:,.0f} s"
        hint = "the file is damaged: `strata join RUN` makes it again from io.bin"
        raise DataError(f"{text}, and the run took {took_s:,.0f} s", node=row["node"], hint=hint)


def in_flight_expression(rows: ir.Table, timeline: Timeline) -> ir.Table:
    """Time that requests were under way below the file system, divided by the bucket: their mean number (Little).

    Empty where one began that shows no layer: nobody knows how long it was under way.
    """
    length = timeline.bucket_ns
    start = rows.t_unix_ns + rows.vfs_ns.coalesce(0) - timeline.start_unix_ns
    end = (rows.t_unix_ns + rows.total_ns - timeline.start_unix_ns).coalesce(start)
    spans = rows.select("node", start=start, end=end, untimed=rows.total_ns.isnull())
    # A request that lasts beyond its bucket counts in each with its part.
    parts = spans.mutate(bucket=ibis.range(spans.start // length, spans.end // length + 1).unnest())
    inside = ibis.least(parts.end, (parts.bucket + 1) * length) - ibis.greatest(parts.start, parts.bucket * length)
    return (
        parts.mutate(inside=inside, bucket_start_us=parts.bucket * (length // 1000))
        .group_by("node", "bucket_start_us")
        .agg(requests=ibis._.untimed.any().ifelse(ibis.null("float64"), ibis._.inside.sum() / length))
        .order_by("node", "bucket_start_us")
    )


def component_expression(rows: ir.Table, timeline: Timeline) -> ir.Table:
    """Bytes of the I/O that started in a bucket, by database component."""
    return (
        rows.mutate(
            bucket_start_us=bucket_of(rows.t_unix_ns, timeline),
            component=rows.component.nullif("").coalesce(UNEXPLAINED),
        )
        .group_by("node", "bucket_start_us", "component")
        .agg(bytes=ibis._.size_bytes.sum().cast("int64"))
        .order_by("node", "bucket_start_us", "component")
    )
