"""Checks of the operations: every place that counts them must give the same number."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from controller.errors import DataError
from controller.results import schema
from controller.results.clients import ClientPhase, histogram_totals
from controller.results.convert import Run
from controller.results.findings import Finding

#: Operations that were due and not begun would have had the longest intended latencies of all: a larger share of them
#: moves the 99.9th percentile. Up to so many may have been due in the last instants of any phase.
MOST_NOT_BEGUN_SHARE = 0.001
FEW_OPERATIONS = 10


def check_counts(run: Run) -> list[Finding]:
    """Plan = summary.json = histogram logs = operation log per client, phase and operation; all = ops.csv."""
    findings: list[Finding] = []
    logged = histogram_totals(run.clients)
    planned = {(s["client"], p["name"]): s.get("planned") for p in run.plan["phases"] for s in p["shards"]}
    per_phase: Counter[tuple[str, str]] = Counter()
    for part in run.clients:
        where = f"{part.client}/{part.phase}"
        histograms = logged.get((part.client, part.phase), Counter())
        for op, count in histograms.items():
            per_phase[(part.phase, op)] += count
        counts = {"the histogram logs": histograms}
        if part.summary is not None:
            counts["summary.json"] = Counter({op: v["count"] for op, v in part.operations.items()})
        if (rows := _operation_log_counts(part)) is not None:
            counts["the operation log"] = rows
        plan = planned.get((part.client, part.phase))
        if plan is None:
            findings.append(Finding("warning", where, "the plan has no number of operations for this client"))
        elif part.summary is not None and part.summary.get("status") == "complete":
            counts["the plan"] = Counter(plan)  # who was cut short says so by its status
        findings += _differences(where, counts)
    return findings + _ops_csv_differences(run, per_phase)


def _differences(where: str, counts: dict[str, Counter[str]]) -> list[Finding]:
    findings = []
    for op in sorted(set().union(*counts.values())):
        numbers = {source: count[op] for source, count in counts.items()}
        if len(set(numbers.values())) > 1:
            text = ", ".join(f"{number} in {source}" for source, number in numbers.items())
            findings.append(Finding("error", where, f"{op} operations do not agree: {text}"))
    return findings


def _operation_log_counts(part: ClientPhase) -> Counter[str] | None:
    path = part.folder / "ops.parquet"
    if not path.is_file():
        return None
    try:
        counted = pq.read_table(path, columns=["op"])["op"].value_counts().to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return Counter({entry["values"]: entry["counts"] for entry in counted})


def _ops_csv_differences(run: Run, expected: Counter[tuple[str, str]]) -> list[Finding]:
    path = run.store.path / schema.OPS.path
    if not path.is_file():
        return [Finding("error", schema.OPS.path, "the file is missing: the run was not joined")]
    try:
        table = pa_csv.read_csv(path)
        grouped = table.group_by(["phase", "op"]).aggregate([("count", "sum")]).to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    found = Counter({(row["phase"], row["op"]): row["count_sum"] for row in grouped})
    return [
        Finding(
            "error",
            schema.OPS.path,
            f"{phase} {op}: {found[phase, op]} operations, not {expected[phase, op]}",
        )
        for phase, op in sorted(set(found) | set(expected))
        if found[phase, op] != expected[phase, op]
    ]


def check_clients(run: Run) -> list[Finding]:
    """One remark about all load processes that say of themselves that they may have distorted what they measured."""
    said = {
        f"{part.client}/{part.phase}": part.summary["client"]["warnings"]
        for part in run.clients
        if part.summary is not None and (part.summary.get("client") or {}).get("warnings")
    }
    if not said:
        return []
    where, warnings = next(iter(said.items()))
    text = (
        f"in {len(said)} of {len(run.clients)} phases of clients the client itself may be part of the result, "
        f"here: {'; '.join(warnings)} (all are in the clients' summary.json)"
    )
    return [Finding("warning", where, text)]


def check_schedules(run: Run) -> list[Finding]:
    """Open-loop phases that ended while many operations were overdue: a stall at their end is missing in the result."""
    return [finding for phase in run.plan["phases"] if (finding := _overdue(run, phase["name"])) is not None]


def _overdue(run: Run, phase: str) -> Finding | None:
    not_begun: dict[str, int] = {}
    begun = 0
    for part in run.clients:
        missing = ((part.summary or {}).get("client") or {}).get("not_begun")
        if part.phase == phase and missing is not None:
            not_begun[part.client] = missing
            begun += sum(counts["count"] for counts in part.operations.values())
    total = sum(not_begun.values())
    if total <= FEW_OPERATIONS or total <= MOST_NOT_BEGUN_SHARE * (begun + total):
        return None
    where = ", ".join(f"{client}: {count}" for client, count in sorted(not_begun.items()) if count)
    text = (
        f"{total} of {begun + total} scheduled operations ({100 * total / (begun + total):.1f} %) were due and had not "
        f"begun when the phase ended ({where}): the database was behind then, and no intended latency contains the "
        "wait of these operations, so the highest ones are too low"
    )
    return Finding("warning", phase, text)


def check_key_ranges(run: Run) -> list[Finding]:
    """Planned and reported key ranges of a load phase are disjoint and together all its records."""
    findings: list[Finding] = []
    loaded = {(part.client, part.phase): part.summary for part in run.clients}
    for phase in run.plan["phases"]:
        if phase.get("kind") != "load":
            continue
        planned = [(s["key_start"], s["key_end"]) for s in phase["shards"]]
        findings += _range_findings(phase["name"], "the plan", planned, phase["record_count"])
        summaries = [loaded.get((s["client"], phase["name"])) for s in phase["shards"]]
        reported = [(s.get("key_start"), s.get("key_end")) for s in summaries if s is not None]
        if len(reported) == len(planned):
            findings += _range_findings(phase["name"], "the clients", reported, phase["record_count"])
    return findings


def _range_findings(phase: str, source: str, ranges: list[tuple[Any, Any]], records: int) -> list[Finding]:
    if not all(type(bound) is int for pair in ranges for bound in pair):
        return [Finding("error", phase, f"{source} do not say which keys were loaded: {ranges}")]
    ordered = sorted(ranges)
    edges = [(0, 0), *ordered, (records, records)]
    gaps = [f"{before[1]}..{after[0]}" for before, after in pairwise(edges) if before[1] < after[0]]
    overlaps = [f"{after[0]}..{before[1]}" for before, after in pairwise(edges) if before[1] > after[0]]
    findings = []
    if gaps:
        findings.append(Finding("error", phase, f"keys missing in {source}: {', '.join(gaps)}"))
    if overlaps:
        findings.append(Finding("error", phase, f"keys more than once in {source}: {', '.join(overlaps)}"))
    return findings
