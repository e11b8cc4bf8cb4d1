"""The look that all figures share: colours with a fixed meaning, time axis, phases, thinning of series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from controller.results.intervals import Estimate
from controller.results.timeline import Timeline

# Okabe and Ito's palette: distinguishable with every common form of colour blindness, and in grey by dash.
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#333333"
OPERATION_COLOURS = {
    "READ": BLUE,
    "UPDATE": VERMILLION,
    "INSERT": GREEN,
    "DELETE": PURPLE,
    "SCAN": SKY,
    "READ-MODIFY-WRITE": ORANGE,
    "MULTI-GET": "#004D40",
    "BATCH-INSERT": "#7A9A01",
    "FILTERED-SCAN": "#5E35B1",
    "SECONDARY-LOOKUP": "#8D6E63",
    "TRAVERSAL": "#C2185B",
}
MODE_COLOURS = {"read": BLUE, "write": VERMILLION}
LAYER_COLOURS = {"total": BLACK, "vfs": PURPLE, "block": BLUE, "driver": ORANGE, "device": GREEN}
LAYER_DASHES = {"total": "solid", "vfs": "dot", "block": "dash", "driver": "dashdot", "device": "solid"}
#: The micro sign, spelled so that it cannot be mistaken for the Greek letter.
MICROSECONDS = "\u00b5s"
#: Of what is drawn by the bucket's length.
TRACED_PART = " Where the tracer ran in a part of a bucket only, by that part; empty below a tenth."
#: By alphabetical order of the components drawn.
COMPONENT_COLOURS = ("#5E35B1", "#7A9A01", SKY, "#A0522D", "#004D40", "#E7298A", ORANGE, "#7A7A7A")
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"

#: What the figures over several runs say of their error bars.
INTERVALS = " Bars are 95 % intervals over the runs; one that leaves its panel goes on as the table says."

#: Longest series that is drawn point by point.
MOST_POINTS = 4000
#: Space for phase labels: pixels a row, pixels a character, and the plot's width where it is smallest, on paper.
_ROW_PX, _CHARACTER_PX, _PLOT_PX = 16, 6.6, 900
#: Space for the legend: pixels a line, an entry's symbol, a character, and the buttons at its right.
_LEGEND_PX, _SYMBOL_PX, _LEGEND_CHARACTER_PX, _BUTTONS_PX = 20, 45, 7.8, 240
#: Further space where panels have titles, and the share of the plot's width that an axis' title and numbers take.
_TITLES_PX, _AXIS_SHARE = 10, 0.1
#: What the title of an axis can hold where the panel is lowest.
_TITLE_CHARACTERS = 16


@dataclass(frozen=True)
class Figure:
    """`plot` is None when there is nothing to draw; then `caption` says why."""

    name: str
    title: str
    caption: str
    plot: go.Figure | None


def operation_colour(op: str) -> str:
    return OPERATION_COLOURS.get(op, BLACK)


def finish(plot: go.Figure, height_px: int, timeline: Timeline | None = None) -> go.Figure:
    """Apply the common layout; with a timeline, shade and label its phases. A long legend stands below the buttons."""
    titles_px = _TITLES_PX if plot.layout.annotations else 0
    rows = _label_phases(plot, timeline) if timeline is not None else 0
    lines = _legend_lines(plot)
    buttons_px = 30 if lines else 0
    above_px = titles_px + rows * _ROW_PX + buttons_px + max(lines - 1, 0) * _LEGEND_PX
    whole_px = height_px + above_px
    plot.update_layout(
        template="plotly_white",
        height=whole_px,
        margin={"l": 76, "r": 24, "t": 44 + above_px, "b": 52},
        font={"family": FONT, "size": 13, "color": "#222"},
        hovermode="x unified" if timeline is not None else "closest",
        hoverlabel={"font": {"size": 12}},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "yanchor": "top"}
        | {"y": 1 - buttons_px / whole_px},
    )
    plot.update_xaxes(showline=True, linecolor="#999", gridcolor="#eee", zeroline=False)
    plot.update_yaxes(showline=True, linecolor="#999", gridcolor="#e4e4e4", zeroline=False)
    return plot


def _legend_lines(plot: go.Figure) -> int:
    """Lines that the legend takes below the buttons where the plot is smallest; 0 when it fits beside them."""
    shown = [trace.name for trace in plot.data if trace.name and trace.showlegend is not False]
    widths_px = [_SYMBOL_PX + len(name) * _LEGEND_CHARACTER_PX for name in shown]
    if sum(widths_px) <= _PLOT_PX - _BUTTONS_PX:
        return 0
    # What does not fit into one line stands in columns, which are as wide as the widest entry.
    return 1 if sum(widths_px) <= _PLOT_PX else ceil(len(shown) / max(_PLOT_PX // max(widths_px), 1))


def time_axis(plot: go.Figure, timeline: Timeline, last_row: int, columns: int = 1) -> None:
    """One time axis in seconds since the run's start, titled below the last row only."""
    plot.update_xaxes(range=[0, _axis_s(timeline)], hoverformat=".3f")
    for column in range(1, columns + 1):
        plot.update_xaxes(title_text="Time since the run's start (s)", row=last_row, col=column)


def _axis_s(timeline: Timeline) -> float:
    """Up to the end of the run's last bucket: at its middle is its value, and the run may end before."""
    buckets = len(timeline.buckets(timeline.start_unix_ns, timeline.end_unix_ns))
    return max(buckets, 1) * timeline.bucket_ns / 1e9


def logarithmic(plot: go.Figure, values: pd.DataFrame) -> None:
    """Make all y axes logarithmic with one range that holds `values`, ticks 1, 2, 5, 10 ... 5,000, 10k ... 1M."""
    numbers = values.to_numpy(float).ravel()
    positive = numbers[np.isfinite(numbers) & (numbers > 0)]
    low, high = (np.log10(positive.min()), np.log10(positive.max())) if len(positive) else (0.0, 1.0)
    margin = max((high - low) * 0.06, 0.05)
    steps = (1, 2, 5) if high - low < 2.2 else (1,)
    ticks = [step * 10.0**power for power in range(int(low) - 2, int(high) + 2) for step in steps]
    plot.update_yaxes(
        type="log",
        range=[low - margin, high + margin],
        tickvals=ticks,
        ticktext=[_short(tick) for tick in ticks],
    )


def _short(number: float) -> str:
    """Seven digits and their commas would push the axis' title into the panel beside it."""
    if number >= 1e6:
        return f"{number / 1e6:,.10g}M"
    return f"{number / 1e3:.10g}k" if number >= 1e4 else f"{number:,.10g}"


def _label_phases(plot: go.Figure, timeline: Timeline) -> int:
    """Shade every phase on all panels, label it above the first; returns how many rows the labels take."""
    total_s = _axis_s(timeline)
    character_s = _CHARACTER_PX / (_PLOT_PX * _panel_share(plot)) * total_s
    panels = dict.fromkeys((trace.xaxis or "x", trace.yaxis or "y") for trace in plot.data)
    columns = _columns(plot)
    shades: list[dict[str, object]] = []
    labels: list[dict[str, object]] = []
    row_ends: list[float] = []
    for index, span in enumerate(timeline.spans):
        start, end = ((t - timeline.start_unix_ns) / 1e9 for t in (span.start_unix_ns, span.end_unix_ns))
        shades += [_shade(index, (start, end), panel) for panel in panels]
        width = len(span.phase) * character_s
        # A name that would leave the panel on the right ends where its phase does.
        left, place = (start, (start, "left")) if start + width <= total_s else (end - width, (end, "right"))
        if left < 0:
            left, place = 0.0, (0.0, "left")
        row = next((i for i, used in enumerate(row_ends) if used <= left), len(row_ends))
        row_ends[row:] = [left + width + character_s, *row_ends[row + 1 :]]
        labels += [_label(span.phase, place, row, column) for column in range(columns)]
    # All at once: plotly checks every one that is there for each that is added.
    plot.layout.shapes = [*plot.layout.shapes, *shades]
    plot.layout.annotations = [*plot.layout.annotations, *labels]
    return len(row_ends)


def _shade(index: int, ends_s: tuple[float, float], panel: tuple[str, str]) -> dict[str, object]:
    return {
        "type": "rect",
        "x0": ends_s[0],
        "x1": ends_s[1],
        "xref": panel[0],
        "y0": 0,
        "y1": 1,
        "yref": f"{panel[1]} domain",
        "fillcolor": "#4a6fa5" if index % 2 == 0 else "#8a8a8a",
        "opacity": 0.08,
        "line": {"width": 0},
        "layer": "below",
    }


def _label(text: str, place: tuple[float, str], row: int, column: int) -> dict[str, object]:
    return {
        "text": text,
        "x": place[0],
        "xref": "x" if column == 0 else f"x{column + 1}",
        "y": 1,
        "yref": "paper",
        "yshift": row * _ROW_PX,
        "xanchor": place[1],
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": "#555"},
    }


def _columns(plot: go.Figure) -> int:
    """Columns of panels: x axes whose panels stand in the top row."""
    tops = [axis.domain[1] for axis in plot.select_yaxes() if axis.domain]
    return max(sum(top == max(tops) for top in tops), 1) if tops else 1


def _panel_share(plot: go.Figure) -> float:
    """The part of the plot's width that the first panel has."""
    first, last = next(plot.select_xaxes()).domain or (0.0, 1.0)
    return float(last - first)


def beside_panel(name: str) -> str:
    """A node's name for the title of an axis, which may not be longer than its panel: in lines, ended by one of the
    name's dots or dashes where it has them."""
    lines = [""]
    for part in re.findall(r"[^.\-_]+[.\-_]*|[.\-_]+", name):
        for start in range(0, len(part), _TITLE_CHARACTERS):
            piece = part[start : start + _TITLE_CHARACTERS]
            if len(lines[-1]) + len(piece) > _TITLE_CHARACTERS:
                lines.append("")
            lines[-1] += piece
    return "<br>".join(line for line in lines if line)


def thin(
    x: NDArray[np.float64], y: NDArray[np.float64], most: int = MOST_POINTS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A series of at most about `most` points that keeps the extremes and a gap of every stretch."""
    if len(x) <= most:
        return x, y
    keep: set[int] = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), max(most // 3, 1)):
        values = y[stretch]
        gap = np.isnan(values)
        if gap.any():
            keep.add(int(stretch[gap.argmax()]))
        if not gap.all():
            keep |= {int(stretch[np.nanargmin(values)]), int(stretch[np.nanargmax(values)])}
    index = np.array(sorted(keep))
    return x[index], y[index]


def line_mode(y: NDArray[np.float64]) -> str:
    """Markers for short series, and wherever a value without neighbours would be invisible as a line."""
    return "lines+markers" if len(y) <= 300 else step_mode(y)


def step_mode(y: NDArray[np.float64]) -> str:
    """Markers only where a value has no neighbours: steps show where each bucket is."""
    gap = np.isnan(np.concatenate([[np.nan], y, [np.nan]]))
    alone = ~gap[1:-1] & gap[:-2] & gap[2:]
    return "lines+markers" if alone.any() else "lines"


def thinning_note(points: int) -> str:
    """A sentence for the caption when a series of this many points was thinned; else nothing."""
    if points <= MOST_POINTS:
        return ""
    return f" Of {points} points a series at most {MOST_POINTS} are drawn; every stretch keeps its extremes."


def significant(value: float) -> str:
    """A number with thousands separators and about three significant digits; whole numbers in full."""
    if float(value).is_integer():
        return f"{int(value):,}"
    if abs(value) < 0.01:  # three decimals would make a 0 of it
        return f"{value:.2g}"
    decimals = max(3 - len(str(int(abs(value)))), 0) if abs(value) >= 1 else 3
    return f"{value:,.{decimals}f}"


def error_bars(estimates: Sequence[Estimate]) -> dict[str, object]:
    """Plotly's, from each value to the ends of its interval; none where there is no interval."""
    up = [None if e.high is None else e.high - e.value for e in estimates]
    down = [None if e.low is None else e.value - e.low for e in estimates]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.2, "width": 4}


def spacing_for(columns: int) -> float:
    """Space between panels beside each other, each with an axis of its own: as much as it takes, or half of all."""
    return min(_AXIS_SHARE, 0.5 / columns)


def range_for(drawn: float, estimates: Sequence[Estimate]) -> list[float]:
    """A linear axis from 0 for values of at most ``drawn`` and for intervals, unless these are much wider."""
    highest = max((drawn, *(estimate.high or estimate.value for estimate in estimates)))
    # The interval of two runs is easily a hundred times the value: it may not press all points into one line.
    return [0.0, min(highest, 2 * drawn) * 1.08]
