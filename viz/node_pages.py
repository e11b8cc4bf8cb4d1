"""nodes.html: a page of panels for every traced node, all on the same scales."""

from __future__ import annotations

from viz.figures.node_panels import panels
from viz.node_data import load_node_data
from viz.page import figure_section, page
from viz.run_data import RunData

FILE = "nodes.html"


def node_pages(run: RunData, header: str) -> str | None:
    """A joined run's nodes as one document; None when no node was traced."""
    figures = panels(run, load_node_data(run.store.path))
    if not figures:
        return None
    title = f"{run.manifest.get('experiment', 'run')} {run.store.run_id}: nodes"
    return page(title, header, [figure_section(figure) for figure in figures])
