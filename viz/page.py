"""HTML of the report: escaping, tables, style sheet and the page around the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from urllib.parse import quote

import plotly.io as pio
from plotly.offline import get_plotlyjs

from viz.figures.style import FONT, Figure, significant

#: Narrower plots are scrolled: their labels would lie over each other.
LEAST_WIDTH_PX = 1000

STYLE = f"""
:root {{ color-scheme: light; }}
body {{ font: 15px/1.5 {FONT}; color: #222; background: #fff;
  margin: 0 auto; max-width: 1280px; padding: 24px 40px 64px; }}
h1 {{ font-size: 26px; margin: 0; }}
h2 {{ font-size: 19px; margin: 40px 0 6px; padding-top: 10px; border-top: 1px solid #ddd; }}
h3 {{ font-size: 15px; margin: 20px 0 4px; }}
p.caption {{ color: #555; margin: 0 0 6px; max-width: 110ch; }}
p.absent {{ background: #f6f6f6; border-left: 4px solid #999; padding: 10px 14px; }}
nav {{ margin: 14px 0 0; display: flex; flex-wrap: wrap; column-gap: 18px; }}
nav a {{ white-space: nowrap; color: #0b5394; text-decoration: none; }}
nav a:hover {{ text-decoration: underline; }}
.run {{ color: #555; margin: 2px 0; }}
.status {{ display: inline-block; padding: 1px 12px; border-radius: 12px; color: #fff;
  font-size: 14px; vertical-align: 4px; margin-left: 10px; }}
.complete {{ background: #00724f; }}
.partial {{ background: #8a5a00; }}
.failed {{ background: #a82a1e; }}
table {{ border-collapse: collapse; margin: 8px 0; font-size: 14px; }}
th, td {{ padding: 4px 22px 4px 0; border-bottom: 1px solid #e6e6e6; text-align: left; vertical-align: top; }}
th {{ color: #444; border-bottom: 2px solid #999; white-space: nowrap; vertical-align: bottom; }}
td {{ overflow-wrap: break-word; }}
td:first-child {{ white-space: nowrap; }}
td.number, th.number {{ text-align: right; }}
td.number {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
th.number {{ white-space: normal; }}
tr.total td {{ font-weight: 600; border-top: 1px solid #bbb; }}
.wide {{ overflow-x: auto; }}
.plotly-graph-div {{ min-width: {LEAST_WIDTH_PX}px; }}
ul.findings {{ margin: 6px 0; padding-left: 22px; }}
.error {{ color: #a82a1e; }}
.warning {{ color: #7a4f00; }}
@page {{ size: A4 landscape; margin: 10mm; }}
@media print {{
  body {{ padding: 0; max-width: none; font-size: 12px; }}
  nav {{ display: none; }}
  section.figure, tr {{ break-inside: avoid; }}
  .wide {{ overflow: visible; }}
}}
"""

# Plots have a fixed width once they are drawn; paper is narrower than a window.
PRINT_SCRIPT = """
const plots = () => document.querySelectorAll('.js-plotly-plot');
const resize = layout => plots().forEach(plot => Plotly.relayout(plot, layout));
window.addEventListener('beforeprint', () => resize({width: 1000}));
window.addEventListener('afterprint', () => resize({width: null, autosize: true}));
"""


#: Plotly's; one of its buttons would send the figure to the maker's server.
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "sendChartToCloud"],
    "plotlyServerURL": "",
}

#: What stands in a cell whose value is not known.
UNKNOWN = "\u2013"


@dataclass(frozen=True)
class Cell:
    """A table cell; numbers stand right-aligned."""

    text: str
    number: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page with its own heading and entry in the table of contents; `body` is HTML, the others text."""

    name: str
    title: str
    body: str
    kind: str = "text"


def number(value: float | None) -> Cell:
    """A number as a right-aligned cell; a dash when it is unknown."""
    return Cell(UNKNOWN if value is None or isnan(value) else significant(value), number=True)


def table(head: Sequence[Cell], rows: Iterable[Sequence[Cell]], total_rows: frozenset[int] = frozenset()) -> str:
    """An HTML table; rows whose index is in `total_rows` are emphasised."""
    body = "".join(
        f"<tr{_class('total' if i in total_rows else '')}>{''.join(_cell('td', cell) for cell in row)}</tr>"
        for i, row in enumerate(rows)
    )
    headings = "".join(_cell("th", cell) for cell in head)
    content = f"<thead><tr>{headings}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{content}</table></div>'


def figure_section(figure: Figure) -> Section:
    """A figure with its caption, or the sentence that stands in its place."""
    if figure.plot is None:
        body = f'<p class="absent">{escape(figure.caption)}</p>'
    else:
        plot = pio.to_html(
            figure.plot, full_html=False, include_plotlyjs=False, div_id=f"plot-{quote(figure.name)}", config=_CONFIG
        )
        # A plot's own text is read out as a heap of numbers; it can be scrolled to by keyboard, too.
        label = escape(f"{figure.title}: a plot; its numbers are in the tables of joined/", quote=True)
        image = f'<div class="wide" role="img" tabindex="0" aria-label="{label}">{plot}</div>'
        body = f'<p class="caption">{escape(figure.caption)}</p>{image}'
    return Section(figure.name, figure.title, body, "figure")


def page(title: str, header: str, sections: Sequence[Section]) -> str:
    """The whole document; plotly.js is inlined once, nothing is loaded from anywhere."""
    contents = "".join(f'<a href="#{quote(section.name)}">{escape(section.title)}</a>' for section in sections)
    parts = "".join(
        f'<section class="{part.kind}" id="{quote(part.name)}"><h2>{escape(part.title)}</h2>{part.body}</section>'
        for part in sections
    )
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>'
        f"<script>{get_plotlyjs()}</script></head>\n<body>{header}<nav>{contents}</nav>{parts}"
        f"<script>{PRINT_SCRIPT}</script></body></html>\n"
    )
    # Names of files may hold bytes that are no UTF-8.
    return text.encode(errors="backslashreplace").decode()


def _cell(tag: str, cell: Cell) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    return f"<{tag}{scope}{_class('number' if cell.number else '')}>{escape(cell.text)}</{tag}>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
