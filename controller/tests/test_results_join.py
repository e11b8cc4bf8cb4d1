"""The bucket join against a plain-Python model of the same rules."""

from __future__ import annotations

import csv
import json
import math
import shutil
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.errors import ConfigError, DataError
from controller.results import schema
from controller.results.finish import finish
from controller.results.join import join
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.clients import Phase, write_hdr
from controller.tests.synthetic.run import Truth, write_run

SHORT = (
    Phase("a-load", "load", "a", 0.6, 1.7, {"INSERT": 40}, {"INSERT": 30.0}),
    Phase("a-run", "run", "a", 2.9, 2.6, {"READ": 70, "UPDATE": 9}, {"READ": 9.0, "UPDATE": 40.0}, {"READ": 3}),
)


def rows(truth: Truth, table: str) -> list[dict[str, str]]:
    with truth.store.joined(table).open(newline="") as file:
        return list(csv.DictReader(file))


def phase_at(phases: tuple[Phase, ...], t_unix_ns: int) -> str:
    for phase in phases:
        start = T0 + int(phase.start_s * SECOND)
        if start <= t_unix_ns < start + int(phase.seconds * SECOND):
            return phase.name
    return schema.BETWEEN_PHASES


def operation_bucket(phase: Phase, operation: dict[str, Any], bucket_ns: int) -> int:
    """The bucket that holds the middle of the histogram interval in which the operation ended."""
    begin = T0 + int(phase.start_s * SECOND)
    interval: int = (operation["start"] + operation["latency_ns"] - begin) // SECOND
    # Histogram logs keep their interval's start to the millisecond.
    start = round((begin + interval * SECOND) / 1e9, 3)
    return (round(start * 1000) * 1_000_000 + SECOND // 2 - T0) // bucket_ns * (bucket_ns // 1000)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 1 << 16),
    bucket_ms=st.sampled_from([1000, 1500, 2000]),
    start_s=st.floats(0, 2).map(lambda value: round(value, 3)),
    seconds=st.floats(0.4, 3).map(lambda value: round(value, 3)),
    offset_ns=st.integers(-(10**9), 10**9),
    ios=st.integers(0, 30),
    target=st.booleans(),
)
def test_every_operation_and_every_io_is_counted_where_the_model_counts_it(
    seed: int, bucket_ms: int, start_s: float, seconds: float, offset_ns: int, ios: int, *, target: bool
) -> None:
    phases = (
        Phase("y-load", "load", "x", start_s, seconds, {"INSERT": 20}, {"INSERT": 30.0}),
        Phase(
            *("x-run", "run", "x", start_s + seconds + 0.1, 1.7),
            {"READ": 30, "INSERT": 3},  # one of its own, and one of both phases
            {"READ": 9.0, "INSERT": 30.0},
            {"READ": 2},
        ),
    )
    folder = Path(tempfile.mkdtemp())
    try:
        truth = write_run(
            folder,
            phases=phases,
            bucket_ms=bucket_ms,
            ios_per_second=ios,
            offsets_ns={"client1": offset_ns // 1_000_000 * 1_000_000},
            target=target,
            seed=seed,
        )
        put_at_the_edges(truth, phases, bucket_ms * 1_000_000)
        join(truth.store.path)
        check_operations(truth, phases, bucket_ms * 1_000_000)
        check_io(truth, phases, bucket_ms * 1_000_000)
        check_joined(truth, phases, bucket_ms * 1_000_000)
    finally:
        shutil.rmtree(folder)


def put_at_the_edges(truth: Truth, phases: tuple[Phase, ...], bucket_ns: int) -> None:
    """The first I/Os of a node, as many as it has: where phases and buckets begin and end, and before the run."""
    edges = [T0 - 3 * bucket_ns - 1, T0 - 1, T0 + bucket_ns - 1, T0 + bucket_ns]
    for phase in phases:
        begin = T0 + int(phase.start_s * SECOND)
        edges += [begin, begin + int(phase.seconds * SECOND)]
    mine = [io for io in truth.io if io["node"] == "node2"]
    for io, t_unix_ns in zip(mine, edges, strict=False):
        io["t_unix_ns"] = t_unix_ns
    for io in mine[len(edges) : len(edges) + 3]:
        io["mode"] = "D"
    path = truth.store.node_dir("node2") / "io.parquet"
    pq.write_table(pa.Table.from_pylist(mine, schema=pq.read_schema(path)), path)


def check_operations(truth: Truth, phases: tuple[Phase, ...], bucket_ns: int) -> None:
    by_name = {phase.name: phase for phase in phases}
    counts: Counter[tuple[int, str, str]] = Counter()
    errors: Counter[tuple[int, str, str]] = Counter()
    good: dict[tuple[int, str, str], list[dict[str, Any]]] = defaultdict(list)
    for operation in truth.operations:
        phase = by_name[operation["phase"]]
        key = (operation_bucket(phase, operation, bucket_ns), phase.name, operation["op"])
        counts[key] += 1
        errors[key] += operation["status"] != "OK"
        if operation["status"] == "OK":
            good[key].append(operation)
    found = {(int(r["bucket_start_us"]), r["phase"], r["op"]): r for r in rows(truth, "ops.csv")}
    assert len(found) == len(rows(truth, "ops.csv")), "one row for each"
    assert {key: int(row["count"]) for key, row in found.items() if row["count"] != "0"} == counts
    assert {key: int(row["errors"]) for key, row in found.items() if row["errors"] != "0"} == +errors
    for key, row in found.items():
        check_latencies(row, good[key])
    measured = [row["phase"] for row in rows(truth, "summary.csv") if not row["op"].startswith("io:")]
    assert list(dict.fromkeys(measured)) == [phase.name for phase in phases], "in the order of the run"


def check_latencies(row: dict[str, str], good: list[dict[str, Any]]) -> None:
    """Those of the successful operations, to the three digits that histograms keep; without any there are none."""
    delays = [operation["delay_ns"] for operation in good]
    latency = [operation["latency_ns"] for operation in good]
    from_schedule = (
        [ns + delay for ns, delay in zip(latency, delays, strict=True)] if max(delays, default=-1) >= 0 else []
    )
    expected: dict[str, float] = {}
    for prefix, values, quantiles in (
        ("latency", sorted(latency), {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1}),
        ("intended", sorted(from_schedule), {"p50": 0.5, "p99": 0.99}),
    ):
        ranks = {name: math.ceil(round(share * len(values), 6)) for name, share in quantiles.items()}
        expected |= {f"{prefix}_{name}_us": values[rank - 1] / 1000 for name, rank in ranks.items() if values}
    if latency:
        expected["latency_mean_us"] = float(np.mean(latency)) / 1000
    columns = [name for name in row if name.startswith(("latency_", "intended_"))]
    assert {name: float(row[name]) for name in columns if row[name]} == pytest.approx(expected, rel=1e-3)


def check_io(truth: Truth, phases: tuple[Phase, ...], bucket_ns: int) -> None:
    groups: dict[tuple[int, str, str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for io in truth.io:
        bucket = (io["t_unix_ns"] - T0) // bucket_ns * (bucket_ns // 1000)
        groups[bucket, phase_at(phases, io["t_unix_ns"]), io["node"], io["device"], io["mode"]].append(io)
    found = rows(truth, "io.csv")
    keys = ("phase", "node", "device", "mode")
    assert len(found) == len(groups)
    for row in found:
        group = groups[int(row["bucket_start_us"]), *(row[key] for key in keys)]  # type: ignore[index]
        assert int(row["ios"]) == len(group)
        assert int(row["bytes"]) == sum(io["size_bytes"] for io in group)
        check_layers(row, group)


def check_layers(row: dict[str, str], group: list[dict[str, Any]], prefix: str = "") -> None:
    for layer in schema.TIMED:
        values = [io[f"{layer}_ns"] for io in group if io[f"{layer}_ns"] is not None]
        mean, p99 = (row[f"{prefix}{layer}_{statistic}_ns"] for statistic in ("mean", "p99"))
        if not values:
            assert mean == p99 == ""
        else:
            assert float(mean) == pytest.approx(np.mean(values), abs=0.06)
            assert float(p99) == pytest.approx(np.quantile(values, 0.99), abs=0.06)


def check_joined(truth: Truth, phases: tuple[Phase, ...], bucket_ns: int) -> None:
    """Beside the operations as they are in ops.csv: what each node did in the same part of the bucket."""
    groups: dict[tuple[int, str, str], list[dict[str, Any]]] = defaultdict(list)
    for io in truth.io:
        bucket = (io["t_unix_ns"] - T0) // bucket_ns * (bucket_ns // 1000)
        groups[bucket, phase_at(phases, io["t_unix_ns"]), io["node"]].append(io)
    operations = {(row["bucket_start_us"], row["phase"], row["op"]): row for row in rows(truth, "ops.csv")}
    found = {(int(r["bucket_start_us"]), r["phase"], r["node"]): r for r in rows(truth, "joined.csv")}
    assert len(found) == len(rows(truth, "joined.csv"))
    nodes = ("node1", "node2", "node3")
    assert found.keys() >= {(int(bucket), phase, node) for bucket, phase, _ in operations for node in nodes}
    assert found.keys() >= groups.keys()
    for key, row in found.items():
        for op in ("INSERT", "READ"):
            wanted = operations.get((row["bucket_start_us"], row["phase"], op), defaultdict(str))
            for name in ("count", "errors", "throughput_ops_per_s", "latency_mean_us", "latency_p99_us"):
                assert row[f"{op.lower()}_{name.removeprefix('latency_')}"] == wanted[name]
        group = groups[key]
        for column, mode in (("io_reads", "R"), ("io_writes", "W"), ("io_discards", "D"), ("io_flushes", "F")):
            assert int(row[column] or 0) == sum(io["mode"] == mode for io in group)
        for column, mode in (("read_bytes", "R"), ("write_bytes", "W")):
            assert int(row[column] or 0) == sum(io["size_bytes"] for io in group if io["mode"] == mode)
        check_layers(row, group, "io_")


def joined_run(folder: Path) -> Truth:
    written = write_run(folder, phases=SHORT, untraced=("node3",), without_vfs=("node1",), target=True)
    join(written.store.path)
    return written


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return joined_run(tmp_path)


def test_the_tables_have_the_columns_of_the_schema(truth: Truth) -> None:
    assert list(rows(truth, "ops.csv")[0]) == schema.OPS.names
    assert list(rows(truth, "io.csv")[0]) == schema.IO.names
    assert list(rows(truth, "joined.csv")[0]) == schema.joined_columns({"INSERT", "READ", "UPDATE"})
    assert list(rows(truth, "summary.csv")[0]) == schema.SUMMARY.names
    log = pq.read_schema(truth.store.client_dir("client1", "a-run") / "ops.parquet")
    assert log.names == schema.OPERATION_LOG.names


def steady(truth: Truth, client: str, start_s: float, end_s: float) -> None:
    """As if the client had measured in that time (since the run's start), and done 100 operations in each second."""
    begin, end = (T0 + int(at_s * SECOND) for at_s in (start_s, end_s))
    done = [{"start": at, "latency_ns": 1_000_000} for at in range(begin, end, SECOND // 100)]
    folder = truth.store.client_dir(client, "r")
    write_hdr(folder / "READ.hdr", done, begin)
    summary = json.loads((folder / "summary.json").read_text())
    times = {"start_unix_ns": begin, "end_unix_ns": end}
    (folder / "summary.json").write_text(json.dumps({**summary, **times}))


@pytest.mark.parametrize(
    ("first", "second", "throughputs"),
    [
        ((0, 2.6), (0, 2.6), [200, 200, 200]),
        ((0, 5), (0, 2.6), [200, 200, 160, 100, 100]),
        ((0, 5), (1.3, 2.1), [100, 180, 100, 100, 100]),  # its only interval is counted where its middle lies
        ((0, 2.6), (0, 2.3), [200, 200, 150]),
    ],
)
def test_a_bucket_that_a_client_left_early_is_divided_by_what_the_others_measured(
    tmp_path: Path, first: tuple[float, float], second: tuple[float, float], throughputs: list[float]
) -> None:
    """By hand: by the whole bucket when one client measured through it, else by the longer of the two."""
    phases = (Phase("r", "run", "w", 0.0, 5.0, {"READ": 10}, {"READ": 1.0}),)
    written = write_run(tmp_path, phases=phases, nodes=("node1",), ios_per_second=0)
    steady(written, "client1", *first)
    steady(written, "client2", *second)
    join(written.store.path)
    found = [float(row["throughput_ops_per_s"]) for row in rows(written, "ops.csv")]
    assert found == pytest.approx(throughputs, abs=0.5), "logs give times to the millisecond"


@pytest.mark.parametrize("late_s", [0.4, 0.7, 1.6])
def test_clients_that_begin_one_after_the_other_look_neither_faster_nor_idle(tmp_path: Path, late_s: float) -> None:
    """As after a warm-up, which each client ends for itself. Here each does 100 operations in a second."""
    phases = (Phase("r", "run", "w", 0.0, 10.0, {"READ": 1000}, {"READ": 1.0}),)
    written = write_run(tmp_path, phases=phases)
    steady(written, "client1", 0, 10)
    steady(written, "client2", late_s, late_s + 10)
    join(written.store.path)
    ops = rows(written, "ops.csv")
    assert sum(int(row["count"]) for row in ops) == 2000
    assert {float(row["throughput_ops_per_s"]) for row in ops} <= {100.0, 200.0}
    assert [float(row["throughput_ops_per_s"]) for row in ops][2:9] == [200.0] * 7
    assert overall(written, "r", "runtime_s") == 10 + late_s
    assert overall(written, "r", "throughput_ops_per_s") == pytest.approx(2000 / (10 + late_s), abs=1e-3)


def overall(truth: Truth, phase: str, metric: str) -> float:
    """Of all operations of a phase, in summary.csv."""
    (value,) = (
        row["value"]
        for row in rows(truth, "summary.csv")
        if (row["phase"], row["op"], row["metric"]) == (phase, "all", metric)
    )
    return float(value)


@pytest.mark.parametrize(("begin_ns", "drift_ppm"), [(500_020_000, 0), (500_600_000, 20), (499_400_000, -20)])
def test_a_second_whose_middle_is_a_buckets_edge_looks_neither_fast_nor_idle(
    tmp_path: Path, begin_ns: int, drift_ppm: int
) -> None:
    """Logs give times to the millisecond, and clocks drift: intervals move over the edge, or one of them does. Here
    the client does 100 operations in each of 60 seconds."""
    phases = (Phase("r", "run", "w", 0.0, 62.0, {"READ": 6000}, {"READ": 1.0}),)
    store = write_run(tmp_path, phases=phases, clients=("c",), nodes=(), ios_per_second=0).store
    offsets = [(second, second * 1000 * drift_ppm) for second in (0, 100)]
    clock = [f"{T0 + s * SECOND + off},{s * SECOND + off},{off},100000" for s, off in offsets]
    (store.node_dir("c") / "clock.csv").write_text(
        "\n".join(["t_unix_ns,t_mono_ns,offset_ns,error_bound_ns", *clock, ""])
    )
    begin = T0 + begin_ns
    folder = store.client_dir("c", "r")
    steady = [{"start": begin + i * SECOND // 100, "latency_ns": 1_000_000} for i in range(6000)]
    write_hdr(folder / "READ.hdr", steady, begin)
    (folder / "ops.bin").unlink()  # it would say what its clocks were
    summary = json.loads((folder / "summary.json").read_text())
    times = {"start_unix_ns": begin, "end_unix_ns": begin + 60 * SECOND}
    (folder / "summary.json").write_text(json.dumps({**summary, **times}))
    join(store.path)
    with store.joined("ops.csv").open(newline="") as file:
        ops = list(csv.DictReader(file))
    assert sum(int(row["count"]) for row in ops) == 6000
    busy = [row["throughput_ops_per_s"] or "nan" for row in ops if row["count"] != "0"]
    assert list(map(float, busy)) == pytest.approx([100.0] * len(busy), abs=0.1)
    assert {row["throughput_ops_per_s"] for row in ops if row["count"] == "0"} <= {""}


def test_the_summary_counts_over_the_measured_window(truth: Truth) -> None:
    values = {(row["phase"], row["op"], row["metric"]): row for row in rows(truth, "summary.csv")}
    assert float(values["a-run", "READ", "count"]["value"]) == 140
    assert float(values["a-run", "READ", "errors"]["value"]) == 6
    assert float(values["a-run", "all", "errors"]["value"]) == 6
    assert float(values["a-run", "all", "runtime_s"]["value"]) == 2.6
    assert float(values["a-run", "all", "throughput_ops_per_s"]["value"]) == pytest.approx(158 / 2.6, abs=1e-3)
    good = [o for o in truth.operations if (o["phase"], o["op"], o["status"]) == ("a-run", "READ", "OK")]
    mean_us = np.mean([o["latency_ns"] for o in good]) / 1000
    assert float(values["a-run", "READ", "mean_us"]["value"]) == pytest.approx(mean_us, rel=1e-3)
    ordered = sorted(o["latency_ns"] for o in good)
    p99_us = ordered[math.ceil(0.99 * len(ordered)) - 1] / 1000
    assert float(values["a-run", "READ", "p99_us"]["value"]) == pytest.approx(p99_us, rel=1e-3)
    delayed = sorted(o["latency_ns"] + o["delay_ns"] for o in good)
    assert float(values["a-run", "READ", "intended_p50_us"]["value"]) == pytest.approx(
        delayed[math.ceil(0.5 * len(delayed)) - 1] / 1000, rel=1e-3
    )
    reads = [io for io in truth.io if io["node"] == "node2" and io["mode"] == "R"]
    in_run = sum(phase_at(SHORT, io["t_unix_ns"]) == "a-run" for io in reads)
    assert float(values["a-run", "io:node2:R", "ios"]["value"]) == in_run
    bytes_in_run = sum(io["size_bytes"] for io in reads if phase_at(SHORT, io["t_unix_ns"]) == "a-run")
    assert float(values["a-run", "io:node2:R", "bytes"]["value"]) == bytes_in_run
    in_run_ns = [io["total_ns"] for io in reads if phase_at(SHORT, io["t_unix_ns"]) == "a-run"]
    for metric, ns in (("total_mean_ns", np.mean(in_run_ns)), ("total_p99_ns", np.quantile(in_run_ns, 0.99))):
        assert float(values["a-run", "io:node2:R", metric]["value"]) == pytest.approx(ns, abs=0.06)
    assert all(row["n"] == "1" and row["ci_low"] == row["ci_high"] == "" for row in values.values())
    units = {"_us": "us", "_ns": "ns", "_per_s": "operations/s", "runtime_s": "s", "bytes": "bytes", "ios": "requests"}
    units |= {"count": "operations", "errors": "operations"}
    for (_, _, metric), row in values.items():
        assert [row["unit"]] == [unit for ending, unit in units.items() if metric.endswith(ending)], metric


@pytest.mark.parametrize("name", ["mode=fast", "node=5", "copy[1]", "copy*"])
def test_the_name_of_the_results_folder_is_no_part_of_the_data(tmp_path: Path, name: str) -> None:
    """Nor is it a pattern: the other folder, which it would fit, has a trace of ten rows."""
    plain, other = (write_run(tmp_path / folder, phases=SHORT, nodes=("node1",)).store for folder in ("plain", "copy1"))
    path = other.node_dir("node1") / "io.parquet"
    pq.write_table(pq.read_table(path).slice(0, 10), path)
    named = shutil.copytree(plain.path, tmp_path / name / "demo" / plain.run_id)
    outcomes = [finish(folder) for folder in (plain.path, named)]
    assert [outcome.manifest["status"] for outcome in outcomes] == ["complete", "complete"]
    for table in schema.TABLES[:4]:
        assert (named / table.path).read_bytes() == (plain.path / table.path).read_bytes(), table.path


def test_a_sum_that_no_double_holds_to_the_last_digit_is_no_traceback(tmp_path: Path) -> None:
    store = write_run(tmp_path, phases=SHORT, nodes=("node1",)).store
    path = store.node_dir("node1") / "io.parquet"
    table = pq.read_table(path)
    place, sizes = table.schema.get_field_index("size_bytes"), [(1 << 53) + 1] * table.num_rows
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(sizes, pa.int64())), path)
    assert finish(store.path).trusted


def test_a_run_without_any_trace_still_joins(tmp_path: Path) -> None:
    nodes = ("node1", "node2")
    written = write_run(tmp_path, phases=SHORT, nodes=nodes, untraced=nodes)
    assert finish(written.store.path).trusted
    assert rows(written, "io.csv") == []
    assert {row["node"] for row in rows(written, "joined.csv")} == set(nodes)


def test_operations_of_a_killed_client_keep_their_window(tmp_path: Path) -> None:
    written = write_run(tmp_path, phases=SHORT)
    for client in ("client1", "client2"):
        (written.store.client_dir(client, "a-run") / "summary.json").unlink()
    join(written.store.path)
    counted = sum(int(row["count"]) for row in rows(written, "ops.csv") if row["phase"] == "a-run")
    assert counted == 158
    begin = T0 + int(SHORT[1].start_s * SECOND)
    ends = [(o["start"] + o["latency_ns"] - begin) // SECOND for o in written.operations if o["phase"] == "a-run"]
    assert overall(written, "a-run", "runtime_s") == max(ends) + 1 - min(ends), "from the first interval to the last"


def test_a_second_join_writes_the_same(truth: Truth) -> None:
    before = {path.name: path.read_bytes() for path in (truth.store.path / "joined").iterdir()}
    join(truth.store.path)
    assert {path.name: path.read_bytes() for path in (truth.store.path / "joined").iterdir()} == before


def test_histograms_are_merged_one_operation_after_the_other(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a long run at once are more than fits into memory."""
    made = ibis.memtable
    together: list[int] = []

    def watched(table: pa.Table) -> Any:
        if "value_high_ns" in table.column_names:
            together.append(len(table.group_by(["phase", "op"]).aggregate([])))
        return made(table)

    monkeypatch.setattr(ibis, "memtable", watched)
    join(truth.store.path)
    assert together == [1, 1, 1]


@pytest.mark.parametrize(("bucket_ms", "error"), [(0, ConfigError), (999, ConfigError)])
def test_a_bucket_that_cannot_be_is_refused(truth: Truth, bucket_ms: int, error: type[Exception]) -> None:
    plan = truth.store.path / "plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "bucket_ms": bucket_ms}))
    with pytest.raises(error, match="bucket_ms"):
        join(truth.store.path)


def test_what_is_no_run_folder_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no run folder"):
        join(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"plan\.json is missing"):
        join(tmp_path)
