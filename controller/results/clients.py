"""What the load processes left: their summaries, measured windows and histogram counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.errors import DataError
from controller.results import hdr, shapes
from controller.results.clock import NodeClock
from controller.results.oplog import epoch_ns
from controller.results.shapes import misfit
from controller.results.store import RunStore, read_json
from controller.results.timeline import Timeline

SUMMARY_VERSION = 1

#: Rows of :func:`histogram_intervals`.
INTERVAL_SCHEMA = pa.schema(
    [
        ("client", pa.string()),
        ("phase", pa.string()),
        ("op", pa.string()),
        ("interval_start_unix_ns", pa.int64()),
        ("interval_ns", pa.int64()),
    ]
)

#: Rows of :func:`histogram_counts`: whose and of what a histogram's value range is.
HISTOGRAM_SCHEMA = pa.schema(
    [
        ("client", pa.string()),
        ("phase", pa.string()),
        ("op", pa.string()),
        ("what", pa.string()),
        *hdr.COUNTS_SCHEMA,
    ]
)


@dataclass(frozen=True)
class ClientPhase:
    """One load process of one phase. `summary` is None when it was killed before it could write one.

    `start_unix_ns`, `end_unix_ns`: its measured window in the controller's clock, None when unknown.
    `epoch_ns`: its unix minus its monotonic time; only the operation log tells.
    """

    client: str
    phase: str
    folder: Path
    summary: dict[str, Any] | None
    start_unix_ns: int | None
    end_unix_ns: int | None
    epoch_ns: int | None

    def histogram_logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.hdr"))

    @property
    def operations(self) -> dict[str, Any]:
        """The summary's operations, name -> counts and latencies."""
        return dict(self.summary["operations"]) if self.summary else {}


def read_clients(store: RunStore, clocks: dict[str, NodeClock]) -> list[ClientPhase]:
    """Every client's part of every phase, windows aligned to the controller's clock."""
    return [_read_client(store, client, phase, clocks[client]) for client, phase in store.client_phases()]


def histogram_intervals(clients: list[ClientPhase], clocks: dict[str, NodeClock]) -> pa.Table:
    """The intervals of all histogram logs (:data:`INTERVAL_SCHEMA`), their starts aligned."""
    tables = [INTERVAL_SCHEMA.empty_table()]
    for part, path, (operation, _) in _logs(clients):
        starts, lengths = hdr.interval_times(path)
        aligned = clocks[part.client].to_controller(starts, part.epoch_ns)
        labels = [pa.repeat(label, len(starts)) for label in (part.client, part.phase, operation)]
        tables.append(pa.table([*labels, aligned, lengths], schema=INTERVAL_SCHEMA))
    return pa.concat_tables(tables)


def histogram_counts(clients: list[ClientPhase], clocks: dict[str, NodeClock], phase: str, operation: str) -> pa.Table:
    """The histograms of one operation in one phase (:data:`HISTOGRAM_SCHEMA`), interval starts aligned.

    Those of a whole run may be more than fits into memory: a value range of a second is a row.
    """
    tables = [HISTOGRAM_SCHEMA.empty_table()]
    for part, path, content in _logs(clients):
        if (part.phase, content[0]) != (phase, operation):
            continue
        counts = hdr.counts_table(path)
        starts = counts["interval_start_unix_ns"].to_numpy()
        aligned = clocks[part.client].to_controller(starts, part.epoch_ns)
        counts = counts.set_column(0, "interval_start_unix_ns", pa.array(aligned))
        labels = [pa.repeat(label, counts.num_rows) for label in (part.client, part.phase, *content)]
        tables.append(pa.table(labels + counts.columns, schema=HISTOGRAM_SCHEMA))
    return pa.concat_tables(tables)


def histogram_totals(clients: list[ClientPhase]) -> dict[tuple[str, str], Counter[str]]:
    """(client, phase) -> finished operations by name, failed ones included."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for part, path, (operation, what) in _logs(clients):
        if what != hdr.INTENDED:
            counted = sum(int(interval.count.sum()) for interval in hdr.read_intervals(path))
            totals.setdefault((part.client, part.phase), Counter())[operation] += counted
    return totals


def _logs(clients: list[ClientPhase]) -> Iterator[tuple[ClientPhase, Path, tuple[str, str]]]:
    """Every histogram log of an operation of its own, with its operation and what it holds."""
    for part in clients:
        for path in part.histogram_logs():
            if (content := hdr.log_content(path)) is not None:
                yield part, path, content


def client_windows(
    clients: list[ClientPhase], intervals: pa.Table, timeline: Timeline
) -> dict[tuple[str, str], tuple[int, int]]:
    """(client, phase) -> [start, end) in which that client measured (unix ns, controller's clock).

    The client's summary says it; where that is missing (killed client), its histogram intervals do.
    DataError for one that is longer than the run: each of its seconds would become a row.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for part in clients:
        window = _window(part, intervals)
        if window is None:
            continue
        if window[1] - window[0] > timeline.longest_ns:
            took_s = (timeline.end_unix_ns - timeline.start_unix_ns) / 1e9
            text = f"{part.folder} has a client that measured for {(window[1] - window[0]) / 1e9:,.0f} s"
            hint = "start_unix_ns or end_unix_ns of summary.json, or a time in a .hdr file, is damaged"
            raise DataError(f"{text}, and the run took {took_s:,.0f} s", node=part.client, hint=hint)
        found[part.client, part.phase] = window
    return found


def measured_windows(by_client: dict[tuple[str, str], tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """phase -> [start, end) in which any of its clients measured."""
    windows: dict[str, tuple[int, int]] = {}
    for (_, phase), window in by_client.items():
        before = windows.get(phase, window)
        windows[phase] = (min(before[0], window[0]), max(before[1], window[1]))
    return windows


def _window(part: ClientPhase, intervals: pa.Table) -> tuple[int, int] | None:
    if part.start_unix_ns is not None and part.end_unix_ns is not None:
        return part.start_unix_ns, part.end_unix_ns
    mine = intervals.filter((pc.field("client") == part.client) & (pc.field("phase") == part.phase))
    if mine.num_rows == 0:
        return None
    starts = mine["interval_start_unix_ns"].to_numpy()
    return int(starts.min()), int((starts + mine["interval_ns"].to_numpy()).max())


def _read_client(store: RunStore, client: str, phase: str, clock: NodeClock) -> ClientPhase:
    folder = store.client_dir(client, phase)
    path = folder / "summary.json"
    epoch = epoch_ns(folder / "ops.bin")
    if not path.is_file():
        return ClientPhase(client, phase, folder, None, None, None, epoch)
    summary = read_json(path)
    if summary.get("schema_version") != SUMMARY_VERSION:
        raise DataError(f"{path} has schema_version {summary.get('schema_version')!r}, not {SUMMARY_VERSION}")
    if where := misfit(summary, shapes.SUMMARY):
        raise DataError(f"{path} has no usable `{where}`")
    start, end = (clock.one_to_controller(summary.get(name), epoch, path) for name in ("start_unix_ns", "end_unix_ns"))
    return ClientPhase(client, phase, folder, summary, start, end, epoch)
