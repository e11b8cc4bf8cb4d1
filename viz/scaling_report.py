"""report.html of a scaling experiment: how it scales, and the node and layer that its I/O waits for."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import quote

from controller.results.intervals import Estimate
from controller.results.machines import servers_share_a_machine
from controller.results.scaling import Scaling, Step, is_complete
from controller.results.schema import REPORT
from controller.results.store import runs, write_atomically
from controller.results.usl import Law
from viz.figures import scaling, threads
from viz.figures.style import significant
from viz.page import UNKNOWN, Cell, Section, figure_section, number, page, table


def write_scaling_report(folder: Path, outcome: Scaling) -> Path:
    """Draw a scaling experiment's folder and return the page's path."""
    sizes = sorted({step.servers for step in outcome.steps})
    sections = [
        Section("results", "Results", steps_table(outcome)),
        *([Section("places", "Where the I/O waits", places_table(outcome))] if outcome.steps else ()),
        *(_against_servers(outcome) if len(sizes) != 1 else ()),
        *(figure_section(figure) for draw in (threads.throughput, threads.run_time) if (figure := draw(outcome)).plot),
        Section("runs", "Runs", run_list(folder)),
    ]
    path = folder / REPORT
    header = (
        f"<header><h1>{escape(folder.parent.name)}: series of runs</h1>"
        f'{_described(folder)}<p class="run">{escape(folder.name)}</p>'
        f"<p>Data servers of the complete runs: {', '.join(map(str, sizes)) or 'none'}.</p>{_shared(folder)}</header>"
    )
    write_atomically(path, page(f"{folder.parent.name} {folder.name}", header, sections))
    return path


def _described(folder: Path) -> str:
    """What the experiment says of itself: all runs are of one; who is interrupted early has a run without a plan."""
    plan = next((store.plan() for store in runs(folder) if (store.path / "plan.json").is_file()), {})
    description = str(plan.get("description") or "")
    return f'<p class="run">{escape(description)}</p>' if description else ""


def _shared(folder: Path) -> str:
    """More servers on the same machine are no scaling, and the page must not look as if they were."""
    if not any(is_complete(store) and servers_share_a_machine(store) for store in runs(folder)):
        return ""
    return (
        "<p><strong>Data servers shared a machine</strong>: more of them were no more hardware, so speed-up, efficiency"
        " and law below are those of that machine, not of a cluster.</p>"
    )


def _against_servers(outcome: Scaling) -> list[Section]:
    figures = (scaling.throughput, scaling.speedup, scaling.efficiency, scaling.run_time)
    law = Section("law", "Universal Scalability Law", law_table(outcome))
    return [law, *(figure_section(draw(outcome)) for draw in figures)]


def steps_table(outcome: Scaling) -> str:
    """How fast: a row per phase and number of servers."""
    if not outcome.steps:
        return '<p class="absent">No run is complete yet.</p>'
    head = [
        Cell("phase"),
        *(Cell(text, number=True) for text in ("threads", "servers", "runs", "throughput (ops/s)")),
        *(Cell(text, number=True) for text in ("speed-up", "efficiency", "run time (s)")),
    ]

    def cells(step: Step) -> list[Cell]:
        estimates = (step.throughput_ops_per_s, step.speedup, step.efficiency, step.runtime_s)
        counts = (step.load.threads, step.servers, step.runs)
        return [_phase_cell(outcome, step), *map(number, counts), *map(interval, estimates)]

    note = "<p>Values with 95 % intervals over the runs.</p>"
    return note + table(head, [cells(step) for step in outcome.steps])


def places_table(outcome: Scaling) -> str:
    """Where the I/O waits, and where the data is: a row per phase and number of servers."""
    head = [
        Cell("phase"),
        Cell("servers", number=True),
        Cell("most I/O time in"),
        Cell("share", number=True),
        Cell("regions on each server"),
        Cell("locality (lowest)", number=True),
    ]

    def cells(step: Step) -> list[Cell]:
        place = step.place
        return [
            _phase_cell(outcome, step),
            number(step.servers),
            Cell(f"{place.node}: {place.layer}" if place else UNKNOWN),
            Cell(f"{place.share:.0%}" if place else UNKNOWN, number=True),
            Cell(_regions(step)),
            Cell(_locality(step), number=True),
        ]

    note = (
        "<p>I/O time: sum over all requests of the time in a layer; the largest part of all nodes and layers is named."
        " Requests overlap, so it says where I/O waits, not how long the clock ran. Locality: share of a server's bytes"
        " on disk that lies on its own node, mean and lowest.</p>"
    )
    return note + table(head, [cells(step) for step in outcome.steps])


def _phase_cell(outcome: Scaling, step: Step) -> Cell:
    """Named once, where its rows begin."""
    return Cell(step.phase if step is outcome.of_phase(step.phase)[0] else "")


def _regions(step: Step) -> str:
    """``4, 4, 4``, in the order of the nodes."""
    if step.regions is None or step.uneven_regions is None:
        return UNKNOWN
    counts = ", ".join(map(str, step.regions.values()))
    return counts if step.uneven_regions <= 1 else f"{counts} (uneven)"


def _locality(step: Step) -> str:
    if step.locality is None or step.lowest_locality is None:
        return UNKNOWN
    return f"{step.locality:.0%} ({step.lowest_locality:.0%})"


def interval(estimate: Estimate | None) -> Cell:
    """A value and, where there is one, its interval."""
    if estimate is None:
        return number(None)
    value = significant(estimate.value)
    if estimate.low is None or estimate.high is None:
        return Cell(value, number=True)
    return Cell(f"{value} [{significant(estimate.low)}, {significant(estimate.high)}]", number=True)


def law_table(outcome: Scaling) -> str:
    """The fitted parameters of each phase, or why there are none."""
    head = [
        Cell("phase"),
        Cell("lambda (ops/s)", number=True),
        Cell("sigma: contention", number=True),
        Cell("kappa: coherence", number=True),
        Cell("peak (servers)", number=True),
        Cell("remark"),
    ]
    rows = [[Cell(phase), *_law_cells(law)] for phase, law in outcome.laws.items()]
    formula = "<p>X(n) = lambda n / (1 + sigma (n &minus; 1) + kappa n (n &minus; 1)), with 95 % intervals.</p>"
    return formula + table(head, rows)


def _law_cells(law: Law | str) -> list[Cell]:
    if isinstance(law, str):
        return [*(number(None) for _ in range(4)), Cell(law)]
    parameters = (law.lambda_ops_per_s, law.sigma, law.kappa)
    return [*map(interval, parameters), number(law.peak_servers), Cell(law.note)]


def run_list(folder: Path) -> str:
    """Every run that was begun, with a link to its own report."""
    items = []
    for store in sorted(runs(folder), key=lambda store: store.run_id):
        place = store.path.relative_to(folder).as_posix()
        manifest = store.manifest()
        status = str(manifest.get("status", "failed"))
        counted = "" if is_complete(store) else " (not counted)"
        reasons = "; ".join(map(str, manifest.get("reasons", [])))
        link = f'<a href="{quote(place)}/{REPORT}">{escape(place)}</a>'
        name = link if (store.path / REPORT).is_file() else escape(place)
        items.append(f"<li>{name}: {escape(status)}{counted}{escape(': ' + reasons if reasons else '')}</li>")
    return f"<ul>{''.join(items)}</ul>"
