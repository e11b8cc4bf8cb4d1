"""The I/O side of the join: rows of all nodes per bucket, phase, node, device and mode (joined/io.csv)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from controller.results import schema
from controller.results.convert import Run
from controller.results.engine import parquet_rows
from controller.results.timeline import Timeline, bucket_of

_IO_NEEDED = pa.schema(
    [
        ("t_unix_ns", pa.int64()),
        ("node", pa.string()),
        ("device", pa.string()),
        ("mode", pa.string()),
        ("size_bytes", pa.int64()),
        *((f"{layer}_ns", pa.int64()) for layer in schema.TIMED),
    ]
)


def traced_files(run: Run) -> dict[str, Path]:
    """node -> its `io.parquet`, for the nodes that have one."""
    paths = {node: run.store.node_dir(node) / "io.parquet" for node in run.store.node_names()}
    return {node: path for node, path in paths.items() if path.is_file()}


def database_nodes(run: Run) -> list[str]:
    """The plan's database nodes, traced or not, and nodes that have I/O rows anyway."""
    planned = {str(node["name"]) for node in run.plan["nodes"] if "database" in node["roles"]}
    return sorted(planned | set(traced_files(run)))


def io_rows(connection: Any, files: list[Path], timeline: Timeline) -> ir.Table:
    """I/O rows of all nodes with their bucket and phase."""
    if files:
        rows = parquet_rows(connection, files).select(*_IO_NEEDED.names)
    else:
        rows = ibis.memtable(_IO_NEEDED.empty_table())
    inside = [
        (
            (rows.t_unix_ns >= span.start_unix_ns) & (rows.t_unix_ns < span.end_unix_ns),
            ibis.literal(span.phase),
        )
        for span in timeline.spans
    ]
    phase = ibis.cases(*inside, else_=schema.BETWEEN_PHASES) if inside else ibis.literal(schema.BETWEEN_PHASES)
    return rows.mutate(bucket_start_us=bucket_of(rows.t_unix_ns, timeline), phase=phase)


def io_expression(io: ir.Table) -> ir.Table:
    """io.csv."""
    return (
        io.group_by("bucket_start_us", "phase", "node", "device", "mode")
        .agg(ios=io.count(), bytes=io.size_bytes.sum().cast("int64"), **layer_statistics(io))
        .order_by("bucket_start_us", "node", "device", "mode", "phase")
        .select(*schema.IO.names)
    )


def layer_statistics(io: ir.Table, prefix: str = "") -> dict[str, ir.Value]:
    """Mean and 99th percentile of the total and of each layer; empty where no row shows the layer."""
    statistics: dict[str, ir.Value] = {}
    for layer in schema.TIMED:
        column = io[f"{layer}_ns"]
        statistics[f"{prefix}{layer}_mean_ns"] = column.mean().round(1)
        statistics[f"{prefix}{layer}_p99_ns"] = column.quantile(0.99).cast("float64").round(1)
    return statistics


def io_per_node(io: ir.Table) -> ir.Table:
    """Per bucket, phase and node: requests and bytes by mode, time per layer over all its devices."""
    modes = {"io_reads": "R", "io_writes": "W", "io_discards": "D", "io_flushes": "F"}
    return io.group_by("bucket_start_us", "phase", "node").agg(
        **{name: (io["mode"] == mode).sum().cast("int64") for name, mode in modes.items()},
        read_bytes=io.size_bytes.sum(where=io["mode"] == "R").coalesce(0).cast("int64"),
        write_bytes=io.size_bytes.sum(where=io["mode"] == "W").coalesce(0).cast("int64"),
        **layer_statistics(io, "io_"),
    )


def io_totals(io: ir.Table) -> ir.Table:
    """Per phase, node and mode: requests, bytes and time per layer, for summary.csv."""
    return (
        io.group_by("phase", "node", "mode")
        .agg(ios=io.count(), bytes=io.size_bytes.sum().cast("int64"), **layer_statistics(io))
        .order_by("phase", "node", "mode")
    )
