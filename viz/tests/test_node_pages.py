"""The pages of the nodes: what they draw is recomputed here row by row."""

from __future__ import annotations

import errno
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.errors import DataError, RunError
from controller.results.engine import engine
from controller.results.finish import finish
from controller.results.schema import TIMED
from controller.results.store import RunStore
from controller.results.timeline import Timeline
from controller.results.validate import check_files
from controller.tests.synthetic import T0
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run
from viz.figures.layers import latency_per_layer
from viz.figures.node_io import requests_per_node
from viz.figures.node_panels import panels
from viz.figures.operations import latency, throughput
from viz.figures.style import MOST_POINTS, Figure
from viz.node_data import UNEXPLAINED, component_expression, in_flight_expression, load_node_data
from viz.report import write_report
from viz.run_data import load_run
from viz.tests.test_report_browser import CHROMIUM, seen_by_the_browser

SECOND_NS = 1_000_000_000

REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 5 * SECOND_NS),
        st.one_of(st.none(), st.integers(0, SECOND_NS)),
        st.integers(1, 3 * SECOND_NS),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(requests=REQUESTS)
def test_requests_in_flight_are_the_overlaps_with_the_bucket(requests: list[tuple[int, int | None, int]]) -> None:
    """Each request is (start, time in the file system or None, time below it)."""
    timeline = Timeline(7 * SECOND_NS, 15 * SECOND_NS, (), SECOND_NS)
    rows = pd.DataFrame(
        {
            "node": "n",
            "t_unix_ns": [7 * SECOND_NS + start for start, _, _ in requests],
            "vfs_ns": pd.array([vfs for _, vfs, _ in requests], dtype="Int64"),
            "total_ns": [(vfs or 0) + below for _, vfs, below in requests],
        }
    )
    with engine() as connection:
        found = connection.to_pandas(in_flight_expression(ibis.memtable(rows), timeline))
    drawn = dict(zip(found["bucket_start_us"] // 1_000_000, found["requests"], strict=True))
    for bucket in range(12):
        begin, end = bucket * SECOND_NS, (bucket + 1) * SECOND_NS
        inside = sum(
            max(0, min(start + (vfs or 0) + below, end) - max(start + (vfs or 0), begin))
            for start, vfs, below in requests
        )
        assert drawn.get(bucket, 0) == pytest.approx(inside / SECOND_NS)


def test_requests_in_flight_are_unknown_where_one_shows_no_layer() -> None:
    timeline = Timeline(7 * SECOND_NS, 15 * SECOND_NS, (), SECOND_NS)
    starts = [7 * SECOND_NS + ms * 1_000_000 for ms in (100, 1200, 1300, 2000, 3500)]
    totals = pd.array([SECOND_NS // 2, SECOND_NS // 2, None, None, SECOND_NS // 4], dtype="Int64")
    rows = pd.DataFrame(
        {"node": "n", "t_unix_ns": starts, "vfs_ns": pd.array([None] * 5, dtype="Int64"), "total_ns": totals}
    )
    with engine() as connection:
        found = connection.to_pandas(in_flight_expression(ibis.memtable(rows), timeline))
    assert list(found["bucket_start_us"]) == [0, 1_000_000, 2_000_000, 3_000_000]
    assert list(found["requests"].fillna(-1.0)) == [0.5, -1.0, -1.0, 0.25]


def test_every_panel_has_one_scale_on_all_nodes(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    figures = panels(run, load_node_data(complete_run.path))
    assert [figure.name for figure in figures] == [f"node-{node}" for node in run.nodes]
    ranges = {tuple(tuple(axis.range) for axis in figure.plot.select_yaxes()) for figure in figures if figure.plot}
    assert len(ranges) == 1


def test_a_run_of_one_bucket_is_seen(tmp_path: Path) -> None:
    """A line needs two points; a single one has to be a marker."""
    store = write_run(tmp_path, bucket_ms=60_000).store
    finish(store.path)
    run = load_run(store.path)
    figures = [*panels(run, load_node_data(store.path)), requests_per_node(run)]
    lines = [line for figure in figures if figure.plot for line in figure.plot.data]
    assert len(lines) >= 3 * 6 and all(len(line.x) == 1 or line.name in TIMED for line in lines)
    assert {line.mode for line in lines} == {"lines+markers"}
    assert all(inside_its_panel(figure) for figure in figures)


@pytest.mark.parametrize("bucket_ms", [1000, 4000, 20_000])
def test_no_bucket_is_drawn_beside_the_panels(tmp_path: Path, bucket_ms: int) -> None:
    """The run ends after 29.7 s, before the middle of its last bucket where that has 20 s."""
    store = write_run(tmp_path, nodes=("node1",), bucket_ms=bucket_ms, target=True).store
    finish(store.path)
    run = load_run(store.path)
    drawn = (throughput(run), latency(run), latency_per_layer(run), requests_per_node(run))
    assert all(inside_its_panel(figure) for figure in (*drawn, *panels(run, load_node_data(store.path))))


def test_a_figure_of_a_long_run_says_that_not_every_point_is_drawn(tmp_path: Path) -> None:
    """Also where the others' nodes have few: node1 is idle but for its first seconds."""
    long = Phase("r", "run", "w", 0.0, MOST_POINTS + 100.0, {"READ": 10}, {"READ": 1.0})
    store = write_run(tmp_path, phases=(long,), clients=("c",), nodes=("node1", "node2"), ios_per_second=4).store
    path = store.node_dir("node1") / "io.parquet"
    pq.write_table(pq.read_table(path).slice(0, 50), path)
    finish(store.path)
    run = load_run(store.path)
    figures = [latency_per_layer(run), requests_per_node(run), *panels(run, load_node_data(store.path))]
    assert [f"at most {MOST_POINTS} are drawn" in figure.caption for figure in figures] == [True] * 4


def inside_its_panel(figure: Figure) -> bool:
    assert figure.plot is not None
    first, last = next(figure.plot.select_xaxes()).range
    return all(first <= x <= last for line in figure.plot.data for x in line.x)


def test_a_name_of_a_node_cannot_become_markup(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=('"><img src=x>1',)).store
    finish(store.path)
    write_report(store.path)
    for name in ("report.html", "nodes.html"):
        text = (store.path / name).read_text()
        assert "plotly-graph-div" in text and "<img" not in text, name


def test_a_panel_without_anything_has_no_axis_of_billionths(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=("node1",), ios_per_second=0).store
    finish(store.path)
    (figure,) = panels(load_run(store.path), load_node_data(store.path))
    assert figure.plot is not None
    linear = [axis.range for axis in figure.plot.select_yaxes() if axis.type == "linear"]
    assert len(linear) == 4 and all(top >= 1 for _, top in linear)


@pytest.mark.parametrize(("start_s", "stop_s", "edges"), [(0.5, 20.25, (0.5, 0.25)), (0.95, 20.05, (None, None))])
def test_the_edges_of_a_trace_do_not_look_like_a_drop(
    tmp_path: Path, start_s: float, stop_s: float, edges: tuple[float | None, float | None]
) -> None:
    """The first and the last bucket are divided by what was traced of them."""
    store = write_run(tmp_path, nodes=("node1",), ios_per_second=100).store
    folder = store.node_dir("node1")
    start, stop = T0 + int(start_s * SECOND_NS), T0 + int(stop_s * SECOND_NS)
    times = {"started_unix_ns": start, "started_mono_ns": start - T0, "stopped_unix_ns": stop}
    (folder / "trace.json").write_text(json.dumps(json.loads((folder / "trace.json").read_text()) | times))
    inside = (pc.field("t_unix_ns") >= start) & (pc.field("t_unix_ns") < stop)
    pq.write_table(pq.read_table(folder / "io.parquet").filter(inside), folder / "io.parquet")
    finish(store.path)
    run, data = load_run(store.path), load_node_data(store.path)
    (figure,), total = panels(run, data), requests_per_node(run)
    assert figure.plot is not None and total.plot is not None
    reads, _, written_bytes = (list(line.y) for line in (*total.plot.data, figure.plot.data[3]))
    in_flight = next(list(line.y) for line in figure.plot.data if line.name == "in flight")
    components = next(list(line.y) for line in figure.plot.data if line.name == UNEXPLAINED)
    counted = run.joined.groupby("bucket_start_us")[["io_reads", "read_bytes", "write_bytes"]].sum(min_count=1)
    both_bytes = counted["read_bytes"] + counted["write_bytes"]
    queue = data.in_flight["requests"]
    for drawn, true in (
        (reads, counted["io_reads"].dropna()),
        (written_bytes, counted["write_bytes"].dropna() / (1 << 20)),
        (in_flight, queue),
        (components, both_bytes.dropna() / (1 << 20)),
    ):
        assert drawn[1:20] == pytest.approx(list(true)[1:20])
        for place, cover in ((0, edges[0]), (20, edges[1])):
            expected = float("nan") if cover is None else list(true)[place] / cover
            assert drawn[place] == pytest.approx(expected, nan_ok=True)


def test_bytes_by_component_are_all_bytes(complete_run: RunStore) -> None:
    data = load_node_data(complete_run.path)
    by_node: dict[str, int] = defaultdict(int)
    for node, amount in zip(data.components["node"], data.components["bytes"], strict=True):
        by_node[node] += amount
    joined = load_run(complete_run.path).joined
    for node, amount in by_node.items():
        rows = pd.read_parquet(complete_run.node_dir(node) / "io.parquet")
        assert amount == rows["size_bytes"].sum()
    assert set(by_node) == set(joined["node"])


def test_bytes_are_of_their_component_and_of_the_bucket_of_their_start() -> None:
    timeline = Timeline(7 * SECOND_NS, 15 * SECOND_NS, (), SECOND_NS)
    ios: list[tuple[str, int, str | None, int]] = [
        ("a", 0, "wal", 1),
        ("a", SECOND_NS - 1, "wal", 2),
        ("a", SECOND_NS, "wal", 4),
        ("a", 5, "", 8),
    ]
    ios += [("a", 5, None, 16), ("b", 5, "wal", 32), ("a", -1, "hfile", 64)]
    rows = pd.DataFrame(ios, columns=["node", "t_unix_ns", "component", "size_bytes"])
    rows["t_unix_ns"] += timeline.start_unix_ns
    with engine() as connection:
        found = connection.to_pandas(component_expression(ibis.memtable(rows), timeline))
    assert {(node, bucket // 10**6, component): amount for node, bucket, component, amount in found.to_numpy()} == {
        ("a", -1, "hfile"): 64,
        ("a", 0, UNEXPLAINED): 24,
        ("a", 0, "wal"): 3,
        ("a", 1, "wal"): 4,
        ("b", 0, "wal"): 32,
    }


@pytest.mark.parametrize("name", ["component=wal", "size_bytes=7"])
def test_the_name_of_the_results_folder_is_no_part_of_a_nodes_data(
    complete_run: RunStore, tmp_path: Path, name: str
) -> None:
    named = load_node_data(shutil.copytree(complete_run.path, tmp_path / name / "run"))
    plain = load_node_data(complete_run.path)
    assert named.components.equals(plain.components) and named.in_flight.equals(plain.in_flight)


def test_rows_without_a_column_are_a_data_error(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=("node1",)).store
    path = store.node_dir("node1") / "io.parquet"
    pd.read_parquet(path).drop(columns=["component"]).to_parquet(path)
    with pytest.raises(DataError, match="component"):
        load_node_data(store.path)


@pytest.mark.parametrize("days", [2, 365 * 30])
def test_a_request_that_lasts_longer_than_the_run_is_a_data_error(tmp_path: Path, days: int) -> None:
    store = write_run(tmp_path, nodes=("node1",)).store
    finish(store.path)
    path = store.node_dir("node1") / "io.parquet"
    rows = pd.read_parquet(path)
    for column in ("total_ns", "device_ns"):
        rows.loc[3, column] = days * 86_400 * SECOND_NS
    rows.to_parquet(path)
    with pytest.raises(DataError, match=f"node1: io.parquet .* of {days * 86_400:,} s, and the run took 30 s"):
        load_node_data(store.path)


def test_a_run_without_traces_has_no_pages(untraced_run: RunStore) -> None:
    write_report(untraced_run.path)
    assert not (untraced_run.path / "nodes.html").exists()


def test_pages_of_nodes_whose_traces_are_gone_go_with_the_next_report(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=("node1",)).store
    finish(store.path)
    write_report(store.path)
    for name in ("io.parquet", "trace.json"):
        (store.node_dir("node1") / name).unlink()
    finish(store.path)
    text = write_report(store.path).read_text()
    assert "nodes.html" not in text and not (store.path / "nodes.html").exists()
    assert not [finding for finding in check_files(store) if finding.where.endswith(".html")]


def test_a_report_that_is_interrupted_leaves_the_pages_that_the_manifest_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write_run(tmp_path, nodes=("node1",)).store
    finish(store.path)
    write_report(store.path)
    store.update_manifest(experiment="another")

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("viz.report.page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(store.path)
    assert not [finding for finding in check_files(store) if finding.where.endswith(".html")]


@pytest.mark.parametrize("name", ["nodes.html", "report.html", "manifest.json"])
def test_a_disk_that_fills_up_leaves_the_pages_that_the_manifest_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    store = write_run(tmp_path, nodes=("node1",)).store
    finish(store.path)
    write_report(store.path)
    store.update_manifest(experiment="another")
    opened: Any = Path.open

    def full(path: Path, mode: str = "r", **options: str) -> object:
        if "w" in mode and name in path.name:
            raise OSError(errno.ENOSPC, "no space")
        return opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RunError, match=f"no space left on device while writing .*{name}"):
        write_report(store.path)
    monkeypatch.undo()
    assert not [finding for finding in check_files(store) if finding.where.endswith(".html")]
    assert not list(store.path.glob(".*"))


def test_nodes_without_a_trace_are_left_out(gappy_run: RunStore) -> None:
    names = [figure.name for figure in panels(load_run(gappy_run.path), load_node_data(gappy_run.path))]
    assert "node-node2" not in names and "node-node1" in names


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_every_panel_draws_in_a_browser(complete_run: RunStore, tmp_path: Path) -> None:
    write_report(complete_run.path)
    seen = seen_by_the_browser(complete_run.path / "nodes.html", tmp_path)
    assert seen["problems"] == seen["fetched"] == seen["over"] == []
    drawn = {name: int(count) for name, count in (entry.split("=") for entry in seen["lines"])}
    # reads and writes as requests and as bytes, five times by two statistics, the queue, and components
    assert set(drawn) == {"plot-node-node1", "plot-node-node2", "plot-node-node3"}
    assert all(count >= 4 + 10 + 1 + 1 for count in drawn.values())
