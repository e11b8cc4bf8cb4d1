"""What reached the disks: read and write requests of every node over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz.figures.style import (
    MODE_COLOURS,
    TRACED_PART,
    Figure,
    beside_panel,
    finish,
    step_mode,
    thin,
    thinning_note,
    time_axis,
)
from viz.run_data import RunData


def requests_per_node(run: RunData) -> Figure:
    """One row of panels a node, reads left and writes right; each kind has one scale for all nodes, so that an
    imbalance between nodes is seen at once, also where one kind is a hundred times the other."""
    name, title = "node-io", "Read and write I/Os per node over time"
    counted = run.joined.groupby(["node", "bucket_start_us"])[["io_reads", "io_writes"]].sum(min_count=1)
    per_bucket = run.by_cover(counted)
    traced = [node for node in run.nodes if per_bucket.loc[node].notna().to_numpy().any()]
    untraced = [f"{node} ({run.missing_trace(node)})" for node in run.nodes if node not in traced]
    if not traced:
        reasons = "; ".join(untraced) or "the plan traces no node"
        return Figure(name, title, f"No I/O was traced: {reasons}.", None)
    plot = make_subplots(
        rows=len(traced),
        cols=len(MODE_COLOURS),
        shared_xaxes=True,
        horizontal_spacing=0.09,
        vertical_spacing=0.18 / (len(traced) + 1),
    )
    for column, mode in enumerate(MODE_COLOURS, 1):
        # The common range is given: matched axes do not scale themselves to all their panels.
        most = float(np.nanmax([1.0, *per_bucket[f"io_{mode}s"].to_numpy(float)]))
        for row, node in enumerate(traced, 1):
            plot.add_trace(_line(run, per_bucket.loc[node][f"io_{mode}s"], mode, legend=row == 1), row=row, col=column)
            what = f"{beside_panel(node)}<br>{mode}s" if column == 1 else f"{mode}s"
            plot.update_yaxes(title_text=f"{what} per {run.bucket_s:g} s", range=[0, 1.06 * most], row=row, col=column)
    time_axis(plot, run.timeline, len(traced), columns=len(MODE_COLOURS))
    caption = "Requests that the block device completed; reads and writes have their own scale, the same for all nodes."
    caption += TRACED_PART
    if untraced:
        caption += f" Not drawn: {'; '.join(untraced)}."
    caption += thinning_note(len(per_bucket) // max(len(run.nodes), 1))
    return Figure(name, title, caption, finish(plot, 110 + 170 * len(traced), run.timeline))


def _line(run: RunData, counts: pd.Series[Any], mode: str, *, legend: bool) -> go.Scatter:
    middle_s = counts.index.to_numpy(float) / 1e6 + run.bucket_s / 2
    x, y = thin(middle_s, counts.to_numpy(float))
    return go.Scatter(
        x=x,
        y=y,
        name=f"{mode}s",
        legendgroup=mode,
        showlegend=legend,
        mode=step_mode(y),
        marker={"size": 4},
        line={"color": MODE_COLOURS[mode], "width": 1.6, "shape": "hvh"},
        hovertemplate="%{y:,.0f}",
    )
