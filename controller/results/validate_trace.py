"""Checks of the traces: rows, the tracer's own counters and the kernel's diskstats tell the same story."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from controller.errors import DataError
from controller.results import shapes
from controller.results.block_io import database_nodes, traced_files
from controller.results.convert import Run
from controller.results.engine import engine, parquet_rows
from controller.results.findings import Finding
from controller.results.schema import LAYERS
from controller.results.shapes import misfit
from controller.results.store import read_json

TRACE_VERSION = 1
_UNSEEN = ("untracked", "completion_not_seen")
_COUNTED = ("reads", "writes", "discards", "flushes")


def check_traces(run: Run) -> list[Finding]:
    """Every node that should be traced: traced and complete, or the reason why not."""
    findings: list[Finding] = []
    states = run.store.manifest().get("tracing", {})
    for node in database_nodes(run):
        folder = run.store.node_dir(node)
        state = states.get(node, {})
        if state.get("state") in ("unavailable", "off"):
            reason = state.get("reason") or "no reason given"
            findings.append(Finding("info", node, f"tracing {state['state']}: {reason}"))
        elif not (folder / "trace.json").is_file() or not (folder / "io.parquet").is_file():
            findings.append(Finding("error", node, "the node should have been traced and has no I/O rows"))
        else:
            trace = read_trace(run, node)
            findings += _restarted(node, folder / "database_pids.json")
            findings += _check_node(node, trace, rows_by_device(run, node))
            findings += _failed_requests(run, node)
    return findings


def _restarted(node: str, path: Path) -> list[Finding]:
    """Processes of the database that began after its tracer, which by process knows those of its start only."""
    if not path.is_file():
        return []
    pids = read_json(path)
    return [
        Finding("error", node, f"{name} was started again or ended during the run: what it did since is not traced")
        for name, pid in sorted(pids.get("traced", {}).items())
        if pids.get("at_end", {}).get(name) != pid
    ]


def read_trace(run: Run, node: str) -> dict[str, Any]:
    """One node's trace.json, its version checked and its members known to be what is relied on."""
    path = run.store.node_dir(node) / "trace.json"
    trace = read_json(path)
    if trace.get("schema_version") != TRACE_VERSION:
        raise DataError(f"{path} has schema_version {trace.get('schema_version')!r}, not {TRACE_VERSION}", node=node)
    if where := misfit(trace, shapes.TRACE):
        raise DataError(f"{path} has no usable `{where}`", node=node)
    return trace


def _check_node(node: str, trace: dict[str, Any], rows: dict[str, int]) -> list[Finding]:
    findings: list[Finding] = []
    if trace.get("state") != "stopped":
        reason = trace.get("reason") or "no reason given"
        text = f"the tracer did not stop in order (state {trace.get('state')}: {reason})"
        findings.append(Finding("error", node, text))
    findings += _tracers_own_doubts(node, trace)
    known = {device["device"] for device in trace["devices"]}
    if not known:
        text = "trace.json lists no disk: that there was no I/O cannot be held against the kernel's counters"
        findings.append(Finding("warning", node, text))
    for name in sorted(set(rows) - known):
        findings.append(Finding("error", f"{node}/{name}", f"{rows[name]} I/O rows, and trace.json lacks the device"))
    for device in trace["devices"]:
        where = f"{node}/{device['device']}"
        findings += _check_device(where, device, rows.get(device["device"], 0))
        findings += _throttled(where, device, "throttled" in trace.get("probes", []))
    return findings


def _tracers_own_doubts(node: str, trace: dict[str, Any]) -> list[Finding]:
    """What the tracer says of itself (docs/interfaces.md); a status without a member has nothing to say of it."""
    findings = [Finding("info", node, f"the tracer's sight is limited: {limit}") for limit in trace.get("limits", [])]
    if negative := trace.get("layers_negative"):
        text = f"{negative} I/O rows had a layer that ended before it began: the tracer has a fault"
        findings.append(Finding("error", node, text))
    if unnamed := trace.get("names_dropped"):
        findings.append(Finding("warning", node, f"{unnamed} names of files were lost: their rows have no file"))
    returns = trace.get("returns", {})
    if lost := returns.get("dropped"):
        text = f"{lost} of {returns.get('returned')} returns of calls were lost: their rows have no return_ns"
        findings.append(Finding("warning", node, text))
    if missed := {name: count for name, count in trace.get("program_misses", {}).items() if count}:
        named = ", ".join(f"{name} {count} times" for name, count in sorted(missed.items()))
        findings.append(Finding("warning", node, f"the kernel left programs of the tracer out: {named}"))
    return findings


def _failed_requests(run: Run, node: str) -> list[Finding]:
    rows = _io_columns(run, node, "device", "mode", "error")
    if "error" not in rows.column_names:  # made by a strata that did not tell
        return []
    counted = rows.filter(rows["error"].is_valid()).group_by(["device", "mode", "error"]).aggregate([([], "count_all")])
    by_device: dict[str, list[str]] = {}
    for row in counted.sort_by([(name, "ascending") for name in ("device", "mode", "error")]).to_pylist():
        by_device.setdefault(row["device"], []).append(f"{row['count_all']} {row['mode']} ({row['error']})")
    return [
        Finding("warning", f"{node}/{device}", f"requests failed: {', '.join(failed)}; see this node's kernel log")
        for device, failed in by_device.items()
    ]


def _throttled(where: str, device: dict[str, Any], timed: bool) -> list[Finding]:
    if not device.get("throttled"):
        return []
    wait = "which is time of their block layer" if timed else "which is in none of their layers: this kernel hides it"
    text = f"{device['throttled']} of {device['emitted']} requests waited for a limit of their cgroup (io.max), {wait}"
    return [Finding("warning", where, text)]


def _check_device(where: str, device: dict[str, Any], rows: int) -> list[Finding]:
    findings = []
    completions, dropped = device["completions"], device["dropped"]
    if rows + dropped != completions:
        text = f"{rows} rows + {dropped} dropped are not {completions} completions"
        findings.append(Finding("error", where, text))
    if dropped:
        text = f"{dropped} of {completions} I/O events were lost: counts are complete, times are not"
        findings.append(Finding("warning", where, text))
    if unseen := unseen_requests(device):
        text = f"{unseen} of {completions + unseen} requests have no row: the kernel ran no probe at their end"
        findings.append(Finding("warning", where, text))
    findings += [
        Finding("info", where, f"layer {layer} is missing: {why}")
        for layer, why in device.get("layers_missing", {}).items()
    ]
    growth = diskstats_growth(device)
    if growth is None or not device.get("diskstats_settled"):
        fell_between = "requests fell between reading them and switching the trace"
        why = "the disk had gone, or the tracer has not read them" if growth is None else fell_between
        return [*findings, Finding("info", where, f"diskstats cannot be compared: {why}")]
    excluded = device.get("excluded") or {}
    if completions + sum(excluded.values()) != growth:
        named = ", ".join(f"{count} {name}" for name, count in excluded.items()) or "none"
        text = f"diskstats counted {growth} requests, the trace {completions} (excluded: {named})"
        findings.append(Finding("error", where, text))
    return findings


def unseen_requests(device: dict[str, Any]) -> int:
    """Requests whose completion the kernel counted and showed to no probe (docs/tracer-limits.md)."""
    excluded: dict[str, int] = device.get("excluded") or {}
    return sum(excluded.get(name, 0) for name in _UNSEEN)


def diskstats_growth(device: dict[str, Any]) -> int | None:
    """Requests that /proc/diskstats counted for a device while it was traced; None when it was not read."""
    before, after = device.get("diskstats_before"), device.get("diskstats_after")
    if not before or not after:
        return None
    return int(sum(after[name] - before[name] for name in _COUNTED if name in before and name in after))


def rows_by_device(run: Run, node: str) -> dict[str, int]:
    """I/O rows of one node per device; empty when it has none."""
    if not (run.store.node_dir(node) / "io.parquet").is_file():
        return {}
    devices = _io_columns(run, node, "device")["device"]
    return {entry["values"]: entry["counts"] for entry in devices.value_counts().to_pylist()}


def _io_columns(run: Run, node: str, *names: str) -> pa.Table:
    """These columns of a node's I/O rows, all text, without those that the file has not."""
    path = run.store.node_dir(node) / "io.parquet"
    try:
        known = pq.read_schema(path).names
        rows = pq.read_table(path, columns=[name for name in names if name in known])
        return rows.cast(pa.schema([(name, pa.string()) for name in rows.column_names]))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}", node=node) from error


def check_layer_sums(run: Run) -> list[Finding]:
    """In every I/O row that has a layer at all, the layers add up to the total exactly.

    The decoder computes the total so: this finds a file that was changed or damaged, not a fault of the tracer.
    """
    with engine() as connection:
        return [
            finding for node, path in traced_files(run).items() for finding in _layer_findings(connection, node, path)
        ]


def _layer_findings(connection: Any, node: str, path: Path) -> list[Finding]:
    rows = parquet_rows(connection, [path])
    layers = [rows[f"{layer}_ns"] for layer in LAYERS]
    there = ibis.or_(*(layer.notnull() for layer in layers))
    total = sum((layer.coalesce(0) for layer in layers[1:]), layers[0].coalesce(0))
    counted = rows.agg(
        wrong=(there & (total != rows.total_ns.coalesce(-1))).sum().coalesce(0),
        negative=ibis.or_(*(layer < 0 for layer in layers)).sum().coalesce(0),
    )
    (counts,) = connection.to_pyarrow(counted).to_pylist()
    texts = {
        "wrong": "layers do not add up to total_ns in {} I/O rows",
        "negative": "{} I/O rows have a negative layer",
    }
    return [Finding("error", node, text.format(counts[name])) for name, text in texts.items() if counts[name]]
