"""What a scaling experiment says: throughput, speed-up, efficiency and law of each phase, and what its I/O waits for.

Pure but for :func:`read_runs` and :func:`write_tables`. Repetitions are the unit: a number with an interval is one over
runs, never over the seconds of one run.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from controller.errors import DataError
from controller.results import schema
from controller.results.convert import write_csv
from controller.results.intervals import Estimate, mean, quotient
from controller.results.store import RunStore, runs
from controller.results.usl import Law, fit

#: (node, layer) -> time of all requests in that layer, in ns.
LayerTimes = Mapping[tuple[str, str], float]
_ARROW = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64()}


@dataclass(frozen=True)
class PhaseLoad:
    """What the clients of a phase do together; the same in every run. ``properties``: all but the table's name."""

    kind: str
    workload: str
    records: int
    threads: int
    target_ops_per_s: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseMeasurement:
    """One phase of one complete run. ``io_time_ns`` is empty when nothing was traced; ``regions``: of the phase's table
    by server, None when that was not asked; ``locality``: share of a server's bytes on disk that lies on its node."""

    servers: int
    run_id: str
    phase: str
    load: PhaseLoad
    throughput_ops_per_s: float | None
    runtime_s: float | None
    io_time_ns: LayerTimes = field(default_factory=dict)
    regions: Mapping[str, int] | None = None
    locality: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where a phase's I/O spent most time, over all its runs: ``share`` of the I/O time of all nodes and layers."""

    node: str
    layer: str
    share: float


@dataclass(frozen=True)
class Step:
    """One phase on one number of servers, over all its runs. ``speedup`` is against the smallest number;
    ``efficiency`` is that by the growth in servers. ``regions`` by server, of the run in which they differ most;
    ``locality``: mean over servers and runs, and ``lowest_locality`` of any."""

    phase: str
    load: PhaseLoad
    servers: int
    runs: int
    throughput_ops_per_s: Estimate | None
    runtime_s: Estimate | None
    speedup: Estimate | None
    efficiency: Estimate | None
    place: Place | None
    regions: Mapping[str, int] | None
    locality: float | None
    lowest_locality: float | None

    @property
    def uneven_regions(self) -> int | None:
        """Most regions of a server minus fewest."""
        return None if self.regions is None else _unevenness(self.regions)


@dataclass(frozen=True)
class Scaling:
    """The outcome: steps by phase (in the order of the runs) and number of servers; each phase's law, or why there is
    none."""

    steps: Sequence[Step]
    laws: Mapping[str, Law | str]

    def of_phase(self, phase: str) -> list[Step]:
        return [step for step in self.steps if step.phase == phase]


def analyse(measurements: Iterable[PhaseMeasurement]) -> Scaling:
    """Groups measurements by phase and number of servers. What was not measured is None."""
    grouped: dict[str, dict[int, list[PhaseMeasurement]]] = {}
    for one in measurements:
        grouped.setdefault(one.phase, {}).setdefault(one.servers, []).append(one)
    steps, laws = [], {}
    for phase, by_size in grouped.items():
        throughput = {size: _known(one.throughput_ops_per_s for one in by_size[size]) for size in sorted(by_size)}
        steps += [_step(phase, size, by_size[size], throughput) for size in throughput]
        laws[phase] = fit(throughput)
    return Scaling(steps, laws)


def _step(phase: str, size: int, ones: Sequence[PhaseMeasurement], throughput: Mapping[int, Sequence[float]]) -> Step:
    smallest = min(throughput)
    runtime = _known(one.runtime_s for one in ones)
    speedup = _speedup(throughput[size], throughput[smallest], is_reference=size == smallest)
    shares = [share for one in ones for share in one.locality.values()]
    return Step(
        phase=phase,
        load=ones[0].load,
        servers=size,
        runs=len(ones),
        throughput_ops_per_s=mean(throughput[size]) if throughput[size] else None,
        runtime_s=mean(runtime) if runtime else None,
        speedup=speedup,
        efficiency=_scaled(speedup, smallest / size),
        place=dominant([one.io_time_ns for one in ones]),
        regions=max((one.regions for one in ones if one.regions), key=_unevenness, default=None),
        locality=fmean(shares) if shares else None,
        lowest_locality=min(shares, default=None),
    )


def _unevenness(regions: Mapping[str, int]) -> int:
    return max(regions.values()) - min(regions.values())


def _speedup(values: Sequence[float], reference: Sequence[float], *, is_reference: bool) -> Estimate | None:
    if not values or not reference or fmean(reference) <= 0 or fmean(values) <= 0:
        return None
    return Estimate(1.0) if is_reference else quotient(values, reference)


def _scaled(estimate: Estimate | None, factor: float) -> Estimate | None:
    if estimate is None:
        return None
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return Estimate(estimate.value * factor, low, high)


def dominant(times: Iterable[LayerTimes]) -> Place | None:
    """The largest part of the I/O time of several runs together; None without any I/O."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    for one in times:
        for place, time_ns in one.items():
            total[place] += time_ns
    everything = sum(total.values())
    if everything <= 0:
        return None
    node, layer = max(total, key=lambda place: total[place])
    return Place(node, layer, total[node, layer] / everything)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def read_runs(folder: Path) -> list[PhaseMeasurement]:
    """Every phase of every complete run below a scaling experiment's folder (``<servers>/<run-id>/``)."""
    return [one for store in runs(folder) if is_complete(store) for one in _read_run(store)]


def is_complete(store: RunStore) -> bool:
    """Whether a run came to its very end, the report, and its data can be trusted."""
    manifest = store.manifest()
    return manifest.get("status") == "complete" and schema.REPORT in manifest.get("files", {})


def data_servers(store: RunStore) -> int:
    """On how many data servers a run was planned."""
    return sum("database" in node["roles"] for node in store.plan()["nodes"])


def _read_run(store: RunStore) -> list[PhaseMeasurement]:
    servers = data_servers(store)
    values = {
        (row["phase"], row["metric"]): float(row["value"])
        for row in _rows(store, schema.SUMMARY)
        if row["op"] == schema.ALL_OPERATIONS and row["value"]
    }
    io_times = _io_times(_rows(store, schema.IO))
    tables = {phase["name"]: phase["table"] for phase in store.plan()["phases"]}
    placed = placements(store.events(), tables)
    return [
        PhaseMeasurement(
            servers=servers,
            run_id=store.run_id,
            phase=phase["name"],
            load=_load(phase),
            throughput_ops_per_s=values.get((phase["name"], "throughput_ops_per_s")),
            runtime_s=values.get((phase["name"], "runtime_s")),
            io_time_ns=io_times.get(phase["name"], {}),
            regions=placed.get(phase["name"], {}).get("regions"),
            locality=placed.get(phase["name"], {}).get("locality", {}),
        )
        for phase in store.plan()["phases"]
    ]


def _load(phase: Mapping[str, Any]) -> PhaseLoad:
    properties = {name: value for name, value in phase.get("properties", {}).items() if name != "table"}
    return PhaseLoad(
        phase["kind"], phase["workload"], phase["record_count"], phase["threads"], phase.get("target"), properties
    )


def placements(events: Iterable[Mapping[str, Any]], tables: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """phase -> where its table was: as noted for the phase itself, else as it was noted last before."""
    last: dict[str, Mapping[str, Any]] = {}
    found: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event["event"] == "regions_placed":
            last[event["table"]] = found[event["phase"]] = event
        elif event["event"] == "phase_start" and (known := last.get(tables[event["phase"]])):
            found.setdefault(event["phase"], known)
    return found


def _io_times(rows: Iterable[Mapping[str, str]]) -> dict[str, dict[tuple[str, str], float]]:
    """phase -> time per node and layer, from io.csv.

    A device shows block, driver and device of all its requests or of none, so requests times mean is their sum. VFS is
    there for the requests of system calls only; it is what is left of the total, for the layers add up to it.
    """
    times: dict[str, dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        left_ns = int(row["ios"]) * float(row["total_mean_ns"] or 0)
        for layer in schema.LAYERS[1:]:
            layer_ns = int(row["ios"]) * float(row[f"{layer}_mean_ns"] or 0)
            times[row["phase"]][row["node"], layer] += layer_ns
            left_ns -= layer_ns
        if row["vfs_mean_ns"]:
            times[row["phase"]][row["node"], schema.LAYERS[0]] += max(left_ns, 0.0)
    return {phase: {place: ns for place, ns in places.items() if ns > 0} for phase, places in times.items()}


def _rows(store: RunStore, table: schema.Table) -> list[dict[str, str]]:
    path = store.path / table.path
    try:
        text = path.read_text(encoding="utf-8")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        rows = list(reader)
        if not text.endswith("\n"):
            raise ValueError("its last line is cut off")
        if missing := set(table.names).difference(reader.fieldnames or ()):
            raise ValueError(f"it has no column {min(missing)}")
    except (OSError, ValueError, csv.Error) as error:
        hint = f"make the tables again from the raw files: `strata join {store.path}`"
        raise DataError(f"{path} cannot be used: {error}", hint=hint) from error
    return rows


def write_tables(outcome: Scaling, folder: Path) -> list[Path]:
    """scaling.csv and law.csv."""
    return [
        _write(schema.SCALING, [_step_row(step) for step in outcome.steps], folder),
        _write(schema.LAW, [row for phase, law in outcome.laws.items() for row in _law_rows(phase, law)], folder),
    ]


def _write(table: schema.Table, rows: list[dict[str, object]], folder: Path) -> Path:
    types = pa.schema([(column.name, _ARROW[column.kind]) for column in table.columns])
    return write_csv(pa.Table.from_pylist(rows, schema=types), folder / table.path)


def _step_row(step: Step) -> dict[str, object]:
    row: dict[str, object] = {"phase": step.phase, "servers": step.servers, "runs": step.runs}
    row |= {name: getattr(step.load, name) for name in ("kind", "workload", "records", "threads")}
    for name in ("throughput_ops_per_s", "runtime_s", "speedup", "efficiency"):
        row |= _cells(name, getattr(step, name))
    place = step.place
    return row | {
        "io_node": place and place.node,
        "io_layer": place and place.layer,
        "io_share": place and round(place.share, 4),
        "regions": step.regions and " ".join(f"{node}={count}" for node, count in step.regions.items()),
        "uneven_regions": step.uneven_regions,
        "locality": None if step.locality is None else round(step.locality, 4),
        "lowest_locality": None if step.lowest_locality is None else round(step.lowest_locality, 4),
    }


def _law_rows(phase: str, law: Law | str) -> list[dict[str, object]]:
    if isinstance(law, str):
        return [{"phase": phase, "parameter": name, "note": law} for name in schema.LAW_PARAMETERS]
    peak = None if law.peak_servers is None else Estimate(law.peak_servers)
    estimates = (law.lambda_ops_per_s, law.sigma, law.kappa, peak)
    return [
        {"phase": phase, "parameter": name, **_cells("value", estimate), "runs": law.runs, "note": law.note or None}
        for name, estimate in zip(schema.LAW_PARAMETERS, estimates, strict=True)
    ]


def _cells(name: str, estimate: Estimate | None) -> dict[str, object]:
    prefix = "ci" if name == "value" else f"{name}_ci"
    values = (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)
    return {
        key: None if value is None else float(f"{value:.6g}")
        for key, value in zip((name, f"{prefix}_low", f"{prefix}_high"), values, strict=True)
    }
