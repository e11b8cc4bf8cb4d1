"""A run from deployment to report, checked against HBase's own count, the raw files and the kernel's counters."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from controller.tests.e2e.conftest import SMALL, Strata

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def finished(cluster: Strata) -> Path:
    answer = cluster("run", str(SMALL), "--tag", "purpose=test")
    assert answer.returncode == 0, answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr
    return cluster.latest()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def plan(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "plan.json").read_text()))


def planned(run: Path, phase: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for entry in plan(run)["phases"]:
        if entry["name"] == phase:
            for shard in entry["shards"]:
                total.update(shard["planned"])
    return total


def logged(path: Path) -> int:
    """How many values an .hdr log holds, read by a library that is not ours."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    total = 0
    while (interval := reader.get_next_interval_histogram()) is not None:
        total += interval.get_total_count()
    return total


@pytest.mark.parametrize("phase", ["app-load", "app-run"])
def test_one_number_of_operations_everywhere(finished: Path, phase: str) -> None:
    expected = planned(finished, phase)
    assert sum(expected.values()) == {"app-load": 1001, "app-run": 3001}[phase]
    in_ops, in_hdr, in_summary, in_log = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row in rows(finished / "joined/ops.csv"):
        if row["phase"] == phase:
            in_ops[row["op"]] += int(row["count"])
    for folder in finished.glob(f"clients/*/{phase}"):
        for path in folder.glob("*.hdr"):
            in_hdr[path.stem.removesuffix("-FAILED")] += logged(path)
        operations = json.loads((folder / "summary.json").read_text())["operations"]
        in_summary.update({op: values["count"] for op, values in operations.items()})
        in_log.update(pq.read_table(folder / "ops.parquet").column("op").to_pylist())
    assert expected == in_ops == in_hdr == in_summary == in_log


def test_it_says_that_all_its_nodes_are_one_machine(finished: Path) -> None:
    # All but the master, which has no agent that could tell its machine.
    nodes = sorted(node["name"] for node in plan(finished)["nodes"] if node["roles"] != ["master"])
    warnings = json.loads((finished / "manifest.json").read_text())["warnings"]
    assert [text.partition(":")[0] for text in warnings if "one machine" in text] == [", ".join(nodes)]


def test_the_shards_loaded_disjoint_complete_ranges(finished: Path) -> None:
    ranges = sorted(
        (summary["key_start"], summary["key_end"])
        for path in finished.glob("clients/*/app-load/summary.json")
        if (summary := json.loads(path.read_text()))
    )
    assert ranges == [(0, 500), (500, 1001)]
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    counted = [event["rows"] for event in events if event["event"] == "rows_counted"]
    assert counted == [1001], "counted by a scan in HBase"


def test_it_says_what_it_dropped_from_the_page_cache(finished: Path) -> None:
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    evicted = [event["evicted"] for event in events if event.get("preparation") == "evict_page_cache"]
    servers = {node["name"] for node in plan(finished)["nodes"] if "database" in node["roles"]}
    assert [set(nodes) for nodes in evicted] == [servers]
    assert all(of["files"] > 0 and of["bytes"] > 0 for of in evicted[0].values()), evicted


def test_layers_of_every_io_add_up(finished: Path) -> None:
    traced = [row for path in finished.glob("nodes/*/io.csv") for row in rows(path)]
    if not traced:
        pytest.skip("I/O cannot be traced on this machine")
    layers = ("vfs_ns", "block_ns", "driver_ns", "device_ns")
    assert all(int(row["total_ns"]) == sum(int(row[layer] or 0) for layer in layers) for row in traced)
    assert all(row["driver_ns"] == "" for row in traced), "this kernel does not show it: empty, not 0"
    assert {row["mode"] for row in traced} >= {"R", "W"}
    assert {row["node"] for row in traced} == {"node1", "node2", "node3"}


def test_io_is_what_the_kernel_counted(finished: Path) -> None:
    traces = sorted(finished.glob("nodes/*/trace.json"))
    if not traces:
        pytest.skip("I/O cannot be traced on this machine")
    for path in traces:
        trace = json.loads(path.read_text())
        listed = len(rows(path.parent / "io.csv"))
        assert listed + trace["dropped"] == trace["completions"] == trace["emitted"] + trace["dropped"]
        for device in trace["devices"]:
            before, after = device["diskstats_before"], device["diskstats_after"]
            grown = sum(after[kind] - before[kind] for kind in ("reads", "writes", "discards", "flushes"))
            assert grown == device["completions"] + sum(device["excluded"].values()), (path, device)


def test_calls_have_returned_after_their_last_request(finished: Path) -> None:
    traces = sorted(finished.glob("nodes/*/trace.json"))
    if not traces:
        pytest.skip("I/O cannot be traced on this machine")
    for path in traces:
        trace = json.loads(path.read_text())
        returns = trace["returns"]
        assert returns["emitted"] + returns["dropped"] == returns["returned"] > 0
        waited = [row for row in rows(path.parent / "io.csv") if row["return_ns"]]
        assert 0 < len(waited) <= returns["emitted"]
        assert all(row["vfs_ns"] and int(row["return_ns"]) >= 0 for row in waited)
        # the log is synced to the disk: each sync that the kernel ended with a request has come back
        assert trace["vfs"]["sync"]["with_io"]["calls"] > 0


def test_the_context_covers_the_time_of_the_trace(finished: Path) -> None:
    traces = sorted(finished.glob("nodes/*/trace.json"))
    if not traces:
        pytest.skip("I/O cannot be traced on this machine")
    for path in traces:
        trace = json.loads(path.read_text())
        context = rows(path.parent / "context.csv")
        covered = sum(int(row["interval_ns"]) for row in context)
        traced = trace["stopped_mono_ns"] - trace["started_mono_ns"]
        assert covered == pytest.approx(traced, abs=2.5e9), path
        # a database under load switches tasks in every second of its phases
        assert sum(int(row["run_queue_waits"]) > 0 for row in context) > len(context) / 2


def test_the_joined_table_has_every_node_in_every_bucket_of_a_phase(finished: Path) -> None:
    nodes: dict[tuple[str, str], set[str]] = {}
    for row in rows(finished / "joined/joined.csv"):
        if row["phase"].startswith("app-"):
            nodes.setdefault((row["bucket_start_us"], row["phase"]), set()).add(row["node"])
    assert nodes
    assert all(there == {"node1", "node2", "node3"} for there in nodes.values())


def test_the_manifest_can_be_trusted(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert (manifest["status"], manifest["reasons"], manifest["tags"]) == ("complete", [], {"purpose": "test"})
    assert manifest["versions"]["HBase"] == "2.6.4-hadoop3"
    assert manifest["durability"]["hbase.wal.hsync"] is True
    files = {path.relative_to(finished).as_posix() for path in finished.rglob("*") if path.is_file()}
    assert files - {"manifest.json"} == set(manifest["files"])


def test_it_can_be_shown_joined_and_drawn_again(cluster: Strata, finished: Path) -> None:
    assert "app-run" in cluster("show").stdout
    assert json.loads(cluster("show", "--format", "json").stdout)["manifest"]["status"] == "complete"
    before = (finished / "joined/joined.csv").read_bytes()
    assert cluster("join").returncode == 0
    assert (finished / "joined/joined.csv").read_bytes() == before
    assert cluster("report").stdout.strip().endswith("report.html")


def test_a_second_deploy_changes_nothing(cluster: Strata, finished: Path) -> None:
    assert "changed=0" in cluster("deploy", "--experiment", str(SMALL)).stdout
