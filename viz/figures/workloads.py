"""One number a workload: mean latency of reads and of writes."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from controller.results.schema import ALL_OPERATIONS
from viz.figures.style import MODE_COLOURS, Figure, finish, significant
from viz.run_data import RunData

#: Every other operation writes.
READING = ("READ", "SCAN", "MULTI-GET", "FILTERED-SCAN", "SECONDARY-LOOKUP", "TRAVERSAL")


def mean_latency(run: RunData) -> Figure:
    """Bars per run phase; means of several operations are weighted with their successful operations."""
    name, title = "workloads", "Mean latency per workload"
    means = _means(run)
    if means.empty:
        return Figure(name, title, "No run phase has a successful operation, so there is no mean to draw.", None)
    plot = go.Figure()
    for mode, colour in MODE_COLOURS.items():
        mine = means[means["mode"] == mode]
        if mine.empty:
            continue
        plot.add_bar(
            x=mine["workload"],
            y=mine["mean_ms"],
            name=mode,
            marker_color=colour,
            text=[f"{significant(value)} ms" for value in mine["mean_ms"]],
            textposition="outside",
            cliponaxis=False,
            customdata=mine[["operations"]],
            hovertemplate="%{y:,.3f} ms<br>%{customdata[0]}<extra></extra>",
        )
    plot.update_layout(barmode="group", bargap=0.45)
    plot.update_yaxes(title_text="Mean latency (ms)", rangemode="tozero")
    plot.update_xaxes(title_text="Workload (run phase)")
    caption = f"Run phases, all clients. Reads: {', '.join(READING)}; writes: all other operations."
    if run.ops["intended_p99_us"].notna().any():
        caption += " Counted from the real start of an operation: what it waited after its schedule is not in it."
    return Figure(name, title, caption, finish(plot, 400))


def _means(run: RunData) -> pd.DataFrame:
    """One row per run phase and mode that has successful operations: workload, mode, mean_ms, operations."""
    phases = {p["name"]: p.get("workload", p["name"]) for p in run.plan.get("phases", []) if p.get("kind") == "run"}
    columns = ["count", "errors", "mean_us"]
    per_op = run.summary[run.summary["metric"].isin(columns) & (run.summary["op"] != ALL_OPERATIONS)]
    wide = per_op.pivot_table(index=["phase", "op"], columns="metric", values="value").reindex(columns=columns)
    wide = wide[wide["mean_us"].notna()].reset_index()
    wide["good"] = wide["count"] - wide["errors"]
    wide["mode"] = ["read" if op in READING else "write" for op in wide["op"]]
    rows = []
    for phase, workload in phases.items():
        for mode in MODE_COLOURS:
            mine = wide[(wide["phase"] == phase) & (wide["mode"] == mode)]
            if mine.empty:
                continue
            mean_ms = (mine["mean_us"] * mine["good"]).sum() / mine["good"].sum() / 1000
            parts = [f"{op}: {mean / 1000:,.3f} ms" for op, mean in zip(mine["op"], mine["mean_us"], strict=True)]
            rows.append((f"{workload}<br>({phase})", mode, mean_ms, ", ".join(parts)))
    return pd.DataFrame(rows, columns=["workload", "mode", "mean_ms", "operations"])
