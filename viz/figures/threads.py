"""Throughput and run time against the number of client threads, where a series did the same with several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import ceil

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
#: Phases with more threads may be given more to do, so that each lasts as long.
_HOW_LONG = {"operationcount", "maxexecutiontime", "warmup.seconds", "warmup.operations"}
#: Beside each other: more would lay their titles over each other where the page is narrow.
_COLUMNS = 4


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


def sweeps(outcome: Scaling) -> Mapping[str, Mapping[str, Sequence[Step]]]:
    """Workload -> line -> steps that differ in their threads only, by threads.

    There is a line per table size, cluster size, target rate and properties; of these two it names what differs.
    """

    def table(step: Step) -> tuple[str, int, int]:
        return f"{step.load.workload} ({step.load.kind})", step.load.records, step.servers

    found: dict[str, dict[str, list[Step]]] = {}
    for (workload, records, servers), steps in groupby(sorted(outcome.steps, key=table), table):
        of_table = list(steps)
        sizes = f"{records:,} records, {servers} server{'s' if servers > 1 else ''}"
        differing = _differing(of_table)
        lines: dict[str, list[Step]] = {}
        for step in sorted(of_table, key=lambda step: step.load.threads):
            settings = _settings(step)
            line = ", ".join([sizes, *(f"{name} {settings.get(name, 'default')}" for name in differing)])
            lines.setdefault(line, []).append(step)
        swept = {line: sweep for line, sweep in lines.items() if len({step.load.threads for step in sweep}) > 1}
        if swept:
            found.setdefault(workload, {}).update(swept)
    return found


def _settings(step: Step) -> dict[str, str]:
    target = step.load.target_ops_per_s
    given = {name: value for name, value in step.load.properties.items() if name not in _HOW_LONG}
    return {"target (ops/s)": "none" if target is None else f"{target:,.6g}"} | given


def _differing(steps: Sequence[Step]) -> list[str]:
    """Names of what the phases were given that is not the same for all of them."""
    every = [_settings(step) for step in steps]
    names = dict.fromkeys(name for settings in every for name in settings)
    return [name for name in names if len({settings.get(name) for settings in every}) > 1]


def _panels(
    outcome: Scaling, name: str, title: str, axis: str, caption: str, value: Callable[[Step], Estimate | None]
) -> Figure:
    """A panel per workload, a line per sweep."""
    title += " against threads"
    found = sweeps(outcome)
    if not found:
        return Figure(name, title, "Every workload was run with one number of threads.", None)
    columns = min(len(found), _COLUMNS)
    rows = ceil(len(found) / columns)
    plot = make_subplots(
        rows=rows, cols=columns, subplot_titles=list(found), vertical_spacing=0.3 / rows,
        horizontal_spacing=spacing_for(columns),
    )  # fmt: skip
    lines = list(dict.fromkeys(line for of_workload in found.values() for line in of_workload))
    drawn: set[str] = set()
    for index, of_workload in enumerate(found.values()):
        row, column = index // columns + 1, index % columns + 1
        every: list[Estimate] = []
        for line, sweep in of_workload.items():
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
                row=row,
                col=column,
            )
            drawn.add(line)
            every += [estimate for _, estimate in points]
        most = max((estimate.value for estimate in every), default=1.0)
        plot.update_yaxes(range=range_for(most, every), row=row, col=column)
        _threads_axis(plot, of_workload, row, column)
    plot.update_yaxes(title_text=axis)
    plot.update_annotations(font_size=13)
    return Figure(name, title, caption, finish(plot, rows * _PANEL_PX + 60))


def _threads_axis(plot: go.Figure, of_workload: Mapping[str, Sequence[Step]], row: int, column: int) -> None:
    """Logarithmic, with the numbers that were run: they are usually powers of two."""
    threads = sorted({step.load.threads for sweep in of_workload.values() for step in sweep})
    plot.update_xaxes(title_text="Client threads (count)", type="log", tickvals=threads, row=row, col=column)
