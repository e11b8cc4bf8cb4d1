"""What the figures are drawn from: the joined tables and descriptions of one run, read once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from controller.errors import DataError
from controller.results import schema
from controller.results.convert import open_run
from controller.results.join import traced_window
from controller.results.operations import LEAST_COVER
from controller.results.schema import BETWEEN_PHASES
from controller.results.store import RunStore, read_json
from controller.results.timeline import Timeline
from controller.results.validate_trace import read_trace, rows_by_device

_JOIN_AGAIN = "make the tables again from the raw files: `strata join RUN`"


@dataclass(frozen=True)
class RunData:
    """One run. `ops`, `joined` and `summary` are the tables of the same names; `facts`, `traces` per node,
    `traced` per node [start, end) of its tracer, `io_rows` per node and device."""

    store: RunStore
    manifest: dict[str, Any]
    plan: dict[str, Any]
    timeline: Timeline
    ops: pd.DataFrame
    joined: pd.DataFrame
    summary: pd.DataFrame
    facts: dict[str, dict[str, Any]]
    traces: dict[str, dict[str, Any]]
    traced: dict[str, tuple[int, int]]
    io_rows: dict[str, dict[str, int]]

    @property
    def bucket_s(self) -> float:
        return self.timeline.bucket_ns / 1e9

    @property
    def operations(self) -> list[str]:
        return sorted(self.ops["op"].unique())

    @property
    def nodes(self) -> list[str]:
        return sorted(self.joined["node"].unique())

    def by_cover(self, values: pd.DataFrame) -> pd.DataFrame:
        """Amounts of each bucket as if the node's tracer had run through all of it, empty where it hardly ran.

        `values` has them by (node, bucket_start_us).
        """
        nodes, buckets_us = values.index.get_level_values(0), values.index.get_level_values(1)
        covers = [self._cover(node, int(bucket_us)) for node, bucket_us in zip(nodes, buckets_us, strict=True)]
        return values.div(pd.Series(covers, index=values.index, dtype=float), axis=0)

    def _cover(self, node: str, bucket_us: int) -> float:
        """The part of a bucket in which the node's tracer ran; NaN when too little to say anything of the bucket."""
        if node not in self.traced:
            return 1.0
        begin, length = self.timeline.start_unix_ns + bucket_us * 1000, self.timeline.bucket_ns
        start, end = self.traced[node]
        cover = (min(end, begin + length) - max(start, begin)) / length
        return cover if cover >= LEAST_COVER else float("nan")

    def missing_trace(self, node: str) -> str:
        """Why a node has no I/O, as one clause."""
        if self.joined.loc[self.joined["node"] == node, "io_reads"].notna().any():
            return "traced, but no I/O of it was timed"
        entry = self.manifest.get("tracing", {}).get(node, {})
        state = entry.get("state")
        if state is None:
            return "not traced"
        if state == "traced":
            return "its trace was not collected"
        return f"tracing {state}: {entry['reason']}" if entry.get("reason") else f"tracing {state}"


def part_middle_s(run: RunData, rows: pd.DataFrame) -> NDArray[np.float64]:
    """Middle of the part of the bucket that belongs to the row's phase: a bucket may hold several phases.

    Where phases lie between two parts outside of all, it is the longer one's.
    """
    zero, length = run.timeline.start_unix_ns, run.timeline.bucket_ns
    stretches: dict[str, list[tuple[float, float]]] = {
        span.phase: [(span.start_unix_ns, span.end_unix_ns)] for span in run.timeline.spans
    }
    edges = [-inf, *chain.from_iterable(chain.from_iterable(stretches.values())), inf]
    stretches[BETWEEN_PHASES] = list(zip(edges[::2], edges[1::2], strict=True))
    middles = []
    for bucket_us, phase in zip(rows["bucket_start_us"], rows["phase"], strict=True):
        start = zero + int(bucket_us) * 1000
        parts = [(max(start, begin), min(start + length, end)) for begin, end in stretches.get(phase, [])]
        inside = [part for part in parts if part[0] < part[1]]
        begin, end = max(inside, key=lambda part: part[1] - part[0], default=(start, start + length))
        middles.append(((begin + end) / 2 - zero) / 1e9)
    return np.array(middles)


def load_run(run_dir: Path) -> RunData:
    """Read a joined run; DataError when it was not joined or its tables cannot be read."""
    run = open_run(run_dir)
    store, manifest = run.store, run.store.manifest()
    folders = {node: store.node_dir(node) for node in store.node_names()}
    return RunData(
        store=store,
        manifest=manifest,
        plan=store.plan(),
        timeline=run.timeline,
        ops=_table(store, manifest, schema.OPS),
        joined=_table(store, manifest, schema.JOINED),
        summary=_table(store, manifest, schema.SUMMARY),
        facts={node: read_json(path) for node, path in _there(folders, "facts.json").items()},
        traced={node: window for node in folders if (window := traced_window(run, node)) is not None},
        traces={node: read_trace(run, node) for node in _there(folders, "trace.json")},
        io_rows={node: rows_by_device(run, node) for node in folders},
    )


def _table(store: RunStore, manifest: dict[str, Any], table: schema.Table) -> pd.DataFrame:
    path = store.path / table.path
    texts = {column.name: "str" for column in table.columns if column.kind == "string"}
    try:
        content = path.read_bytes()
        found = pd.read_csv(BytesIO(content), dtype=texts, keep_default_na=False, na_values=[""])
    except FileNotFoundError:
        raise DataError(f"{path} is missing", hint="join the run first: `strata join RUN`") from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}", hint=_JOIN_AGAIN) from error
    if damage := _damage(content, found, table):
        raise DataError(f"{path} is damaged: {damage}", hint=_JOIN_AGAIN)
    listed = manifest.get("files", {}).get(table.path, {}).get("sha256")
    if listed is not None and listed != hashlib.sha256(content).hexdigest():
        raise DataError(f"{path} is not what the manifest's sha256 says", hint=_JOIN_AGAIN)
    return found


def _damage(content: bytes, found: pd.DataFrame, table: schema.Table) -> str:
    """What a table cannot be drawn for; empty when it can."""
    if not content.endswith(b"\n"):
        return "its last line is cut off"
    for column in table.columns:
        if "{op}" in column.name:  # of each operation of the run
            continue
        if column.name not in found:
            return f"it has no column {column.name}"
        if column.kind != "string" and len(found) and not is_numeric_dtype(found[column.name]):
            return f"something in its column {column.name} is no number"
    return ""


def _there(folders: dict[str, Path], name: str) -> dict[str, Path]:
    return {node: folder / name for node, folder in folders.items() if (folder / name).is_file()}
