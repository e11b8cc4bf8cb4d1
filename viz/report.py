"""report.html: one run on one self-contained page; beside it nodes.html, a page of panels a node."""

from __future__ import annotations

from html import escape
from pathlib import Path

from controller.results.schema import ALL_OPERATIONS, REPORT
from viz import tables
from viz.figures import layers, node_io, operations, workloads
from viz.node_pages import FILE, node_pages
from viz.page import Section, figure_section, page
from viz.run_data import RunData, load_run

NODE_PAGES = "A page of panels for each node, all on the same scales"


def write_report(run_dir: Path) -> Path:
    """Draw a joined run and return the page's path. DataError when the run was not joined."""
    run = load_run(run_dir)
    figures = (
        operations.throughput(run),
        operations.latency(run),
        node_io.requests_per_node(run),
        layers.latency_per_layer(run),
        workloads.mean_latency(run),
    )
    sections = [
        Section("results", "Results", tables.headline(run)),
        Section("remarks", "Warnings and gaps", remarks(run)),
        *(figure_section(figure) for figure in figures),
        Section("trace", "Trace accounts", tables.accounts(run)),
        Section("calls", "Calls on files", tables.calls(run)),
        Section("system", "Versions, hardware, settings", tables.system(run)),
    ]
    pages = {}
    if (nodes := node_pages(run, header(run))) is not None:
        pages[FILE] = nodes
        sections.insert(2, Section("nodes", "Every node", f'<p><a href="{FILE}">{NODE_PAGES}</a></p>'))
    pages[REPORT] = page(f"{run.manifest.get('experiment', 'run')} {run.store.run_id}", header(run), sections)
    # Only when all are drawn, and with the manifest: it lists what stands in each.
    run.store.write_listed(pages, gone=() if FILE in pages else (FILE,))
    return run.store.path / REPORT


def header(run: RunData) -> str:
    """Title, status, what the experiment says of itself, run id and the verdict in one sentence."""
    status = str(run.manifest.get("status", "failed"))
    known = status if status in ("complete", "partial") else "failed"
    description = str(run.plan.get("description", ""))
    reasons = "".join(f"<li>{escape(str(text))}</li>" for text in run.manifest.get("reasons", []))
    return (
        f"<header><h1>{escape(str(run.manifest.get('experiment', 'run')))}"
        f'<span class="status {known}">{escape(status)}</span></h1>'
        + (f'<p class="run">{escape(description)}</p>' if description else "")
        + f'<p class="run">run {escape(run.store.run_id)}</p><p>{escape(verdict(run))}</p>'
        + (f'<ul class="findings error">{reasons}</ul>' if reasons else "")
        + "</header>"
    )


def verdict(run: RunData) -> str:
    """What was done and what was lost, in numbers."""
    everything = run.summary[run.summary["op"] == ALL_OPERATIONS]
    totals = everything.groupby("metric")["value"].sum()
    phases = f"in {_counted(len(run.timeline.spans), 'phase')}"
    done = f"No client has reported an operation {phases}"
    if "count" in totals:
        done = f"{_counted(int(totals['count']), 'operation')} {phases}, {int(totals['errors']):,} failed"
    took = f"The run took {(run.timeline.end_unix_ns - run.timeline.start_unix_ns) / 1e9:,.0f} s."
    if not run.traces:
        return f"{done}; no I/O was traced. {took}"
    nodes = _counted(len(run.traces), "node")
    emitted, dropped = _total(run, "emitted") or "an unknown number of", _total(run, "dropped") or "an unknown number"
    return f"{done}; {emitted} I/Os traced on {nodes}, {dropped} lost. {took}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' if number != 1 else ''}"


def _total(run: RunData, counter: str) -> str:
    """One of the tracers' counters over all nodes; empty when one of them does not have it."""
    if not all(counter in trace for trace in run.traces.values()):
        return ""
    return f"{sum(trace[counter] for trace in run.traces.values()):,}"


def remarks(run: RunData) -> str:
    """Warnings, layers that are missing, and nodes without a trace, each with its reason."""
    lines = [("warning", str(text)) for text in run.manifest.get("warnings", [])]
    where: dict[tuple[str, str], list[str]] = {}
    for node, entry in run.manifest.get("tracing", {}).items():
        if entry.get("state") != "traced":
            where.setdefault(("warning", run.missing_trace(node)), []).append(node)
        for layer, why in entry.get("layers_missing", {}).items():
            where.setdefault(("", f"layer {layer} is missing: {why}"), []).append(node)
    lines += [(kind, f"{', '.join(nodes)}: {text}") for (kind, text), nodes in where.items()]
    if not lines:
        visible = "every layer of every traced node is visible"
        if run.manifest.get("reasons"):
            return f"<p>No warning, and {visible}. Why the run is not complete stands at the head of this page.</p>"
        return f"<p>None: every check passed, {visible}.</p>"
    items = "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in dict.fromkeys(lines))
    return f'<ul class="findings">{items}</ul>'
