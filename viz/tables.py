"""The report's tables: headline numbers, what the run ran on, and the trace's accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.results.schema import ALL_OPERATIONS
from controller.results.validate_trace import diskstats_growth
from viz.page import UNKNOWN, Cell, number, table
from viz.run_data import RunData

#: Beginnings of names that say nothing about a node: of the document itself, and a tracing mode for each of the many
#: loop devices that no run uses.
_NO_FACTS = ("schema_version", "node", "tracing.tracing_modes")
_LATENCIES = {"mean": "mean_us", "p50": "p50_us", "p99": "p99_us", "p99.9": "p999_us", "max": "max_us"}
#: Of an open loop: with the time that an operation waited for its client, which the others leave out.
_FROM_SCHEDULE = {"p50 from schedule": "intended_p50_us", "p99 from schedule": "intended_p99_us"}


def headline(run: RunData) -> str:
    """Throughput, errors and latencies per phase and operation."""
    values: dict[tuple[str, str, str], float] = dict(
        zip(
            zip(run.summary["phase"], run.summary["op"], run.summary["metric"], strict=True),
            run.summary["value"].astype(float),
            strict=True,
        )
    )
    phases = [phase for phase in dict.fromkeys(run.summary["phase"]) if (phase, ALL_OPERATIONS, "count") in values]
    if not phases:
        return '<p class="absent">No client has reported an operation.</p>'
    scheduled = run.summary["metric"].isin(list(_FROM_SCHEDULE.values())).any()
    latencies = _LATENCIES | (_FROM_SCHEDULE if scheduled else {})
    head = [Cell("phase"), Cell("operation")] + [
        Cell(text, number=True)
        for text in ("operations", "errors", "throughput (ops/s)", *(f"{name} (ms)" for name in latencies))
    ]
    rows: list[list[Cell]] = []
    totals: set[int] = set()
    for phase in phases:
        ops = dict.fromkeys(op for name, op, metric in values if name == phase and metric == "count")
        for op in ops:
            if op == ALL_OPERATIONS:
                totals.add(len(rows))
            counts = [values.get((phase, op, m)) for m in ("count", "errors", "throughput_ops_per_s")]
            times = [values.get((phase, op, metric)) for metric in latencies.values()]
            label = phase if op == ALL_OPERATIONS else ""
            rows.append(
                [
                    Cell(label),
                    Cell(op),
                    *map(number, counts),
                    *(number(t / 1000 if t is not None else None) for t in times),
                ]
            )
    return table(head, rows, frozenset(totals))


def system(run: RunData) -> str:
    """Versions, durability and settings, then hardware per node."""
    manifest = run.manifest
    database = run.plan.get("database", {})
    settings = {**database.get("settings", {}), **manifest.get("settings", {})}
    given = {
        "version": {name: _common(value) for name, value in manifest.get("versions", {}).items()},
        "git revision": manifest.get("git_revision"),
        "durability": manifest.get("durability", {}),
        f"{database.get('name', 'database')} setting": settings,
        "tag": manifest.get("tags", {}),
    }
    rows = [[Cell(kind), Cell(name), Cell(value)] for kind, content in given.items() for name, value in _flat(content)]
    text = table([Cell("kind"), Cell("name"), Cell("value")], rows)
    return text + "<h3>Hardware and operating system</h3>" + _facts(run)


def _common(value: Any) -> Any:
    """The one value that all nodes share, or the values per node."""
    if isinstance(value, dict) and value and all(entry == next(iter(value.values())) for entry in value.values()):
        return f"{next(iter(value.values()))} (all nodes)" if len(value) > 1 else next(iter(value.values()))
    return value


def _facts(run: RunData) -> str:
    """Facts that all nodes share in one table, the others per node in a second one."""
    if not run.facts:
        return '<p class="absent">No node has reported its hardware.</p>'
    flat = {node: dict(_flat(facts)) for node, facts in run.facts.items()}
    every = dict.fromkeys(name for facts in flat.values() for name in facts)
    names = [name for name in every if not name.startswith(_NO_FACTS)]
    values = {name: [facts.get(name, UNKNOWN) for facts in flat.values()] for name in names}
    shared = [[Cell(name), Cell(texts[0])] for name, texts in values.items() if len(set(texts)) == 1]
    differing = [[Cell(name), *map(Cell, texts)] for name, texts in values.items() if len(set(texts)) > 1]
    parts = [table([Cell("fact"), Cell("all nodes")], shared)] if shared else []
    parts += [table([Cell("fact"), *map(Cell, flat)], differing)] if differing else []
    return "".join(parts)


def accounts(run: RunData) -> str:
    """Per node and device: rows, lost events, completions and what the kernel counted."""
    numbers = ("rows", "dropped", "completions", "diskstats", "excluded")
    head = [
        Cell("node"),
        Cell("device"),
        *(Cell(n, number=True) for n in numbers),
        Cell("excluded, by name"),
        Cell("not visible"),
    ]
    rows = []
    for node in run.nodes:
        if node not in run.traces:
            rows.append([Cell(node), Cell(UNKNOWN), *[number(None)] * 5, Cell(""), Cell(run.missing_trace(node))])
            continue
        devices = run.traces[node]["devices"]
        if not devices:
            rows.append([Cell(node), Cell(UNKNOWN), *[number(None)] * 5, Cell(""), Cell("no disk was traced")])
        for device in devices:
            found = run.io_rows.get(node, {}).get(device["device"], 0)
            rows.append([Cell(node), *_account(device, found)])
    if not rows:
        return '<p class="absent">The plan traces no node.</p>'
    note = (
        "Rows + dropped = completions, and completions + excluded = diskstats (growth of the kernel's own "
        "counters while tracing): checked on every run."
    )
    return f'<p class="caption">{note}</p>' + table(head, rows)


def _account(device: dict[str, Any], rows: int) -> list[Cell]:
    excluded = device.get("excluded") or {}
    named = ", ".join(f"{count} {name}" for name, count in excluded.items() if count)
    missing = ", ".join(device.get("layers_missing", {}))
    growth = diskstats_growth(device)
    settled = "" if device.get("diskstats_settled") else " (diskstats not settled)"
    return [
        Cell(device["device"]),
        *map(
            number,
            (rows, device["dropped"], device["completions"], growth, sum(excluded.values())),
        ),
        Cell((named or "none") + settled),
        Cell(missing or UNKNOWN),
    ]


def calls(run: RunData) -> str:
    """Per node and kind of call on regular files: how many needed no I/O, and how long both kinds took."""
    head = [Cell("node"), Cell("calls")] + [
        Cell(text, number=True)
        for text in ("without I/O", "with I/O", "share without", "mean without (µs)", "mean with (µs)")
    ]
    rows = [
        [Cell(node), Cell(kind), *_calls_of(found)]
        for node, trace in run.traces.items()
        for kind, found in trace.get("vfs", {}).items()
    ]
    if not rows:
        return '<p class="absent">Calls on files were not counted.</p>'
    note = (
        "Calls of all processes of the node's machine on regular files, counted in the kernel while the trace was on. "
        "With I/O: they sent a request to this node's traced disk; a write that only makes pages dirty does not, "
        "nor do calls of other nodes that share the machine."
    )
    return f'<p class="caption">{note}</p>' + table(head, rows)


def _calls_of(found: dict[str, Any]) -> list[Cell]:
    cells = [found["cached"], found["with_io"]]
    means = [cell["sum_ns"] / cell["calls"] / 1000 if cell["calls"] else None for cell in cells]
    return list(map(number, [*(cell["calls"] for cell in cells), found["hit_ratio"], *means]))


def _flat(content: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of nested objects as (dotted name, text)."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(content, list) and any(isinstance(entry, dict) for entry in content):
        for index, entry in enumerate(content):
            yield from _flat(entry, f"{prefix}.{index}")
    elif content is not None:
        if prefix.endswith("_bytes") and type(content) is int and content >= 1 << 20:
            yield prefix, f"{content:,} ({content / (1 << 30):,.1f} GiB)"
        else:
            yield prefix, ", ".join(map(str, content)) if isinstance(content, list) else str(content)
