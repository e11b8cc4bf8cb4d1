"""Throughput and run time against the number of client threads, where a series did the same with several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from controller.results.intervals import Estimate
from controller.results.scaling import Scaling, Step
from viz.figures.style import (
    BLUE,
    GREEN,
    INTERVALS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Figure,
    error_bars,
    finish,
    range_for,
    spacing_for,
)

_COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
_PANEL_PX = 340


def throughput(outcome: Scaling) -> Figure:
    """Means with intervals."""
    caption = "Operations of all clients per second, mean over the runs." + INTERVALS
    return _panels(
        outcome, "threads-throughput", "Throughput", "Throughput (ops/s)", caption, lambda s: s.throughput_ops_per_s
    )


def run_time(outcome: Scaling) -> Figure:
    """From the earliest client's start to the latest client's end."""
    caption = "From the earliest client's start to the latest client's end, mean over the runs." + INTERVALS
    return _panels(outcome, "threads-run-time", "Run time", "Run time (s)", caption, lambda s: s.runtime_s)


def sweeps(outcome: Scaling) -> Mapping[str, Sequence[Sequence[Step]]]:
    """Workload -> steps that differ in their threads only, by threads; one sequence per table size and cluster size."""

    def but_threads(step: Step) -> tuple[str, int, int]:
        return f"{step.load.workload} ({step.load.kind})", step.load.records, step.servers

    found: dict[str, list[list[Step]]] = {}
    ordered = sorted(outcome.steps, key=lambda step: (*but_threads(step), step.load.threads))
    for (workload, _, _), steps in groupby(ordered, but_threads):
        sweep = list(steps)
        if len({step.load.threads for step in sweep}) > 1:
            found.setdefault(workload, []).append(sweep)
    return found


def _panels(
    outcome: Scaling, name: str, title: str, axis: str, caption: str, value: Callable[[Step], Estimate | None]
) -> Figure:
    """A panel per workload, a line per sweep."""
    title += " against threads"
    found = sweeps(outcome)
    if not found:
        return Figure(name, title, "Every workload was run with one number of threads.", None)
    plot = make_subplots(
        rows=1, cols=len(found), subplot_titles=list(found), horizontal_spacing=spacing_for(len(found))
    )
    lines = list(dict.fromkeys(_line(sweep) for of_workload in found.values() for sweep in of_workload))
    drawn: set[str] = set()
    for column, of_workload in enumerate(found.values(), 1):
        every: list[Estimate] = []
        for sweep in of_workload:
            line = _line(sweep)
            points = [(step, estimate) for step in sweep if (estimate := value(step)) is not None]
            plot.add_scatter(
                x=[step.load.threads for step, _ in points],
                y=[estimate.value for _, estimate in points],
                error_y=error_bars([estimate for _, estimate in points]),
                mode="lines+markers",
                line={"color": _COLOURS[lines.index(line) % len(_COLOURS)]},
                name=line,
                legendgroup=line,
                showlegend=line not in drawn,
                customdata=[[step.runs] for step, _ in points],
                hovertemplate="%{x} threads: %{y:,.4g} (%{customdata[0]} runs)<extra></extra>",
                row=1,
                col=column,
            )
            drawn.add(line)
            every += [estimate for _, estimate in points]
        most = max((estimate.value for estimate in every), default=1.0)
        plot.update_yaxes(range=range_for(most, every), row=1, col=column)
        _threads_axis(plot, of_workload, column)
    plot.update_yaxes(title_text=axis)
    plot.update_annotations(font_size=13)
    return Figure(name, title, caption, finish(plot, _PANEL_PX + 60))


def _line(sweep: Sequence[Step]) -> str:
    first = sweep[0]
    return f"{first.load.records:,} records, {first.servers} server{'s' if first.servers > 1 else ''}"


def _threads_axis(plot: go.Figure, of_workload: Sequence[Sequence[Step]], column: int) -> None:
    """Logarithmic, with the numbers that were run: they are usually powers of two."""
    threads = sorted({step.load.threads for sweep in of_workload for step in sweep})
    plot.update_xaxes(title_text="Client threads (count)", type="log", tickvals=threads, row=1, col=column)
