"""nodes.html: a page of panels for every traced node, all on the same scales."""

from __future__ import annotations

from pathlib import Path

from controller.results.store import write_atomically
from viz.figures.node_panels import panels
from viz.node_data import load_node_data
from viz.page import figure_section, page
from viz.run_data import RunData

FILE = "nodes.html"


def write_node_pages(run: RunData, header: str) -> Path | None:
    """Draw a joined run's nodes and return the page's path; None when no node was traced."""
    figures = panels(run, load_node_data(run.store.path))
    if not figures:
        return None
    path = run.store.path / FILE
    title = f"{run.manifest.get('experiment', 'run')} {run.store.run_id}: nodes"
    write_atomically(path, page(title, header, [figure_section(figure) for figure in figures]))
    return path
