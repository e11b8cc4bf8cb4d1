"""What reached the disks: read and write requests of every node over time."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz.figures.style import MODE_COLOURS, Figure, finish, thin, thinning_note, time_axis
from viz.run_data import RunData


def requests_per_node(run: RunData) -> Figure:
    """One panel a node, all with the same scales, so that an imbalance between nodes is seen at once."""
    name, title = "node-io", "Read and write I/Os per node over time"
    per_bucket = run.joined.groupby(["node", "bucket_start_us"])[["io_reads", "io_writes"]].sum(min_count=1)
    traced = [node for node in run.nodes if per_bucket.loc[node].notna().to_numpy().any()]
    untraced = [f"{node} ({run.missing_trace(node)})" for node in run.nodes if node not in traced]
    if not traced:
        reasons = "; ".join(untraced) or "the plan traces no node"
        return Figure(name, title, f"No I/O was traced: {reasons}.", None)
    plot = make_subplots(
        rows=len(traced),
        cols=1,
        shared_xaxes=True,
        shared_yaxes="all",
        vertical_spacing=0.18 / (len(traced) + 1),
    )
    for row, node in enumerate(traced, 1):
        counts = per_bucket.loc[node]
        middle_s = counts.index.to_numpy(float) / 1e6 + run.bucket_s / 2
        for mode, colour in MODE_COLOURS.items():
            x, y = thin(middle_s, counts[f"io_{mode}s"].to_numpy(float))
            line = go.Scatter(
                x=x,
                y=y,
                name=f"{mode}s",
                legendgroup=mode,
                showlegend=row == 1,
                mode="lines",
                line={"color": colour, "width": 1.6, "shape": "hvh"},
                hovertemplate="%{y:,.0f}",
            )
            plot.add_trace(line, row=row, col=1)
        plot.update_yaxes(title_text=f"{node}<br>I/Os per {run.bucket_s:g} s", rangemode="tozero", row=row, col=1)
    # Matched axes do not scale themselves to all their panels, so the common range is given.
    plot.update_yaxes(range=[0, 1.06 * float(np.nanmax([1.0, *per_bucket.to_numpy(float).ravel()]))])
    time_axis(plot, run.timeline, len(traced))
    caption = "Requests that the block device completed, all nodes on one scale."
    if untraced:
        caption += f" Not drawn: {'; '.join(untraced)}."
    caption += thinning_note(len(per_bucket) // max(len(run.nodes), 1))
    return Figure(name, title, caption, finish(plot, 110 + 170 * len(traced), run.timeline))
