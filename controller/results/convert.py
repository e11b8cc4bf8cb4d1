"""Raw binary logs of a run -> columnar files on one clock (`io.parquet`, `io.csv`, `ops.parquet`)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from controller.errors import DataError
from controller.results import shapes
from controller.results.clients import ClientPhase, read_clients
from controller.results.clock import NodeClock, bucket_ns, read_clock
from controller.results.oplog import operation_table, read_operation_log
from controller.results.shapes import misfit
from controller.results.store import RunStore, disk_errors
from controller.results.timeline import Timeline, read_timeline


@dataclass(frozen=True)
class Run:
    """A run folder with what joining, validating and drawing need to know of its time and its parts."""

    store: RunStore
    plan: dict[str, Any]
    clocks: dict[str, NodeClock]
    timeline: Timeline
    clients: list[ClientPhase]


def open_run(run_dir: Path) -> Run:
    """Read plan, clocks, events and client summaries of a run; DataError when one of them cannot be used."""
    store = RunStore.open(run_dir)
    plan = _checked_plan(store)
    names = {*store.node_names(), *(client for client, _ in store.client_phases())}
    clocks = {name: read_clock(store.node_dir(name) / "clock.csv") for name in sorted(names)}
    timeline = read_timeline(store.events(), bucket_ns(plan, clocks))
    return Run(store, plan, clocks, timeline, read_clients(store, clocks))


def _checked_plan(store: RunStore) -> dict[str, Any]:
    """plan.json, its members known to be what is relied on."""
    plan = store.plan()
    if where := misfit(plan, shapes.PLAN):
        raise DataError(f"{store.path / 'plan.json'} lacks what every plan has: no usable `{where}`")
    return plan


def convert(run: Run, *, io_csv: bool = True) -> list[Path]:
    """Convert every raw log of the run and return the files written.

    A node without `io.bin` (not traced, or only the converted files were kept) and a client without
    `ops.bin` are left as they are.
    """
    written: list[Path] = []
    for node in run.store.node_names():
        written += _convert_io(run, node, io_csv=io_csv)
    for part in run.clients:
        source = part.folder / "ops.bin"
        if source.is_file():
            table = operation_table(
                read_operation_log(source),
                client=part.client,
                phase=part.phase,
                clock=run.clocks[part.client],
                start_unix_ns=run.timeline.start_unix_ns,
            )
            written.append(write_parquet(table, part.folder / "ops.parquet"))
    return written


def _convert_io(run: Run, node: str, *, io_csv: bool) -> list[Path]:
    folder = run.store.node_dir(node)
    if not (folder / "io.bin").is_file():
        return []
    table = read_io(folder / "io.bin", node, run.clocks[node], run.timeline.start_unix_ns)
    written = [write_parquet(table, folder / "io.parquet")]
    if io_csv:
        written.append(write_csv(table, folder / "io.csv"))
    return written


def read_io(path: Path, node: str, clock: NodeClock, start_unix_ns: int) -> pa.Table:
    """One node's I/O rows, times in the controller's clock."""
    # Here only: everything else works on a machine without the tracer's binary format.
    from tracer.decode import read_table  # noqa: PLC0415
    from tracer.tracefile import read_header  # noqa: PLC0415

    try:
        header = read_header(path)
        table = read_table(path, node=node, start_unix_ns=start_unix_ns, offset_ns=0)
    except (ValueError, KeyError, OSError, struct.error) as error:
        raise DataError(f"{path} cannot be decoded: {error}", node=node) from error
    # Decoded without an offset, because the clock's drift between its readings needs more than one number.
    epoch_ns = header.anchor_unix_ns - header.anchor_mono_ns
    aligned = pa.array(clock.to_controller(table["t_unix_ns"].to_numpy(), epoch_ns))
    since_start = pc.divide(pc.subtract(aligned, start_unix_ns).cast(pa.float64()), 1000.0)
    for name, values in (("t_unix_ns", aligned), ("t_us", since_start)):
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, values.cast(field.type, safe=False))
    return table


def write_parquet(table: pa.Table, path: Path) -> Path:
    with disk_errors(path), path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
    return path


def write_csv(table: pa.Table, path: Path) -> Path:
    """Comma-separated, one header line, empty cells for unknown values, quotes only where needed."""
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    # Arrow's "needed" quotes every text, needed or not: only where a text holds a separator.
    quoting = "needed" if any(map(_holds_separator, plain)) else "none"
    options = pa_csv.WriteOptions(quoting_style=quoting, quoting_header="none")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pa_csv.write_csv(pa.table(plain, names=table.column_names), file, options)
    return path


def _holds_separator(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(column.type):
        return False
    return bool(pc.any(pc.match_substring_regex(column.unique(), '[",\r\n]')).as_py())
