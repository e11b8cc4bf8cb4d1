"""One node at a glance: requests, bytes, layers, queue and components over time, on the scales of all nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from controller.results.schema import TIMED
from viz.figures.layers import layer_line
from viz.figures.style import (
    COMPONENT_COLOURS,
    MICROSECONDS,
    MODE_COLOURS,
    TRACED_PART,
    Figure,
    finish,
    logarithmic,
    step_mode,
    thin,
    thinning_note,
    time_axis,
)
from viz.node_data import NodeData
from viz.run_data import RunData

_MIB = 1 << 20
_ROWS, _COLUMNS = 3, 2


def panels(run: RunData, data: NodeData) -> list[Figure]:
    """A figure of six panels for every traced node; every panel has the same scale on all nodes."""
    joined = run.joined[run.joined["io_reads"].notna()]
    nodes = sorted(joined["node"].unique())
    counted = joined.groupby(["node", "bucket_start_us"])[["io_reads", "io_writes", "read_bytes", "write_bytes"]].sum()
    every = run.by_cover(counted)
    # Where there are none there is no row, and where the tracer hardly ran there is no value: not 0.
    found = data.in_flight.set_index(["node", "bucket_start_us"])["requests"]
    in_flight = run.by_cover(found.reindex(counted.index, fill_value=0.0).to_frame())
    largest = _largest_components(data.components)
    amounts = largest.pivot_table(index=["node", "bucket_start_us"], columns="component", values="bytes", aggfunc="sum")
    components = run.by_cover(amounts.reindex(counted.index).fillna(0.0))
    return [_node(run, node, joined, every, in_flight, components) for node in nodes]


def _node(
    run: RunData,
    node: str,
    joined: pd.DataFrame,
    every: pd.DataFrame,
    in_flight: pd.DataFrame,
    components: pd.DataFrame,
) -> Figure:
    plot = make_subplots(rows=_ROWS, cols=_COLUMNS, shared_xaxes=True, horizontal_spacing=0.1, vertical_spacing=0.06)
    mine = every.loc[node]
    for mode, colour in MODE_COLOURS.items():
        _add(run, plot, (1, 1), mine[f"io_{mode}s"], f"{mode}s", colour)
        _add(run, plot, (1, 2), mine[f"{mode}_bytes"] / _MIB, f"{mode}s", colour, legend=False)
    rows = joined[(joined["node"] == node) & joined["io_total_mean_ns"].notna()].sort_values("bucket_start_us")
    for column, statistic in enumerate(("mean", "p99"), 1):
        for layer in TIMED:
            if rows[f"io_{layer}_{statistic}_ns"].notna().any():
                plot.add_trace(layer_line(run, rows, layer, statistic, column == 1), row=2, col=column)
    _add(run, plot, (3, 1), in_flight.loc[node]["requests"], "in flight", "#333333", legend=False)
    for component, colour in zip(components.columns, COMPONENT_COLOURS, strict=False):
        if (amount := components.loc[node][component]).any():
            _add(run, plot, (3, 2), amount / _MIB, str(component), colour)
    _scales(run, plot, joined, every, in_flight, components)
    time_axis(plot, run.timeline, _ROWS, columns=_COLUMNS)
    caption = (
        f"Buckets of {run.bucket_s:g} s. Every panel has the same scale on all nodes; latencies are logarithmic. "
        "In flight: mean number of requests between file system and completion, empty where one shows no layer. "
        "Components: bytes, by the rules of tracer/components.rules."
        + TRACED_PART
        + thinning_note(max(len(mine), len(rows)))
    )
    return Figure(f"node-{node}", f"Node {node}", caption, finish(plot, 780, run.timeline))


def _scales(
    run: RunData,
    plot: go.Figure,
    joined: pd.DataFrame,
    every: pd.DataFrame,
    in_flight: pd.DataFrame,
    components: pd.DataFrame,
) -> None:
    bucket = f"per {run.bucket_s:g} s"
    logarithmic(plot, joined[[f"io_{layer}_{what}_ns" for layer in TIMED for what in ("mean", "p99")]] / 1000)
    linear = {
        (1, 1): (f"requests {bucket}", every[["io_reads", "io_writes"]]),
        (1, 2): (f"MiB {bucket}", every[["read_bytes", "write_bytes"]] / _MIB),
        (3, 1): ("requests in flight (mean)", in_flight),
        (3, 2): (f"MiB {bucket} a component", components / _MIB),
    }
    for (row, column), (title, values) in linear.items():
        most = float(np.nanmax([0.0, *values.to_numpy(float).ravel()])) or 1.0
        plot.update_yaxes(
            type="linear", range=[0, 1.06 * most], tickvals=None, ticktext=None, title_text=title, row=row, col=column
        )
    plot.update_yaxes(title_text=f"mean ({MICROSECONDS})", row=2, col=1)
    plot.update_yaxes(title_text=f"99th percentile ({MICROSECONDS})", row=2, col=2)


def _add(
    run: RunData,
    plot: go.Figure,
    place: tuple[int, int],
    values: pd.Series[Any],
    name: str,
    colour: str,
    *,
    legend: bool = True,
) -> None:
    x, y = thin(values.index.to_numpy(float) / 1e6 + run.bucket_s / 2, values.to_numpy(float))
    line = go.Scatter(
        x=x,
        y=y,
        name=name,
        legendgroup=name,
        showlegend=legend,
        mode=step_mode(y),
        marker={"size": 4},
        line={"color": colour, "width": 1.6, "shape": "hvh"},
        hovertemplate="%{y:,.3~f}",
    )
    plot.add_trace(line, row=place[0], col=place[1])


def _largest_components(components: pd.DataFrame) -> pd.DataFrame:
    """The components with the most bytes on all nodes; those for which there is no colour left, together."""
    totals = components.groupby("component")["bytes"].sum().sort_values(ascending=False)
    if len(totals) <= len(COMPONENT_COLOURS):
        return components
    kept = set(totals.index[: len(COMPONENT_COLOURS) - 1])
    named = components.assign(component=components["component"].where(components["component"].isin(kept), "others"))
    return named.groupby(["node", "bucket_start_us", "component"])["bytes"].sum().reset_index()
