from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.subplots import make_subplots

from controller.results import schema
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.results.timeline import Span, Timeline
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run
from viz.figures import layers, node_io, operations, style, workloads
from viz.figures.style import OPERATION_COLOURS, Figure, thin
from viz.run_data import RunData, load_run, part_middle_s


def every_figure(run: RunData) -> list[Figure]:
    return [
        operations.throughput(run),
        operations.latency(run),
        node_io.requests_per_node(run),
        layers.latency_per_layer(run),
        workloads.mean_latency(run),
    ]


@given(
    values=st.lists(st.one_of(st.floats(-1e9, 1e9), st.just(float("nan"))), min_size=1, max_size=400),
    most=st.integers(4, 60),
)
def test_a_thinned_series_keeps_its_extremes_and_its_order(values: list[float], most: int) -> None:
    y = np.array(values)
    x = np.arange(len(y), dtype=float)
    thin_x, thin_y = thin(x, y, most)
    assert len(thin_x) <= max(most + 2, 4)
    assert (np.diff(thin_x) > 0).all()
    assert np.isnan(thin_y).any() == np.isnan(y).any()
    if not np.isnan(y).all():
        assert np.nanmax(thin_y) == np.nanmax(y) and np.nanmin(thin_y) == np.nanmin(y)


def test_every_axis_has_a_title_with_its_unit(complete_run: RunStore) -> None:
    for figure in every_figure(load_run(complete_run.path)):
        assert figure.plot is not None
        titles = [axis.title.text for axis in figure.plot.select_yaxes()]
        assert all(title and ("(" in title or "per" in title) for title in titles), titles
        x_titles = [axis.title.text for axis in figure.plot.select_xaxes() if axis.title.text]
        assert x_titles, figure.name


def test_an_operation_has_the_same_colour_everywhere(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    for figure in (operations.throughput(run), operations.latency(run)):
        assert figure.plot is not None
        for line in figure.plot.data:
            assert line.line.color == OPERATION_COLOURS[line.name.split()[0]]


def test_operations_are_drawn_inside_their_phase(complete_run: RunStore) -> None:
    """Phases begin and end within a bucket, and its middle may lie outside of them."""
    run = load_run(complete_run.path)
    zero = run.timeline.start_unix_ns
    shaded = [((s.start_unix_ns - zero) / 1e9, (s.end_unix_ns - zero) / 1e9) for s in run.timeline.spans]
    for figure in (operations.throughput(run), operations.latency(run)):
        assert figure.plot is not None
        for line in figure.plot.data:
            seen = line.x[~np.isnan(line.y)]
            assert len(seen) and all(any(start <= x <= end for start, end in shaded) for x in seen), line.name


def test_the_parts_of_a_bucket_that_phases_share_have_their_own_middles() -> None:
    """Worked by hand: buckets of 10 s; one phase from 2 to 13 s, one from 16 to 17 s, one from 17 to 31 s."""
    zero, second = 7 * 10**9, 10**9
    spans = [("a", 2, 13), ("b", 16, 17), ("c", 17, 31)]
    timeline = Timeline(
        zero, zero + 40 * second, tuple(Span(n, zero + s * second, zero + e * second) for n, s, e in spans), 10 * second
    )
    between = schema.BETWEEN_PHASES
    parts = [(0, between, 1.0), (0, "a", 6.0), (1, "a", 11.5), (1, between, 14.5), (1, "b", 16.5), (1, "c", 18.5)]
    parts += [(2, "c", 25.0), (3, "c", 30.5), (3, between, 35.5), (4, between, 45.0), (4, "c", 45.0), (4, "x", 45.0)]
    rows = pd.DataFrame(
        {"bucket_start_us": [b * 10**7 for b, _, _ in parts], "phase": [phase for _, phase, _ in parts]}
    )
    run = cast(RunData, SimpleNamespace(timeline=timeline))
    assert list(part_middle_s(run, rows)) == [middle for _, _, middle in parts]


def test_an_entry_of_the_legend_hides_all_lines_of_its_operation(complete_run: RunStore) -> None:
    plot = operations.latency(load_run(complete_run.path)).plot
    assert plot is not None
    shown = {line.legendgroup for line in plot.data if line.showlegend is not False}
    assert len(shown) == 4 and {line.legendgroup for line in plot.data} == shown


def test_node_panels_share_one_scale_for_each_kind(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    plot = node_io.requests_per_node(run).plot
    assert plot is not None
    for column, mode in enumerate(("reads", "writes"), 1):
        ranges = {tuple(axis.range) for axis in plot.select_yaxes(col=column)}
        most = run.joined.groupby(["node", "bucket_start_us"])[f"io_{mode}"].sum().max()
        assert [top >= most for _, top in ranges] == [True], mode
    highest = max(float(np.nanmax(line.y)) for line in plot.data)
    assert ranges.pop()[1] >= highest


def test_many_nodes_and_phases_do_not_take_minutes() -> None:
    nodes, second = 20, 10**9
    spans = tuple(Span(f"p{i}-run", i * 30 * second, (i * 30 + 20) * second) for i in range(20))
    plot = make_subplots(rows=nodes, cols=2, vertical_spacing=0.18 / (nodes + 1))
    for row in range(1, nodes + 1):
        for column in (1, 2):
            plot.add_trace(go.Scatter(x=[0, 600], y=[0, 1]), row=row, col=column)
    before_s = time.monotonic()
    style.finish(plot, 400, Timeline(0, 600 * second, spans, second))
    assert time.monotonic() - before_s < 20
    shaded = [(shape.xref, shape.yref) for shape in plot.layout.shapes]
    assert len(shaded) == 20 * 40 and len(set(shaded)) == 40


def test_lines_do_not_cross_the_gap_between_phases(complete_run: RunStore) -> None:
    plot = operations.throughput(load_run(complete_run.path)).plot
    assert plot is not None
    insert = next(line for line in plot.data if line.name == "INSERT")
    assert np.isnan(insert.y).sum() == 2  # one after each of the two load phases


def test_the_bars_are_the_weighted_means(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    plot = workloads.mean_latency(run).plot
    assert plot is not None
    writes = next(bar for bar in plot.data if bar.name == "write")
    summary = run.summary[run.summary["phase"] == "messenger-run"].set_index(["op", "metric"])["value"]
    update, delete = (summary[op, "count"] for op in ("UPDATE", "DELETE"))
    total = summary["UPDATE", "mean_us"] * update + summary["DELETE", "mean_us"] * delete
    assert writes.y[1] == pytest.approx(total / (update + delete) / 1000)


def test_means_of_an_open_loop_say_what_they_leave_out(complete_run: RunStore, gappy_run: RunStore) -> None:
    captions = [workloads.mean_latency(load_run(run.path)).caption for run in (complete_run, gappy_run)]
    assert ["schedule" in caption for caption in captions] == [True, False], "the second is a closed loop"


def test_every_operation_that_only_reads_is_drawn_as_a_read(tmp_path: Path) -> None:
    reading = ("READ", "SCAN", "MULTI-GET", "FILTERED-SCAN", "SECONDARY-LOOKUP", "TRAVERSAL")
    writing = ("UPDATE", "READ-MODIFY-WRITE", "BATCH-INSERT")
    every = (*reading, *writing)
    phase = Phase("app-run", "run", "app", 0.5, 2.0, dict.fromkeys(every, 20), dict.fromkeys(every, 2.0))
    store = write_run(tmp_path, phases=(phase,)).store
    finish(store.path)
    figure = workloads.mean_latency(load_run(store.path))
    assert figure.plot is not None
    drawn = {bar.name: {part.split(":")[0] for part in bar.customdata[0][0].split(", ")} for bar in figure.plot.data}
    assert drawn == {"read": set(reading), "write": set(writing)}
    assert all(op in figure.caption for op in reading)


def test_a_figure_without_data_says_why(untraced_run: RunStore, empty_run: RunStore) -> None:
    untraced = {figure.name: figure for figure in every_figure(load_run(untraced_run.path))}
    for name in ("node-io", "layers"):
        assert untraced[name].plot is None
        assert "no right to load BPF programs" in untraced[name].caption
    assert untraced["throughput"].plot is not None
    for figure in every_figure(load_run(empty_run.path)):
        assert figure.plot is None and figure.caption.endswith(".")


@pytest.mark.parametrize(
    ("seconds", "failed", "drawn", "said"),
    [
        (0.05, 0, (False, True), "No bucket was measured for a tenth of its length"),
        (3.0, 50, (True, False), "No operation was successful"),
    ],
    ids=["too short", "all failed"],
)
def test_operations_that_cannot_be_drawn_are_not_said_to_be_missing(
    tmp_path: Path, seconds: float, failed: int, drawn: tuple[bool, bool], said: str
) -> None:
    phase = Phase("a-run", "run", "a", 0.3, seconds, {"READ": 50}, {"READ": 1.0}, {"READ": failed})
    store = write_run(tmp_path, phases=(phase,), nodes=("node1",)).store
    finish(store.path)
    run = load_run(store.path)
    figures = (operations.throughput(run), operations.latency(run))
    assert tuple(figure.plot is not None for figure in figures) == drawn
    assert next(figure.caption for figure in figures if figure.plot is None).startswith(said)


def test_a_node_without_io_is_not_called_untraced(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=("node1",), ios_per_second=0).store
    finish(store.path)
    run = load_run(store.path)
    figure = layers.latency_per_layer(run)
    assert figure.plot is None and "no I/O of it was timed" in figure.caption and "collected" not in figure.caption
    counts = node_io.requests_per_node(run).plot
    assert counts is not None and all(set(line.y) == {0} for line in counts.data)


def test_a_layer_that_lies_above_the_total_is_explained(tmp_path: Path) -> None:
    """Here one call in each second waits for long in the file system; what is written back, the most, has no call."""
    store = write_run(tmp_path, nodes=("node1",)).store
    path = store.node_dir("node1") / "io.parquet"
    rows = pd.read_parquet(path)
    slow = rows.index % 40 == 0
    rows["vfs_ns"] = pd.array([50_000_000 if one else None for one in slow], dtype="Int64")
    rows["total_ns"] = rows[["vfs_ns", "block_ns", "driver_ns", "device_ns"]].sum(axis=1)
    rows.to_parquet(path)
    finish(store.path)
    run = load_run(store.path)
    assert (run.joined["io_vfs_mean_ns"] > run.joined["io_total_mean_ns"]).any()
    assert "may lie above the total" in layers.latency_per_layer(run).caption


def test_what_is_not_visible_is_named(gappy_run: RunStore) -> None:
    run = load_run(gappy_run.path)
    caption = layers.latency_per_layer(run).caption
    assert "on node1 vfs (kprobe on vfs_read is not available on this kernel)" in caption
    assert "node2 (tracing unavailable: no right" in caption
    assert "Not drawn: node2" in node_io.requests_per_node(run).caption
