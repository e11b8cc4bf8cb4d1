"""A scaling experiment: throughput with the fitted law, speed-up, efficiency and run time against servers."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from controller.results.intervals import Estimate
from controller.results.scaling import Scaling, Step
from controller.results.usl import Law
from viz.figures.style import BLACK, BLUE, INTERVALS, VERMILLION, Figure, error_bars, finish, range_for, spacing_for

COLUMNS = 3
_PANEL_PX = 270
_ERROR_BARS = f"{INTERVALS} One run has none, and neither has what is compared with."


def throughput(outcome: Scaling) -> Figure:
    """Means with intervals, and the Universal Scalability Law where it could be fitted."""

    def law(plot: go.Figure, phase: str, row: int, column: int) -> None:
        fitted = outcome.laws[phase]
        if isinstance(fitted, Law):
            sizes = [step.servers for step in outcome.of_phase(phase)]
            x = np.linspace(min(sizes), max(sizes), 100)
            line = {"color": VERMILLION, "dash": "dash", "width": 1.6}
            plot.add_scatter(
                x=x, y=[fitted.throughput(n) for n in x], mode="lines", line=line, name="fitted law",
                legendgroup="law", showlegend=(row, column) == _first_with_law(outcome), row=row, col=column,
            )  # fmt: skip

    caption = "Operations of all clients per second, mean over the runs; the curve is the Universal Scalability Law."
    return _panels(
        outcome, "throughput", "Throughput", "Throughput (ops/s)", caption, lambda step: step.throughput_ops_per_s, law
    )


def speedup(outcome: Scaling) -> Figure:
    """Speed-up against the smallest number of servers, with what linear growth would be."""

    def linear(plot: go.Figure, phase: str, row: int, column: int) -> None:
        sizes = [step.servers for step in outcome.of_phase(phase)]
        line = {"color": BLACK, "dash": "dot", "width": 1.2}
        ends = [min(sizes), max(sizes)]
        plot.add_scatter(
            x=ends, y=[n / ends[0] for n in ends], mode="lines", line=line, name="linear",
            legendgroup="linear", showlegend=row == column == 1, row=row, col=column,
        )  # fmt: skip

    caption = "Throughput by that of the smallest number of servers; dotted: as much more as there are more servers."
    return _panels(
        outcome, "speedup", "Speed-up", "Speed-up (times the smallest)", caption, lambda step: step.speedup, linear
    )


def efficiency(outcome: Scaling) -> Figure:
    """Speed-up by growth."""
    caption = "Speed-up by the growth in servers: 1 is linear."
    return _panels(
        outcome, "efficiency", "Efficiency", "Efficiency (share of linear)", caption, lambda step: step.efficiency
    )


def run_time(outcome: Scaling) -> Figure:
    """From the earliest client's start to the latest client's end."""
    caption = "From the earliest client's start to the latest client's end, mean over the runs."
    return _panels(outcome, "run-time", "Run time", "Run time (s)", caption, lambda step: step.runtime_s)


def _panels(
    outcome: Scaling,
    name: str,
    title: str,
    axis: str,
    caption: str,
    value: Callable[[Step], Estimate | None],
    more: Callable[[go.Figure, str, int, int], None] = lambda *_: None,
) -> Figure:
    """A panel per phase that has values."""
    phases = _phases(outcome, value)
    if not phases:
        return Figure(name, title, "No complete run has a value to draw.", None)
    columns = min(len(phases), COLUMNS)
    rows = ceil(len(phases) / columns)
    plot = make_subplots(
        rows=rows, cols=columns, subplot_titles=phases, vertical_spacing=0.3 / rows,
        horizontal_spacing=spacing_for(columns),
    )  # fmt: skip
    for index, phase in enumerate(phases):
        row, column = index // columns + 1, index % columns + 1
        more(plot, phase, row, column)
        found = [(step, estimate) for step in outcome.of_phase(phase) if (estimate := value(step)) is not None]
        plot.add_scatter(
            x=[step.servers for step, _ in found],
            y=[estimate.value for _, estimate in found],
            error_y=error_bars([estimate for _, estimate in found]),
            mode="markers",
            marker={"color": BLUE, "size": 8},
            name="measured",
            legendgroup="measured",
            showlegend=index == 0,
            customdata=[[step.runs] for step, _ in found],
            hovertemplate="%{x} servers: %{y:,.4g} (%{customdata[0]} runs)<extra></extra>",
            row=row,
            col=column,
        )
        drawn = max(float(np.max(trace.y)) for trace in plot.select_traces(row=row, col=column))
        plot.update_yaxes(range=range_for(drawn, [estimate for _, estimate in found]), row=row, col=column)
    plot.update_yaxes(title_text=axis)
    plot.update_xaxes(title_text="Data servers (count)", tickvals=sorted({step.servers for step in outcome.steps}))
    plot.update_annotations(font_size=13)
    return Figure(name, title, caption + _ERROR_BARS, finish(plot, rows * _PANEL_PX + 60))


def _phases(outcome: Scaling, value: Callable[[Step], Estimate | None]) -> list[str]:
    return [phase for phase in outcome.laws if any(value(step) for step in outcome.of_phase(phase))]


def _first_with_law(outcome: Scaling) -> tuple[int, int]:
    phases = _phases(outcome, lambda step: step.throughput_ops_per_s)
    index = next(i for i, phase in enumerate(phases) if isinstance(outcome.laws[phase], Law))
    columns = min(len(phases), COLUMNS)
    return index // columns + 1, index % columns + 1
