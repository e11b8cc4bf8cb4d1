"""What the command line shows: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from controller.doctor import Finding
from controller.errors import DataError, StrataError
from controller.results import schema
from controller.results.intervals import Estimate
from controller.results.store import RunStore
from controller.results.usl import Law
from controller.runner import Verdict
from controller.scaling import SeriesVerdict

# Columns of the summary screen: metric of summary.csv -> heading with its unit.
_METRICS = {
    "count": "count",
    "throughput_ops_per_s": "ops/s",
    "mean_us": "mean (ms)",
    "p50_us": "p50 (ms)",
    "p99_us": "p99 (ms)",
    "p999_us": "p99.9 (ms)",
    "errors": "errors",
}
#: Of the forms: CSV without its header, for what stands below other rows.
ROWS = "rows"
#: Of an open loop: with the time that an operation waited for its client.
_FROM_SCHEDULE = {"intended_p99_us": "p99 from schedule (ms)"}


def verdict(result: Verdict, form: str) -> str:
    """The last screen of a run."""
    if form != "table":
        return run(result.store, form)
    manifest = result.store.manifest()
    lines = [f"run {result.store.run_id}: {_status(manifest)}"]
    lines += [f"  because {reason}" for reason in manifest.get("reasons", [])]
    lines += [_summary_table(result.store), *_tracing_lines(result.store)]
    lines += [f"warning: {warning}" for warning in manifest.get("warnings", [])]
    lines.append(f"results: {result.store.path}")
    report = result.store.path / schema.REPORT
    if report.exists():
        lines.append(f"report:  {report}")
    program = sys.argv[0] if sys.argv[0].endswith("strata") else "strata"
    lines.append(f"next:    {program} show {result.store.path}, or open the report")
    return "\n".join(line for line in lines if line)


def scaling(result: SeriesVerdict, form: str) -> str:
    """The last screen of a scaling experiment."""
    tables = {table.path: _rows(result.folder / table.path) for table in (schema.SCALING, schema.LAW)}
    if form == "csv":
        return _csv(tables[schema.SCALING.path], schema.SCALING.names)
    if form == "json":
        typed = {Path(table.path).stem: _typed(tables[table.path], table) for table in (schema.SCALING, schema.LAW)}
        return json.dumps({"folder": str(result.folder), **typed}, indent=1)
    rows = [
        [
            step.phase,
            str(step.servers),
            str(step.runs),
            *(_estimate(e) for e in (step.throughput_ops_per_s, step.speedup, step.efficiency)),
            f"{step.place.node} {step.place.layer} {step.place.share:.0%}" if step.place else "",
        ]
        for step in result.outcome.steps
    ]
    headings = ["phase", "servers", "runs", "ops/s", "speed-up", "efficiency", "most I/O time in"]
    lines = [_table(headings, rows, right_from=1) if rows else "no run is complete"]
    if len({step.servers for step in result.outcome.steps}) > 1:
        lines += [f"{phase}: {_law(law)}" for phase, law in result.outcome.laws.items()]
    report = result.folder / schema.REPORT
    return "\n".join([*lines, f"results: {result.folder}", *([f"report:  {report}"] if report.exists() else [])])


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:,.4g}"
    return f"{estimate.value:,.4g} [{estimate.low:,.4g}, {estimate.high:,.4g}]"


def _law(law: Law | str) -> str:
    if isinstance(law, str):
        return f"no law: {law}"
    names = ("lambda_ops_per_s", "sigma", "kappa")
    text = ", ".join(f"{name.removesuffix('_ops_per_s')} {_estimate(getattr(law, name))}" for name in names)
    return f"{text}; {law.note}" if law.note else text


def run(store: RunStore, form: str) -> str:
    """A run's summary."""
    rows = _summary(store)
    if form == "csv":
        return _csv(rows, schema.SUMMARY.names)
    if form == ROWS:
        return _csv(rows, schema.SUMMARY.names).partition("\n")[2]
    manifest = store.manifest()
    if form == "json":
        return json.dumps({"manifest": manifest, "summary": _typed(rows, schema.SUMMARY)}, indent=1)
    head = f"run {store.run_id} ({_experiment(store, manifest)}): {_status(manifest)}"
    reasons = [f"  because {reason}" for reason in manifest.get("reasons", [])]
    lines = [head, *reasons, _summary_table(store), *_tracing_lines(store), f"results: {store.path}"]
    return "\n".join(line for line in lines if line)


def run_list(stores: list[RunStore], form: str) -> str:
    """All runs, oldest first."""
    rows = []
    for store in stores:
        try:
            manifest = store.manifest()
        except StrataError as error:
            manifest = {"status": f"unreadable: {error.what}"}
        tags = " ".join(f"{key}={value}" for key, value in manifest.get("tags", {}).items())
        experiment = _experiment(store, manifest)
        rows.append({"run": store.run_id, "experiment": experiment, "status": _status(manifest), "tags": tags})
    if form == "json":
        return json.dumps(rows, indent=1)
    columns = ["run", "experiment", "status", "tags"]
    return _csv(rows, columns) if form == "csv" else _table(columns, [[*row.values()] for row in rows])


def _experiment(store: RunStore, manifest: dict[str, Any]) -> str:
    return str(manifest.get("experiment") or store.path.parent.name)


def _status(manifest: dict[str, Any]) -> str:
    return str(manifest.get("status") or "of unknown status")


def doctor(findings: list[Finding]) -> str:
    """What the machine can do."""
    rows = []
    for finding in findings:
        state = "ok" if finding.ok else "MISSING" if finding.needed else "limited"
        rows.append([finding.name, state, finding.detail, "" if finding.ok else finding.hint])
    return _table(["", "", "found", "what to do"], rows)


def _summary(store: RunStore) -> list[dict[str, str]]:
    return _rows(store.joined("summary.csv"))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}", hint="make it again: `strata join RUN`") from error


def _summary_table(store: RunStore) -> str:
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in _summary(store):
        if ":" not in row["op"]:  # `io:...` rows are the nodes' I/O
            cells.setdefault((row["phase"], row["op"]), {})[row["metric"]] = row["value"]
    scheduled = any(values.get(metric) for values in cells.values() for metric in _FROM_SCHEDULE)
    metrics = _METRICS | (_FROM_SCHEDULE if scheduled else {})
    rows = [
        [phase, op, *(_cell(metric, values.get(metric, "")) for metric in metrics)]
        for (phase, op), values in cells.items()
        if phase
    ]
    return _table(["phase", "operation", *metrics.values()], rows, right_from=2) if rows else ""


def _cell(metric: str, value: str) -> str:
    if not value:
        return ""
    number = float(value)
    return f"{number / 1000:,.2f}" if metric.endswith("_us") else f"{number:,.0f}"


def _tracing_lines(store: RunStore) -> list[str]:
    """Per node: how many requests were traced and lost, and which layers are missing, with the reason."""
    lines = []
    missing: dict[str, list[str]] = {}
    for node, trace in sorted(store.manifest().get("tracing", {}).items()):
        if trace.get("state") != "traced":
            missing.setdefault(f"no layer is traced: {trace.get('reason') or 'no reason given'}", []).append(node)
            continue
        if "completions" in trace:
            unseen = f", {trace['unseen']:,} more that no probe saw" if trace.get("unseen") else ""
            counts = f"{trace['emitted']:,} recorded, {trace['dropped']:,} lost{unseen}"
            lines.append(f"I/O of {node}: {trace['completions']:,} requests, {counts}")
        for layer, why in trace.get("layers_missing", {}).items():
            missing.setdefault(f"layer {layer} is missing: {why}", []).append(node)
    return lines + [f"{', '.join(nodes)}: {text}" for text, nodes in missing.items()]


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def _typed(rows: list[dict[str, str]], table: schema.Table) -> list[dict[str, Any]]:
    """Rows for JSON: numbers are numbers there, and what is unknown is null."""
    readers: dict[str, Callable[[str], Any]] = {"int64": int, "double": float}
    read = {column.name: readers.get(column.kind, str) for column in table.columns}
    try:
        return [{name: read[name](text) if text else None for name, text in row.items()} for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{table.path} is damaged: {error}", hint="make it again: `strata join RUN`") from error


def _table(headings: list[str], rows: list[list[str]], right_from: int = 99) -> str:
    """On a narrow terminal headings and sentences break. Names and numbers never do: then its lines are too long."""
    terminal = Console()
    console = Console(file=io.StringIO(), width=terminal.width if terminal.is_terminal else 140, color_system=None)
    unbounded = console.options.update(width=10_000)
    table = _layout(headings, rows, right_from, padding=1)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        table = _layout([heading.replace(" ", "\n") for heading in headings], rows, right_from, padding=0)
        console.width = max(console.width, Measurement.get(console, unbounded, table).minimum)
    with console.capture() as shown:
        console.print(table)
    return "\n".join(line.rstrip() for line in shown.get().splitlines())


def _layout(headings: list[str], rows: list[list[str]], right_from: int, padding: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, padding), show_edge=padding > 0)
    for index, heading in enumerate(headings):
        sentences = any(" " in row[index] for row in rows)
        justify: Literal["left", "right"] = "right" if index >= right_from else "left"
        table.add_column(Text(heading), justify=justify, no_wrap=not sentences)
    for row in rows:
        table.add_row(*map(Text, row))  # plain: brackets in a cell are no markup
    return table
