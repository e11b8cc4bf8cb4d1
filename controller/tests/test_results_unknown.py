"""What joined tables leave empty, for nobody measured it, and what is 0."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from controller.results import schema
from controller.results.join import join
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run
from controller.tests.test_results_join import SHORT, joined_run, rows

#: Seconds and phases of a run of SHORT: these are from 0.6 to 2.3 and from 2.9 to 5.5 s, and it ends at 6.5 s.
ALL_PARTS = {f"{second} {schema.BETWEEN_PHASES}" for second in (0, 2, 5, 6)}
ALL_PARTS |= {f"{second} a-load" for second in (0, 1, 2)} | {f"{second} a-run" for second in (2, 3, 4, 5)}


def test_a_node_that_was_not_traced_and_a_layer_that_is_not_there_are_empty_not_zero(tmp_path: Path) -> None:
    joined = rows(joined_run(tmp_path), "joined.csv")
    assert {row["io_reads"] for row in joined if row["node"] == "node3"} == {""}
    assert {row["io_vfs_mean_ns"] for row in joined if row["node"] == "node1"} == {""}
    assert all(row["io_reads"] for row in joined if row["node"] != "node3")


def test_after_the_death_of_its_tracer_a_node_is_empty_not_zero(tmp_path: Path) -> None:
    """As SIGKILL leaves it: rows up to some instant, and a status that says nothing of an end. From 1 to 2 s there was
    no I/O: it lived."""
    written = write_run(tmp_path, phases=SHORT, nodes=("node1",))
    died, second = T0 + 2 * SECOND + SECOND // 2, T0 + SECOND
    path = written.store.node_dir("node1") / "io.parquet"
    at = pc.field("t_unix_ns")
    pq.write_table(pq.read_table(path).filter((at < second) | (at >= second + SECOND) & (at < died)), path)
    status = written.store.node_dir("node1") / "trace.json"
    running = {"state": "running", "stopped_unix_ns": None, "stopped_mono_ns": None}
    status.write_text(json.dumps({**json.loads(status.read_text()), **running}))
    join(written.store.path)
    known = {
        (int(row["bucket_start_us"]) // 10**6, row["phase"])
        for row in rows(written, "joined.csv")
        if row["io_reads"] != ""
    }
    between = schema.BETWEEN_PHASES  # from 2.3 to 2.9 s
    assert known == {(0, between), (0, "a-load"), (1, "a-load"), (2, "a-load"), (2, between)}


def test_half_a_trace_does_not_tell_of_parts_without_rows(tmp_path: Path) -> None:
    """A status whose rows were not collected, and rows until 2.5 s without a status."""
    written = write_run(tmp_path, phases=SHORT, nodes=("node1", "node2"))
    (written.store.node_dir("node1") / "io.parquet").unlink()
    (written.store.node_dir("node2") / "trace.json").unlink()
    path = written.store.node_dir("node2") / "io.parquet"
    table = pq.read_table(path)
    pq.write_table(table.filter(pc.less(table["t_unix_ns"], T0 + 5 * SECOND // 2)), path)
    join(written.store.path)
    known = {
        (row["node"], int(row["bucket_start_us"]) // 10**6, row["phase"])
        for row in rows(written, "joined.csv")
        if row["io_reads"] or row["write_bytes"]
    }
    parts = {(0, "between"), (0, "a-load"), (1, "a-load"), (2, "a-load"), (2, "between")}
    assert known == {("node2", *part) for part in parts}


@pytest.mark.parametrize(
    ("began_ns", "ended_ns", "unknown"),
    [
        (7 * SECOND // 10, 54 * SECOND // 10, {"0 between", "5 between", "6 between"}),
        (6 * SECOND // 10, 5 * SECOND, {"0 between", "5 a-run", "5 between", "6 between"}),
        (6 * SECOND // 10 - 1, 5 * SECOND + 1, {"5 between", "6 between"}),
        (32 * SECOND // 10, 4 * SECOND, ALL_PARTS - {"3 a-run"}),
    ],
)
def test_a_part_of_a_bucket_outside_the_tracers_window_is_empty_not_zero(
    tmp_path: Path, began_ns: int, ended_ns: int, unknown: set[str]
) -> None:
    """The tracer saw nothing; phases are from 0.6 to 2.3 and from 2.9 to 5.5 s. What it only touches is not traced, a
    nanosecond of it is. That the node's unix clock was set between two readings moves none of it."""
    written = write_run(tmp_path, phases=SHORT, nodes=("node1",), ios_per_second=0)
    clock = (f"{T0},0,0,1000", f"{T0 + 13 * SECOND},{10 * SECOND},{3 * SECOND},1000")
    (written.store.node_dir("node1") / "clock.csv").write_text(
        "\n".join(["t_unix_ns,t_mono_ns,offset_ns,error_bound_ns", *clock, ""])
    )
    status = written.store.node_dir("node1") / "trace.json"
    trace = json.loads(status.read_text())
    first = {clock: trace[f"started_{clock}_ns"] for clock in ("unix", "mono")}
    for edge, at_ns in (("started", began_ns), ("stopped", ended_ns)):
        trace.update({f"{edge}_{clock}_ns": zero + at_ns for clock, zero in first.items()})
    status.write_text(json.dumps(trace))
    join(written.store.path)
    found = {f"{int(row['bucket_start_us']) // 10**6} {row['phase']}": row for row in rows(written, "joined.csv")}
    assert {part for part, row in found.items() if row["io_reads"] == row["write_bytes"] == ""} == unknown
    assert {row["io_reads"] for part, row in found.items() if part not in unknown} == {"0"}


def test_inside_a_phase_nothing_done_is_zero_and_outside_it_is_empty(tmp_path: Path) -> None:
    joined = [row for row in rows(joined_run(tmp_path), "joined.csv") if row["node"] == "node1"]
    between = [row for row in joined if row["phase"] == schema.BETWEEN_PHASES]
    assert between and all(row["read_count"] == row["insert_count"] == "" for row in between)
    run = [row for row in joined if row["phase"] == "a-run" and row["read_count"]]
    assert run and all(row["insert_count"] == "" and row["update_count"] != "" for row in run)


def test_a_bucket_has_a_row_for_each_part_on_every_node_whether_it_did_io_or_not(tmp_path: Path) -> None:
    written = write_run(tmp_path, phases=SHORT, nodes=("node1", "node2", "node3"), untraced=("node3",))
    path = written.store.node_dir("node1") / "io.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    join(written.store.path)
    parts: dict[str, set[str]] = defaultdict(set)
    for row in rows(written, "joined.csv"):
        parts[row["node"]].add(f"{int(row['bucket_start_us']) // 10**6} {row['phase']}")
        assert row["io_reads"] == "0" if row["node"] == "node1" else (row["io_reads"] == "") == (row["node"] == "node3")
    assert parts == dict.fromkeys(("node1", "node2", "node3"), ALL_PARTS)


def test_zero_operations_in_a_bucket_of_the_window_are_counted_as_zero(tmp_path: Path) -> None:
    phases = (Phase("r", "run", "w", 0.0, 30.0, {"READ": 3}, {"READ": 1.0}),)
    written = write_run(tmp_path, phases=phases, clients=("c",))
    join(written.store.path)
    ops = rows(written, "ops.csv")
    assert len(ops) == 30
    empty = [row for row in ops if row["count"] == "0"]
    assert len(empty) >= 27
    assert all(row["latency_p99_us"] == "" and float(row["throughput_ops_per_s"]) == 0 for row in empty)


def test_an_operation_of_which_none_ended_is_zero_in_the_whole_window(tmp_path: Path) -> None:
    """The client's summary names it, and no histogram of it was written."""
    written = write_run(tmp_path, phases=SHORT, nodes=("node1",), clients=("c",))
    path = written.store.client_dir("c", "a-run") / "summary.json"
    summary = json.loads(path.read_text())
    summary["operations"]["SCAN"] = {"count": 0}
    path.write_text(json.dumps(summary))
    join(written.store.path)
    ops = [row for row in rows(written, "ops.csv") if row["op"] == "SCAN"]
    # The window is from 2.9 to 5.5 s; the middles of its seconds are at 3.4, 4.4 and 5.2 s.
    assert [int(row["bucket_start_us"]) // 10**6 for row in ops] == [3, 4, 5]
    found = {(row["phase"], row["count"], row["errors"], row["latency_max_us"], row["intended_p50_us"]) for row in ops}
    assert found == {("a-run", "0", "0", "", "")}
    joined = {(int(row["bucket_start_us"]) // 10**6, row["scan_count"]) for row in rows(written, "joined.csv")}
    assert {second for second, count in joined if count} == {3, 4, 5}
