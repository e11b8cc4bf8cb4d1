"""How the clients saw the database: throughput and latency of every operation over time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz.figures.style import Figure, finish, line_mode, logarithmic, operation_colour, thin, thinning_note, time_axis
from viz.run_data import RunData, part_middle_s

NO_OPERATIONS = "No client has reported an operation, so there is nothing to draw."
NO_SUCCESS = "No operation was successful, so there is no latency to draw."
TOO_SHORT = "No bucket was measured for a tenth of its length, so there is no throughput to draw."


def throughput(run: RunData) -> Figure:
    """Operations per second of all clients together, one line an operation."""
    name, title = "throughput", "Throughput over time"
    if not run.ops["throughput_ops_per_s"].notna().any():
        return Figure(name, title, NO_OPERATIONS if run.ops.empty else TOO_SHORT, None)
    plot = make_subplots(rows=1, cols=1)
    for op in run.operations:
        plot.add_trace(_line(run, op, "throughput_ops_per_s", op), row=1, col=1)
    plot.update_yaxes(title_text="Throughput (operations/s)", rangemode="tozero", row=1, col=1)
    time_axis(plot, run.timeline, 1)
    caption = (
        f"All clients together, buckets of {run.bucket_s:g} s; shaded: phases. Warm-up is not part of it."
        f"{thinning_note(_points(run))}"
    )
    return Figure(name, title, caption, finish(plot, 380, run.timeline))


def latency(run: RunData) -> Figure:
    """Mean and 99th percentile, one panel each, logarithmic, one line an operation."""
    name, title = "latency", "Latency over time"
    if not run.ops["latency_mean_us"].notna().any():
        return Figure(name, title, NO_OPERATIONS if run.ops.empty else NO_SUCCESS, None)
    plot = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    for op in run.operations:
        plot.add_trace(_line(run, op, "latency_mean_us", op), row=1, col=1)
        p99 = _line(run, op, "latency_p99_us", op)
        plot.add_trace(p99.update(showlegend=False), row=2, col=1)
        if run.ops.loc[run.ops["op"] == op, "intended_p99_us"].notna().any():
            intended = _line(run, op, "intended_p99_us", f"{op} from schedule")
            plot.add_trace(intended.update(line={"dash": "dot"}, legendgroup=op, showlegend=False), row=2, col=1)
    logarithmic(plot, run.ops[["latency_mean_us", "latency_p99_us", "intended_p99_us"]] / 1000)
    plot.update_yaxes(title_text="Mean (ms)", row=1, col=1)
    plot.update_yaxes(title_text="99th percentile (ms)", row=2, col=1)
    time_axis(plot, run.timeline, 2)
    caption = (
        "Latency that the clients measured, successful operations only; logarithmic. Percentiles are read "
        "off the merged histograms of all clients."
    )
    if run.ops["intended_p99_us"].notna().any():
        caption += " Dotted: the same percentile counted from the scheduled start."
    caption += thinning_note(_points(run))
    return Figure(name, title, caption, finish(plot, 560, run.timeline))


def _line(run: RunData, op: str, column: str, label: str) -> go.Scatter:
    factor, unit = (1e-3, "ms") if column.endswith("_us") else (1.0, "ops/s")
    x, y = _series(run, op, column)
    x, y = thin(x, y * factor)
    return go.Scatter(
        x=x,
        y=y,
        name=label,
        legendgroup=label,
        mode=line_mode(y),
        line={"color": operation_colour(op), "width": 1.8},
        marker={"size": 4},
        hovertemplate=f"%{{y:,.3f}} {unit}",
    )


def _series(run: RunData, op: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Values at the middles of the buckets' parts; a gap between phases, so that no line suggests operations there."""
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    mine = run.ops[run.ops["op"] == op].sort_values("bucket_start_us")
    for _, part in mine.groupby("phase", sort=False):
        middle_s = part_middle_s(run, part)
        xs += [middle_s, middle_s[-1:]]
        ys += [part[column].to_numpy(float), np.array([np.nan])]
    return np.concatenate(xs), np.concatenate(ys)


def _points(run: RunData) -> int:
    counts: pd.Series[int] = run.ops.groupby("op").size()
    return int(counts.max())
