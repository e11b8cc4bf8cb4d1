"""Does a run contradict itself? Every count that exists twice is compared, every file is hashed.

`validate` never raises for bad data: what cannot be read becomes an error finding like everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from controller.errors import StrataError
from controller.results.clock import NodeClock
from controller.results.convert import Run, open_run
from controller.results.findings import Finding
from controller.results.machines import check_machines
from controller.results.store import RunStore, count_rows, sha256_of
from controller.results.validate_operations import check_clients, check_counts, check_key_ranges, check_schedules
from controller.results.validate_trace import check_layer_sums, check_traces

#: A bucket this many error bounds long, or shorter, is worth a word.
COMFORTABLE_BOUNDS = 20

Check = Callable[[Run], list[Finding]]


def validate(run_dir: Path) -> list[Finding]:
    """All findings about a joined run, errors first. An empty list is a run without any remark."""
    findings: list[Finding] = []
    try:
        findings += check_files(RunStore.open(run_dir))
    except StrataError as error:
        findings.append(Finding("error", "manifest.json", error.what))
    try:
        run = open_run(run_dir)
    except StrataError as error:
        return [Finding("error", error.node or "run", error.what), *findings]
    checks: tuple[Check, ...] = (
        check_phases,
        check_counts,
        check_key_ranges,
        check_clients,
        check_schedules,
        check_traces,
        check_layer_sums,
        check_clocks,
        lambda run: check_machines(run.store),
    )
    for check in checks:
        try:
            findings += check(run)
        except StrataError as error:
            findings.append(Finding("error", error.node or "run", error.what))
    order = ("error", "warning", "info")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def check_files(store: RunStore) -> list[Finding]:
    """Every file that the manifest lists is there, with its content and rows."""
    findings = []
    for name, entry in store.manifest().get("files", {}).items():
        path = store.path / name
        if not path.is_file():
            findings.append(Finding("error", name, "the file is missing"))
        elif sha256_of(path) != entry.get("sha256"):
            findings.append(Finding("error", name, "the content is not what the manifest's sha256 says"))
        elif "rows" in entry and count_rows(path) != entry["rows"]:
            findings.append(Finding("error", name, f"has not the {entry['rows']} rows of the manifest"))
    return findings


def check_phases(run: Run) -> list[Finding]:
    """Every planned phase happened, ended, and has the results of all its clients."""
    findings = []
    spans = {span.phase: span for span in run.timeline.spans}
    folders = {(part.client, part.phase) for part in run.clients}
    for phase in run.plan["phases"]:
        name = phase["name"]
        if name not in spans:
            findings.append(Finding("error", name, "the phase was planned and never started"))
            continue
        if not spans[name].complete:
            findings.append(Finding("error", name, "the phase was started and never ended"))
        findings += [
            Finding("error", f"{shard['client']}/{name}", "no results of this client")
            for shard in phase["shards"]
            if (shard["client"], name) not in folders
        ]
    for part in run.clients:
        where = f"{part.client}/{part.phase}"
        if part.summary is None:
            findings.append(Finding("error", where, "no summary.json: the load process did not end in order"))
        elif part.summary.get("status") != "complete":
            reason = part.summary.get("reason") or "no reason given"
            findings.append(Finding("error", where, f"status {part.summary.get('status')}: {reason}"))
    return findings


def check_clocks(run: Run) -> list[Finding]:
    """Nodes whose clock is unknown, was set during the run, or is known hardly better than the buckets need."""
    findings = []
    for node, clock in run.clocks.items():
        if clock.error_bound_ns is None:
            text = "the clock was never read: its times are taken as they are"
            findings.append(Finding("warning", node, text))
        elif clock.error_bound_ns * COMFORTABLE_BOUNDS > run.timeline.bucket_ns:
            text = (
                f"the clock's error bound is {clock.error_bound_ns / 1e6:g} ms, "
                f"buckets are {run.timeline.bucket_ns / 1e6:g} ms"
            )
            findings.append(Finding("warning", node, text))
        findings += _jumps(run, node, clock)
    return findings


def _jumps(run: Run, node: str, clock: NodeClock) -> list[Finding]:
    unix_ns, mono_ns = clock.jumps()
    findings = []
    if mono_ns:
        text = (
            f"its monotonic clock and the controller's time moved by {mono_ns / 1e9:g} s against each other (the "
            "machine stood still, or the controller's clock was set): times are off by up to that"
        )
        findings.append(Finding("error", node, text))
    if unix_ns:
        unknown = sorted(part.phase for part in run.clients if part.client == node and part.epoch_ns is None)
        text = f"its clock was set by {unix_ns / 1e9:g} s during the run: " + (
            f"without operation logs, times of operations can be off by that ({', '.join(unknown)})"
            if unknown
            else "times are by the monotonic clock and stay right; a phase about to begin was that much early or late"
        )
        findings.append(Finding("error" if unknown else "warning", node, text))
    return findings
