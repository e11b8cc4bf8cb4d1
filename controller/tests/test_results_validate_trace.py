"""Every contradiction between a trace, its rows and the kernel's counters is found, and only that one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller.results import schema
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.judged import change, consistent_run, device, errors, only


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return consistent_run(tmp_path)


def summed(table: Any, layers: dict[str, int]) -> Any:
    """With other times in the first row, whose total is still their sum."""
    rows = table.to_pylist()
    rows[0] |= layers
    rows[0]["total_ns"] = sum(rows[0][f"{layer}_ns"] or 0 for layer in schema.LAYERS)
    return table.from_pylist(rows, schema=table.schema)


def test_no_layer_ends_before_it_begins(store: RunStore) -> None:
    path = store.node_dir("node1") / "io.parquet"
    pq.write_table(summed(pq.read_table(path), {"block_ns": 0, "driver_ns": -1}), path)
    only(errors(store), "node1", "1 I/O rows have a negative layer")


def test_rows_of_a_disk_that_the_tracer_does_not_list(store: RunStore) -> None:
    change(store.node_dir("node1") / "trace.json", device(device="loop7"))
    found = {finding.where: finding.what for finding in errors(store)}
    assert found == {
        "node1/loop1": "260 I/O rows, and trace.json lacks the device",
        "node1/loop7": "0 rows + 0 dropped are not 260 completions",
    }


def test_layers_must_add_up_exactly(store: RunStore) -> None:
    path = store.node_dir("node1") / "io.parquet"
    table = pq.read_table(path)
    totals = table["total_ns"].to_pylist()
    totals[3] += 1
    index = table.schema.get_field_index("total_ns")
    pq.write_table(table.set_column(index, table.schema.field(index), [totals]), path)
    only(errors(store), "node1", "do not add up", "1 I/O rows")


def test_rows_and_dropped_are_the_completions(store: RunStore) -> None:
    path = store.node_dir("node2") / "io.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(2), path)
    only(errors(store), "node2/loop2", f"{table.num_rows - 2} rows + 0 dropped")


def test_a_trace_of_no_disk_is_a_warning(store: RunStore) -> None:
    """By process that may be: none of them did any I/O. Nothing else says so."""
    folder = store.node_dir("node2")
    change(folder / "trace.json", lambda trace: trace.update(devices=[]))
    pq.write_table(pq.read_table(folder / "io.parquet").slice(0, 0), folder / "io.parquet")
    (folder / "io.bin").unlink(missing_ok=True)
    only([f for f in finish(store.path).findings if f.severity == "warning"], "node2", "lists no disk")


def test_completions_are_what_diskstats_counted(store: RunStore) -> None:
    path = store.node_dir("node1") / "trace.json"
    change(path, lambda t: t["devices"][0]["excluded"].update(merged=-1))
    only(errors(store), "node1/loop1", "diskstats counted", "2 in flight at start, -1 merged")


def test_unsettled_diskstats_are_not_compared(store: RunStore) -> None:
    def edit(trace: dict[str, Any]) -> None:
        trace["devices"][0].update(diskstats_settled=False, excluded={})

    change(store.node_dir("node1") / "trace.json", edit)
    findings = finish(store.path).findings
    assert [finding.severity for finding in findings] == ["info"]


def test_nothing_is_compared_with_diskstats_of_a_disk_that_has_gone(store: RunStore) -> None:
    def edit(trace: dict[str, Any]) -> None:
        trace["devices"][0].update(diskstats_after=None, diskstats_settled=False, excluded={})

    change(store.node_dir("node1") / "trace.json", edit)
    (finding,) = finish(store.path).findings
    assert finding.severity == "info" and "the disk had gone" in finding.what


def test_lost_events_are_a_warning_with_their_number(store: RunStore) -> None:
    def edit(trace: dict[str, Any]) -> None:
        device = trace["devices"][0]
        device.update(completions=device["completions"] + 7, dropped=7, excluded={"in flight at start": -5})

    change(store.node_dir("node1") / "trace.json", edit)
    finished = finish(store.path)
    assert finished.trusted
    assert finished.manifest["lost_events"]["node1"] == 7
    assert [f.where for f in finished.findings] == ["node1/loop1"]
    assert "7 of" in finished.manifest["warnings"][0]


@pytest.mark.parametrize(
    ("doubt", "severity", "words"),
    [
        ({"layers_negative": 3}, "error", "3 I/O rows"),
        ({"names_dropped": 4}, "warning", "4 names of files"),
        ({"returns": {"returned": 9, "emitted": 4, "dropped": 5}}, "warning", "5 of 9 returns"),
        ({"limits": ["CAP_SYSLOG is missing"]}, "info", "CAP_SYSLOG is missing"),
        ({"program_misses": {"sys_exit": 6, "sys_enter": 0}}, "warning", "sys_exit 6 times"),
    ],
)
def test_what_the_tracer_doubts_itself_is_said(
    store: RunStore, doubt: dict[str, Any], severity: str, words: str
) -> None:
    calm = {"layers_negative": 0, "names_dropped": 0, "limits": [], "program_misses": {"sys_exit": 0}}
    calm["returns"] = {"returned": 9, "emitted": 9, "dropped": 0}
    path = store.node_dir("node1") / "trace.json"
    change(path, lambda t: t.update(calm))
    assert finish(store.path).findings == []
    change(path, lambda t: t.update(doubt))
    findings = [finding for finding in finish(store.path).findings if "sha256" not in finding.what]
    only(findings, "node1", words)
    assert findings[0].severity == severity


@pytest.mark.parametrize(
    ("probes", "where"), [(["throttled"], "time of their block layer"), ([], "none of their layers")]
)
def test_requests_that_their_cgroup_holds_back_are_a_warning(store: RunStore, probes: list[str], where: str) -> None:
    def edit(trace: dict[str, Any]) -> None:
        trace["probes"] = probes
        trace["devices"][0]["throttled"] = 3

    change(store.node_dir("node1") / "trace.json", edit)
    finished = finish(store.path)
    assert finished.trusted
    only(finished.findings, "node1/loop1", "3 of", "io.max", where)


def test_requests_that_failed_are_a_warning_and_named(store: RunStore) -> None:
    path = store.node_dir("node1") / "io.parquet"
    rows = pq.read_table(path)
    errors: list[str | None] = [None] * rows.num_rows
    reads = [at for at, mode in enumerate(rows["mode"].to_pylist()) if mode == "R"]
    writes = [at for at, mode in enumerate(rows["mode"].to_pylist()) if mode == "W"]
    errors[reads[0]], errors[reads[5]], errors[writes[3]] = "medium", "medium", "timeout"
    pq.write_table(rows.append_column("error", pa.array(errors, pa.string())), path)
    finished = finish(store.path)
    assert finished.trusted
    only(finished.findings, "node1/loop1", "2 R (medium), 1 W (timeout)", "kernel log")


@pytest.mark.parametrize(("at_end", "found"), [(12, 0), (13, 1), (None, 1)])
def test_a_database_process_that_began_after_its_tracer_is_an_error(
    store: RunStore, at_end: int | None, found: int
) -> None:
    pids = {"traced": {"datanode": 11, "regionserver": 12}, "at_end": {"datanode": 11, "regionserver": at_end}}
    (store.node_dir("node1") / "database_pids.json").write_text(json.dumps(pids))
    findings = errors(store)
    assert [finding.where for finding in findings] == ["node1"] * found
    assert all("regionserver was started again" in finding.what for finding in findings)


@pytest.mark.parametrize(
    ("gone", "state"),
    [(("trace.json", "io.parquet"), "unavailable"), (("trace.json",), "unavailable"), (("io.parquet",), "off")],
)
def test_a_missing_trace_is_an_error_unless_the_manifest_knows_why(
    store: RunStore, gone: tuple[str, ...], state: str
) -> None:
    for name in gone:
        (store.node_dir("node2") / name).unlink()
    only(errors(store), "node2", "should have been traced")
    change(store.path / "manifest.json", lambda m: m["tracing"].update(node2={"state": state, "reason": "no BTF"}))
    finished = finish(store.path)
    assert [(f.severity, f.what) for f in finished.findings] == [("info", f"tracing {state}: no BTF")]
    assert finished.manifest["status"] == "complete" and finished.manifest["reasons"] == []
