"""The report in a real browser: every figure draws, nothing fails, nothing is fetched."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from controller.results.finish import finish as finish_run
from controller.results.scaling import PhaseLoad, PhaseMeasurement, analyse
from controller.results.store import RunStore
from controller.results.timeline import Span, Timeline
from controller.tests.synthetic.run import DEMO_PHASES, write_run
from viz.figures.node_io import requests_per_node
from viz.figures.style import MICROSECONDS, OPERATION_COLOURS, Figure, finish, logarithmic, time_axis
from viz.page import figure_section, page
from viz.report import write_report
from viz.run_data import load_run
from viz.scaling_report import write_scaling_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

#: Runs first: collects what goes wrong. The page itself must not carry it.
WATCH = """<script>
window.problems = [];
window.addEventListener('error', event => problems.push(String(event.message)));
window.addEventListener('unhandledrejection', event => problems.push(String(event.reason)));
window.addEventListener('load', () => setTimeout(() => {
  const fetched = performance.getEntriesByType('resource').map(entry => entry.name);
  const lines = [...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.id + '=' + drawn(plot));
  const over = [...document.querySelectorAll('.js-plotly-plot')].filter(plot => overlapping(plot)).map(plot => plot.id);
  const buttons = [...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title);
  const scrolled = [...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth);
  const cut = scrolled.map(box => box.closest('section').id);
  const images = [...document.querySelectorAll('[role=img]')].filter(box => box.querySelector('.js-plotly-plot'));
  const labels = images.map(box => box.getAttribute('aria-label'));
  document.body.innerHTML = '<pre>' + JSON.stringify({problems, fetched, lines, over, buttons, cut, labels}) + '</pre>';
}, 1500));
function drawn(plot) {
  const visible = path => path.getBBox().width + path.getBBox().height > 2;
  const series = [...plot.querySelectorAll('.scatterlayer .trace')];
  const bars = [...plot.querySelectorAll('.barlayer .point path')];
  return series.filter(s => [...s.querySelectorAll('path.js-line')].some(visible)).length + bars.filter(visible).length;
}
function overlapping(plot) {
  const boxes = boxesOf(plot, '.annotation-text, .legend, .modebar-container .modebar');
  const space = 3; // between two names on one line, which else read as one, and between a title and a panel
  // The axes' classes: ytitle, y2title ..., ytick, y2tick ...
  const titles = boxesOf(plot, '[class^=y][class$=title]');
  const beside = [...panelsOf(plot), ...boxesOf(plot, '[class^=y][class$=tick] text')];
  return boxes.some((a, i) => boxes.slice(i + 1).some(b => touching(a, b, space))) ||
    titles.some((title, i) => [...beside, ...titles.slice(i + 1)].some(b => touching(title, b, space)));
}
function boxesOf(plot, what) {
  return [...plot.querySelectorAll(what)].map(item => item.getBoundingClientRect());
}
function panelsOf(plot) {
  const {left, top} = plot.querySelector('.main-svg').getBoundingClientRect();
  return Object.values(plot._fullLayout._plots).map(({xaxis, yaxis}) => ({
    left: left + xaxis._offset, right: left + xaxis._offset + xaxis._length,
    top: top + yaxis._offset, bottom: top + yaxis._offset + yaxis._length}));
}
function touching(a, b, space) {
  return a.left < b.right + space && b.left < a.right + space && a.top < b.bottom - 1 && b.top < a.bottom - 1;
}
</script>"""


def seen_by_the_browser(document: Path, folder: Path, width_px: int = 1400) -> dict[str, list[str]]:
    watched = folder / "watched.html"
    watched.write_text(document.read_text().replace("<head>", "<head>" + WATCH, 1))
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width_px},2000",
        "--virtual-time-budget=8000",
        "--dump-dom",
        watched.as_uri(),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"<body><pre>(.*?)</pre></body>", answer.stdout, flags=re.DOTALL)
    assert found, answer.stderr[-2000:]
    seen: dict[str, list[str]] = json.loads(html.unescape(found.group(1)))
    return seen


def test_every_figure_draws_without_an_error(complete_run: RunStore, tmp_path: Path) -> None:
    seen = seen_by_the_browser(write_report(complete_run.path), tmp_path)
    assert seen["problems"] == []
    assert seen["fetched"] == []
    assert seen["over"] == []
    # in a common window nothing of an open loop's results has to be scrolled for
    assert seen["cut"] == []
    # to whom cannot see a plot it is an image with a name, not a heap of numbers
    assert len(seen["labels"]) == len(seen["lines"])
    assert seen["labels"][0].startswith("Throughput over time") and "joined/" in seen["labels"][0]
    drawn = {name: int(count) for name, count in (entry.split("=") for entry in seen["lines"])}
    # Lines: 4 operations; their mean, p99 and scheduled p99; reads and writes of 3 nodes; 5 times, 2 statistics,
    # 3 nodes; bars of 2 workloads.
    assert drawn == {
        "plot-throughput": 4,
        "plot-latency": 12,
        "plot-node-io": 6,
        "plot-layers": 30,
        "plot-workloads": 4,
    }


def test_the_page_of_every_node_draws_without_an_error(complete_run: RunStore, tmp_path: Path) -> None:
    seen = seen_by_the_browser(write_report(complete_run.path).with_name("nodes.html"), tmp_path, width_px=1280)
    assert seen["problems"] == [] and seen["fetched"] == [] and seen["over"] == []
    assert len(seen["lines"]) == 3


@pytest.mark.parametrize("count", [2, 12])
def test_long_names_of_nodes_lie_beside_their_panels(count: int, tmp_path: Path) -> None:
    """As clouds give them, and the longest that a host may have without a dot."""
    names = ("ip-10-0-12-7.eu-central-1.compute.internal-{:03}", "n" * 60 + "{:03}")
    nodes = tuple(names[i % 2].format(i) for i in range(count))
    store = write_run(tmp_path, phases=DEMO_PHASES[:1], nodes=nodes, ios_per_second=5).store
    finish_run(store.path)
    report = write_report(store.path)
    for width_px in (1400, 500):
        seen = seen_by_the_browser(report, tmp_path, width_px)
        assert seen["problems"] == seen["over"] == []
    # In full, but for the breaks between lines.
    plot = requests_per_node(load_run(store.path)).plot
    titles = [axis.title.text for axis in plot.select_yaxes()] if plot is not None else []
    assert {title.replace("<br>", "").removesuffix("reads per 1 s") for title in titles[::2]} == set(nodes)


def test_no_button_sends_a_run_to_anybody(complete_run: RunStore, tmp_path: Path) -> None:
    report = write_report(complete_run.path)
    for document in (report, report.with_name("nodes.html")):
        buttons = set(seen_by_the_browser(document, tmp_path)["buttons"])
        local = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"}
        assert "Download plot as a PNG" in buttons and buttons <= local


def test_nothing_overlaps_in_a_narrow_window(complete_run: RunStore, tmp_path: Path) -> None:
    report = write_report(complete_run.path)
    for document in (report, report.with_name("nodes.html")):
        assert seen_by_the_browser(document, tmp_path, width_px=500)["over"] == []


@pytest.mark.parametrize(
    ("threads", "copies"), [((64,), 1), ((1, 8, 64), 1), ((1, 8, 64), 3)], ids=["servers", "threads", "many workloads"]
)
def test_the_report_of_a_series_draws_and_nothing_overlaps(
    threads: tuple[int, ...], copies: int, tmp_path: Path
) -> None:
    ones = [
        PhaseMeasurement(
            servers, f"r{i}", f"{workload}-{count}-run", PhaseLoad("run", workload, 100_000, count),
            1000.0 * servers * count + i, 100.0 / servers / count,
        )
        for name in ("write-only", "read-only", "scan-only", "read-modify-write-only")
        for workload in [name, *(f"{name}-{copy}" for copy in range(1, copies))]
        for count in threads
        for servers in ((1, 3, 5) if len(threads) == 1 else (1,))
        for i in range(2)
    ]  # fmt: skip
    report = write_scaling_report(tmp_path, analyse(ones))
    for width_px in (1400, 500):
        seen = seen_by_the_browser(report, tmp_path, width_px)
        assert seen["problems"] == [] and seen["fetched"] == [] and seen["over"] == []
        assert len(seen["lines"]) == (4 if len(threads) == 1 else 2)


def test_a_run_with_gaps_draws_what_it_has(gappy_run: RunStore, tmp_path: Path) -> None:
    seen = seen_by_the_browser(write_report(gappy_run.path), tmp_path)
    assert seen["problems"] == [] and seen["over"] == []
    drawn = {name: int(count) for name, count in (entry.split("=") for entry in seen["lines"])}
    assert drawn["plot-node-io"] == 4
    assert drawn["plot-layers"] == 18


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(
    "phases",
    [
        {
            "content-load": (0, 6),
            "content-run": (6, 14),
            "messenger-load": (14, 20),
            "messenger-run": (20, 29),
            "hotel-load": (29, 60),
        },
        {
            "content-load": (7.8, 9.3),
            "content-run": (19.0, 20.7),
            "messenger-load": (27, 28.1),
            "messenger-run": (38.5, 41.4),
            "recommendation-load": (47.1, 48.6),
            "recommendation-run": (58.3, 59.8),
        },
    ],
    ids=["one after the other", "with much between them"],
)
def test_names_of_short_phases_do_not_touch(
    phases: dict[str, tuple[float, float]], columns: int, tmp_path: Path
) -> None:
    second = 10**9
    spans = tuple(Span(name, int(start * second), int(end * second)) for name, (start, end) in phases.items())
    plot = make_subplots(rows=1, cols=columns, horizontal_spacing=0.09)
    for column in range(columns):
        plot.add_trace(go.Scatter(x=[0, 60], y=[0, 1], showlegend=False), row=1, col=column + 1)
    timeline = Timeline(0, 60 * second, spans, second)
    time_axis(plot, timeline, 1, columns)
    figure = Figure("phases", "Phases", "", finish(plot, 300, timeline))
    path = tmp_path / "page.html"
    path.write_text(page("Phases", "", [figure_section(figure)]))
    for width_px in (1400, 1080):
        seen = seen_by_the_browser(path, tmp_path, width_px)
        assert seen["problems"] == [] and seen["over"] == []


@pytest.mark.parametrize(
    "names", [[*OPERATION_COLOURS][:6], [*OPERATION_COLOURS], [f"component_{i}" for i in range(18)]]
)
def test_a_long_legend_touches_neither_buttons_nor_names_of_phases(names: list[str], tmp_path: Path) -> None:
    second = 10**9
    plot = make_subplots(rows=1, cols=1)
    for name in names:
        plot.add_trace(go.Scatter(x=[0, 60], y=[1, 2], name=name), row=1, col=1)
    timeline = Timeline(
        0, 60 * second, (Span("a-load", 0, 20 * second), Span("a-run", 20 * second, 60 * second)), second
    )
    time_axis(plot, timeline, 1)
    figure = Figure("legend", "Legend", "", finish(plot, 300, timeline))
    path = tmp_path / "page.html"
    path.write_text(page("Legend", "", [figure_section(figure)]))
    for width_px in (1400, 500):
        assert seen_by_the_browser(path, tmp_path, width_px)["over"] == []


def test_a_title_beside_long_numbers_touches_no_panel(tmp_path: Path) -> None:
    plot = make_subplots(rows=1, cols=2, shared_yaxes="all", horizontal_spacing=0.09)
    for column in (1, 2):
        plot.add_trace(go.Scatter(x=[0, 60], y=[1, 5_000_000], showlegend=False), row=1, col=column)
        plot.update_yaxes(title_text=f"99th percentile ({MICROSECONDS})", row=1, col=column)
    logarithmic(plot, pd.DataFrame({"time": [1.0, 5_000_000.0]}))
    plot.update_yaxes(showticklabels=True)
    figure = Figure("layers", "Layers", "", finish(plot, 300, Timeline(0, 60 * 10**9, (), 10**9)))
    path = tmp_path / "page.html"
    path.write_text(page("Layers", "", [figure_section(figure)]))
    for width_px in (1400, 1080):
        assert seen_by_the_browser(path, tmp_path, width_px)["over"] == []
