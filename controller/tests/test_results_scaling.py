"""From runs to the tables of a scaling experiment. The runs are SYNTHETIC (made up, not measured)."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from controller.errors import DataError
from controller.results import schema
from controller.results.finish import finish
from controller.results.scaling import (
    PhaseLoad,
    PhaseMeasurement,
    Place,
    Scaling,
    analyse,
    dominant,
    is_complete,
    placements,
    read_runs,
    write_tables,
)
from controller.results.store import RunStore
from controller.results.usl import Law
from controller.tests.synthetic import T0
from controller.tests.synthetic.run import Truth, write_run

LOAD = PhaseLoad("run", "workloada", 1000, 4)


def measured(phase: str, throughputs: dict[int, list[float | None]]) -> list[PhaseMeasurement]:
    return [
        PhaseMeasurement(size, f"r{size}{i}", phase, LOAD, value, value and 1000 / value)
        for size, values in throughputs.items()
        for i, value in enumerate(values)
    ]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_speedup_and_efficiency_are_against_the_smallest_cluster() -> None:
    outcome = analyse(measured("w", {2: [100, 110, 90], 1: [50, 50, 50], 4: [150, 160, 140]}))
    steps = {step.servers: step for step in outcome.of_phase("w")}
    assert [step.servers for step in outcome.steps] == [1, 2, 4]
    speedups = {size: step.speedup.value for size, step in steps.items() if step.speedup}
    assert speedups == pytest.approx({1: 1, 2: 2, 4: 3})
    efficiencies = {size: step.efficiency.value for size, step in steps.items() if step.efficiency}
    assert efficiencies == pytest.approx({1: 1, 2: 1, 4: 0.75})
    four = steps[4].efficiency
    assert four is not None and four.low is not None and four.high is not None
    assert four.low < 0.75 < four.high
    assert steps[1].speedup is not None and steps[1].speedup.low is None, "the reference has no error against itself"


def test_a_series_that_starts_above_one_is_relative_to_its_start() -> None:
    steps = analyse(measured("w", {2: [100.0], 6: [240.0]})).steps
    assert steps[1].speedup is not None and steps[1].efficiency is not None
    assert (steps[1].speedup.value, steps[1].efficiency.value) == pytest.approx((2.4, 0.8))


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    outcome = analyse(measured("w", {1: [None], 2: [80.0]}) + measured("v", {1: [70.0]}))
    write_tables(outcome, tmp_path)
    first, second, third = rows(tmp_path / "scaling.csv")
    unknown = {name for name, value in first.items() if value == ""}
    assert unknown == set(schema.SCALING.names) - {"phase", "kind", "workload", "records", "threads", "servers", "runs"}
    assert (second["throughput_ops_per_s"], second["speedup"], second["throughput_ops_per_s_ci_low"]) == ("80", "", "")
    assert (third["phase"], third["speedup"], third["speedup_ci_low"]) == ("v", "1", "")
    law = rows(tmp_path / "law.csv")
    assert [row["parameter"] for row in law] == [*schema.LAW_PARAMETERS] * 2
    assert {(row["value"], row["ci_low"], row["runs"]) for row in law} == {("", "", "")}
    assert "three sizes are needed" in law[0]["note"]


def test_the_tables_hold_what_was_found(tmp_path: Path) -> None:
    outcome = analyse(measured("w", {n: [100 * n / (1 + 0.1 * (n - 1))] * 2 for n in (1, 2, 3, 4)}))
    write_tables(outcome, tmp_path)
    law = {row["parameter"]: row for row in rows(tmp_path / "law.csv")}
    assert float(law["lambda_ops_per_s"]["value"]) == pytest.approx(100)
    assert float(law["sigma"]["value"]) == pytest.approx(0.1, rel=1e-3)
    assert law["sigma"]["runs"] == "8"
    steps = {row["servers"]: row for row in rows(tmp_path / "scaling.csv")}
    found = {name: steps["2"][name] for name in ("runs", "throughput_ops_per_s", "throughput_ops_per_s_ci_low")}
    assert found == {"runs": "2", "throughput_ops_per_s": "181.818", "throughput_ops_per_s_ci_low": "181.818"}
    assert (steps["2"]["speedup"], steps["2"]["efficiency"]) == ("1.81818", "0.909091")
    assert [law[name]["note"] for name in schema.LAW_PARAMETERS] == [""] * 4
    assert isinstance(outcome.laws["w"], Law) and law["peak_servers"]["value"] == ""
    falling = measured("w", {n: [100 * n / (1 + 0.1 * (n - 1) + 0.025 * n * (n - 1))] for n in (1, 2, 3, 4)})
    write_tables(analyse(falling), tmp_path)
    law = {row["parameter"]: row for row in rows(tmp_path / "law.csv")}
    assert float(law["peak_servers"]["value"]) == pytest.approx(6, rel=1e-4), "the root of (1 - 0.1) / 0.025"
    assert {(row["ci_low"], "not every size was measured twice" in row["note"]) for row in law.values()} == {("", True)}


def test_regions_are_of_the_worst_run_and_locality_and_io_of_all(tmp_path: Path) -> None:
    even, uneven = {"node1": 2, "node2": 2}, {"node1": 3, "node2": 1}
    ones = [
        PhaseMeasurement(2, "a", "w", LOAD, 1.0, 1.0, {("node1", "device"): 1.0}, even, {"node1": 1.0, "node2": 0.5}),
        PhaseMeasurement(
            2,
            "b",
            "w",
            LOAD,
            1.0,
            1.0,
            {("node1", "device"): 1.0, ("node2", "block"): 1.0},
            uneven,
            {"node1": 0.9},
        ),
    ]
    (step,) = analyse(ones).steps
    write_tables(analyse(ones), tmp_path)
    (row,) = rows(tmp_path / "scaling.csv")
    assert (row["regions"], row["uneven_regions"]) == ("node1=3 node2=1", "2")
    assert (row["locality"], row["lowest_locality"]) == ("0.8", "0.5")
    assert (row["io_node"], row["io_layer"], row["io_share"]) == ("node1", "device", "0.6667")
    assert (step.regions, step.uneven_regions, step.lowest_locality) == (uneven, 2, 0.5)
    assert step.locality == pytest.approx(0.8)


def test_a_phase_has_the_placement_noted_for_it_or_the_one_before() -> None:
    def noted(phase: str, table: str, count: int) -> dict[str, object]:
        return {"event": "regions_placed", "phase": phase, "table": table, "regions": {"node1": count}}

    def begun(phase: str) -> dict[str, object]:
        return {"event": "phase_start", "phase": phase}

    events = [begun("load"), noted("load", "t", 1), noted("write", "t", 2), begun("write"), begun("scan"), begun("u")]
    found = placements(events, {"load": "t", "write": "t", "scan": "t", "u": "other"})
    assert {phase: event["regions"]["node1"] for phase, event in found.items()} == {"load": 1, "write": 2, "scan": 2}


def test_a_cluster_that_did_nothing_is_neither_faster_nor_a_reference() -> None:
    outcome = analyse(measured("w", {2: [5.0, 5.0], 3: [0.0, 0.0]}) + measured("v", {1: [0.0, 0.0], 2: [5.0, 5.0]}))
    assert [step.speedup and step.speedup.value for step in outcome.steps] == [1, None, None, None]
    assert [step.throughput_ops_per_s and step.throughput_ops_per_s.value for step in outcome.steps] == [5, 0, 0, 5]


def test_nothing_measured_is_nothing() -> None:
    assert analyse([]) == Scaling([], {})
    assert dominant([]) is None and dominant([{}]) is None


def test_the_largest_part_of_the_io_time_is_over_all_runs() -> None:
    first = {("n1", "device"): 60.0, ("n2", "block"): 70.0}
    second = {("n1", "device"): 50.0, ("n1", "vfs"): 20.0}
    assert dominant([first, second]) == Place("n1", "device", 0.55)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Truth]]:
    """A folder with one complete run on one server and one on two."""
    folder = tmp_path_factory.mktemp("series")
    truths = {}
    for size in (1, 2):
        nodes = tuple(f"node{i + 1}" for i in range(size))
        truth = write_run(folder / "made", nodes=nodes, seed=size)
        plan = truth.store.plan()
        for phase in plan["phases"]:
            phase["properties"] = {"table": f"t{size}", "readproportion": "0.5"}
        (truth.store.path / "plan.json").write_text(json.dumps(plan))
        events = truth.store.path / "events.jsonl"
        before = events.read_text()
        events.unlink()
        placed = {"regions": {"node1": 3}, "locality": {"node1": 0.5}}
        truth.store.append_event("regions_placed", t_unix_ns=T0, phase="load", table="t", **placed)
        events.write_text(events.read_text() + before)
        parent = folder / f"servers-{size}"
        parent.mkdir()
        store = RunStore(truth.store.path.rename(parent / truth.store.run_id))
        finish(store.path)
        (store.path / schema.REPORT).write_text("x")
        store.record_files()
        store.update_manifest(status="complete")
        truths[size] = Truth(store, truth.operations, truth.io)
    return folder, truths


def test_runs_are_read_with_their_size_and_their_io_time(series: tuple[Path, dict[int, Truth]]) -> None:
    """I/O time per node and layer against a sum over the rows that were put in."""
    folder, truths = series
    found = read_runs(folder)
    assert sorted({one.servers for one in found}) == [1, 2]
    for size, truth in truths.items():
        assert is_complete(truth.store)
        spans = [event for event in truth.store.events() if event["event"].startswith("phase_")]
        for one in (one for one in found if one.servers == size):
            assert (one.load.kind in one.phase, one.load.threads) == (True, 4)
            assert one.load.properties == {"readproportion": "0.5"}, "tables have names of their own"
            assert (one.regions, one.locality) == ({"node1": 3}, {"node1": 0.5}), "as noted last before"
            start, end = (event["t_unix_ns"] for event in spans if event["phase"] == one.phase)
            expected: dict[tuple[str, str], float] = defaultdict(float)
            for row in truth.io:
                if start <= row["t_unix_ns"] < end:
                    for layer in schema.LAYERS:
                        expected[row["node"], layer] += row[f"{layer}_ns"] or 0
            # Means in io.csv have one decimal.
            assert dict(one.io_time_ns) == pytest.approx({k: v for k, v in expected.items() if v}, rel=1e-4)
            operations = sum(row["phase"] == one.phase for row in truth.operations)
            assert one.throughput_ops_per_s is not None and one.runtime_s is not None
            assert one.throughput_ops_per_s * one.runtime_s == pytest.approx(operations, rel=1e-4)


@pytest.mark.parametrize("name", ["joined/summary.csv", "joined/io.csv"])
@pytest.mark.parametrize(
    "content", [None, b"\xff\xfe", b"a,b\n1,2\n", b"cut"], ids=["gone", "no text", "other", "cut off"]
)
def test_a_damaged_table_is_a_data_error_that_names_the_run(
    name: str, content: bytes | None, series: tuple[Path, dict[int, Truth]]
) -> None:
    folder, truths = series
    path = truths[2].store.path / name
    before = path.read_bytes()
    try:
        path.unlink()
        if content is not None:
            path.write_bytes(before[: len(before) // 2] if content == b"cut" else content)
        with pytest.raises(DataError, match=re.escape(str(path))) as error:
            read_runs(folder)
        assert "strata join" in error.value.hint
    finally:
        path.write_bytes(before)


def test_a_run_that_did_not_end_is_not_counted(series: tuple[Path, dict[int, Truth]]) -> None:
    folder, truths = series
    store = truths[2].store
    manifest = store.manifest()
    try:
        store.update_manifest(status="partial")
        assert {one.servers for one in read_runs(folder)} == {1}
        files = {name: entry for name, entry in manifest["files"].items() if name != schema.REPORT}
        store.write_manifest({**manifest, "files": files})
        assert {one.servers for one in read_runs(folder)} == {1}
    finally:
        (store.path / "manifest.json").write_text(json.dumps(manifest))
