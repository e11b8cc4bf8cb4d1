"""The report in a real browser: every figure draws, nothing fails, nothing is fetched."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from controller.results.store import RunStore
from viz.report import write_report

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
  document.body.innerHTML = '<pre>' + JSON.stringify({problems, fetched, lines, over}) + '</pre>';
}, 1500));
function drawn(plot) {
  const visible = path => path.getBBox().width + path.getBBox().height > 2;
  const series = [...plot.querySelectorAll('.scatterlayer .trace')];
  const bars = [...plot.querySelectorAll('.barlayer .point path')];
  return series.filter(s => [...s.querySelectorAll('path.js-line')].some(visible)).length + bars.filter(visible).length;
}
function overlapping(plot) {
  const items = plot.querySelectorAll('.annotation, .legend, .modebar-container .modebar');
  const boxes = [...items].map(item => item.getBoundingClientRect());
  return boxes.some((a, i) => boxes.slice(i + 1).some(b =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
}
</script>"""


def seen_by_the_browser(page: Path, folder: Path, width_px: int = 1400) -> dict[str, list[str]]:
    watched = folder / "watched.html"
    watched.write_text(page.read_text().replace("<head>", "<head>" + WATCH, 1))
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


def test_a_run_with_gaps_draws_what_it_has(gappy_run: RunStore, tmp_path: Path) -> None:
    seen = seen_by_the_browser(write_report(gappy_run.path), tmp_path)
    assert seen["problems"] == [] and seen["over"] == []
    drawn = {name: int(count) for name, count in (entry.split("=") for entry in seen["lines"])}
    assert drawn["plot-node-io"] == 4
    assert drawn["plot-layers"] == 18
