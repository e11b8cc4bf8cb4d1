"""Where an I/O spends its time: latency of every layer on every node over time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from controller.results.schema import LAYERS, TIMED
from viz.figures.style import (
    LAYER_COLOURS,
    LAYER_DASHES,
    MICROSECONDS,
    Figure,
    beside_panel,
    finish,
    line_mode,
    logarithmic,
    thin,
    thinning_note,
    time_axis,
)
from viz.run_data import RunData, part_middle_s

_STATISTICS = {"mean": "mean", "p99": "99th percentile"}


def latency_per_layer(run: RunData) -> Figure:
    """One row of panels a node: mean left, 99th percentile right; one line a layer, and the total."""
    name, title = "layers", "I/O latency per layer and node over time"
    rows = run.joined[run.joined["io_total_mean_ns"].notna()].sort_values("bucket_start_us")
    nodes = sorted(rows["node"].unique())
    if not nodes:
        reasons = "; ".join(f"{node} ({run.missing_trace(node)})" for node in run.nodes)
        return Figure(name, title, f"No I/O was traced: {reasons or 'the plan traces no node'}.", None)
    plot = make_subplots(
        rows=len(nodes),
        cols=2,
        shared_xaxes=True,
        shared_yaxes="all",
        horizontal_spacing=0.1,
        vertical_spacing=0.18 / (len(nodes) + 1),
    )
    drawn: set[str] = set()
    for row, node in enumerate(nodes, 1):
        mine = rows[rows["node"] == node]
        for column, statistic in enumerate(_STATISTICS, 1):
            for layer in TIMED:
                values = mine[f"io_{layer}_{statistic}_ns"]
                if values.notna().any():
                    plot.add_trace(layer_line(run, mine, layer, statistic, layer not in drawn), row=row, col=column)
                    drawn.add(layer)
        plot.update_yaxes(title_text=f"{beside_panel(node)}<br>mean ({MICROSECONDS})", row=row, col=1)
        plot.update_yaxes(title_text=f"99th percentile ({MICROSECONDS})", row=row, col=2)
    logarithmic(plot, rows[[f"io_{layer}_{what}_ns" for layer in TIMED for what in _STATISTICS]] / 1000)
    plot.update_yaxes(showticklabels=True)
    time_axis(plot, run.timeline, len(nodes), columns=2)
    caption = (
        f"All I/Os of a node that started in a bucket of {run.bucket_s:g} s; logarithmic, one scale for all."
        " Each layer's are over the I/Os that show it, so that one which few have (VFS) may lie above the total."
        f"{_absent(run, rows, nodes)}{thinning_note(int(rows['node'].value_counts().max()))}"
    )
    return Figure(name, title, caption, finish(plot, 110 + 210 * len(nodes), run.timeline))


def layer_line(run: RunData, rows: pd.DataFrame, layer: str, statistic: str, legend: bool) -> go.Scatter:
    """One layer's `mean` or `p99` in the rows of one node, with gaps where no I/O was."""
    middle_s = part_middle_s(run, rows)
    order = np.argsort(middle_s, kind="stable")
    values = rows[f"io_{layer}_{statistic}_ns"].to_numpy(float)[order] / 1000
    x, y = thin(*_with_gaps(middle_s[order], values, 1.5 * run.bucket_s))
    return go.Scatter(
        x=x,
        y=y,
        name=layer,
        legendgroup=layer,
        showlegend=legend,
        mode=line_mode(y),
        marker={"size": 3.5},
        line={"color": LAYER_COLOURS[layer], "dash": LAYER_DASHES[layer], "width": 1.6},
        hovertemplate=f"%{{y:,.3f}} {MICROSECONDS}",
    )


def _with_gaps(x: np.ndarray, y: np.ndarray, widest: float) -> tuple[np.ndarray, np.ndarray]:
    """An undefined point in every gap wider than `widest`: no line where no I/O was."""
    there = ~np.isnan(y)
    x, y = x[there], y[there]
    gaps = np.flatnonzero(np.diff(x) > widest) + 1
    return np.insert(x, gaps, (x[gaps - 1] + x[gaps]) / 2), np.insert(y, gaps, np.nan)


def _absent(run: RunData, rows: pd.DataFrame, nodes: list[str]) -> str:
    """Which layers are not there, and why."""
    where: dict[str, list[str]] = {}
    for node in nodes:
        known = run.manifest.get("tracing", {}).get(node, {}).get("layers_missing", {})
        mine = rows[rows["node"] == node]
        for layer in LAYERS:
            if not mine[f"io_{layer}_mean_ns"].notna().any():
                where.setdefault(f"{layer} ({known.get(layer, 'no I/O passed it')})", []).append(node)
    texts = [f"on {', '.join(found)} {what}" for what, found in where.items()]
    texts += [f"{node} ({run.missing_trace(node)})" for node in run.nodes if node not in nodes]
    return f" Not visible: {'; '.join(texts)}." if texts else ""
