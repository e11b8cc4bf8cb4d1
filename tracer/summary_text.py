"""The report of tracer.summary for people. Times in microseconds; what is not known is left empty."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

LAYERS = {"vfs_ns": "VFS", "block_ns": "block", "driver_ns": "driver", "device_ns": "device"}
TIMES = {**LAYERS, "total_ns": "total", "return_ns": "return"}
QUANTILES = {"mean_ns": "mean", "p50_ns": "p50", "p90_ns": "p90", "p99_ns": "p99", "p999_ns": "p99.9", "max_ns": "max"}
KIB, MIB = 1 << 10, 1 << 20
#: A group of this comes in its place in time, and is never left out.
SECOND = "second"
#: More than any line has: a number that is cut is worse than a line that a terminal breaks.
WIDTH = 10_000


def text(report: dict[str, Any], top: int) -> str:
    """The whole report, `top` groups of each kind."""
    files = report["files"]
    seconds = _seconds(files)
    missing = _missing_layers(files)
    parts = ["\n".join(line for file in files for line in _file(file, files))]
    chosen = any(_chosen(file["status"]) for file in files)
    parts += [_disk(disk, seconds, missing, chosen) for disk in report["disks"]]
    parts += [_calls(file["status"]["vfs"]) for file in files if file["status"] and file["status"]["vfs"]]
    parts += [_groups(by["by"], by["groups"], top) for by in report["by"] if by["groups"]]
    if report["slowest"]:
        parts.append(_slowest(report["slowest"]))
    return "\n\n".join(parts)


def _older(file: dict[str, Any], files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of these files that are older ones of its rotation: its status is theirs, too."""
    count = file["status"]["rotation"]["older_files"] if file["status"] else 0
    numbers = ((other, re.fullmatch(re.escape(file["file"]) + r"\.(\d+)", other["file"])) for other in files)
    return [other for other, number in numbers if number and int(number[1]) <= count]


def _file(file: dict[str, Any], files: list[dict[str, Any]]) -> Iterable[str]:
    yield from _about(file, files)
    if errors := file["errors"]:
        named = ", ".join(f"{count:,} {error}" for error, count in sorted(errors.items()))
        yield f"  {sum(errors.values()):,} failed ({named}), of which the kernel's log (dmesg) may tell more"


def _about(file: dict[str, Any], files: list[dict[str, Any]]) -> Iterable[str]:
    name, rows, status = _printable(file["file"]), file["rows"], file["status"]
    if not status and any(file in _older(other, files) for other in files):
        yield f"{name}: {rows:,} requests, of an older file"
        return
    if not status:
        yield f"{name}: {rows:,} requests; without {name}.json it is not known what was left out or lost"
        return
    state = "running, or killed" if status["state"] == "running" else status["state"]
    yield f"{name}: {rows:,} requests, Linux {status['kernel']}, {state}; {_left_out(status)}"
    if began := status["started_unix_ns"]:
        yield f"  second 0 is {np.datetime64(began // 1_000_000, 'ms')} UTC, unix time {began // 1_000_000 / 1000:.3f}"
    if chosen := _chosen(status):
        yield f"  chosen by {chosen}: counts, rates, MiB and sums are those of the chosen requests, not of the disk"
    if dropped := status["dropped"]:
        yield f"  {dropped / (dropped + status['emitted']):.1%} were dropped: counts, rates, MiB and sums lack them"
    if status["reason"]:
        yield f"  {status['reason']}"
    if rows + sum(older["rows"] for older in _older(file, files)) != status["emitted"]:
        rotation = status["rotation"]
        why = "older files have the others" if rotation["older_files"] else "it was cut, or is being written"
        if deleted := rotation["deleted_records"]:
            why += f", but for {deleted:,} in files that were deleted (--keep-files)"
        yield f"  {status['emitted']:,} were written: {why}"
    yield from (f"  {limit}" for limit in status["limits"])


def _chosen(status: dict[str, Any] | None) -> str:
    """The options that leave requests of a traced disk out; empty: none does."""
    filters = (status or {}).get("filters") or {}
    options = [
        f"--{option} {_printable(str(value))}"
        for option, name in (("cgroup", "cgroups"), ("pid", "pids"), ("comm", "comms"), ("mode", "modes"))
        for value in filters.get(name, ())
    ]
    if filters.get("min_latency_us"):
        options.append(f"--min-latency {filters['min_latency_us']}")
    if filters.get("sample_every", 1) > 1:
        options.append(f"--sample {filters['sample_every']}")
    return " ".join(options)


def _left_out(status: dict[str, Any]) -> str:
    """Dropped, and what else is no row though it completed, all disks together."""
    counts: dict[str, int] = {"dropped": status["dropped"]}
    for device in status["devices"]:
        for name, count in device["excluded"].items():
            counts[name] = counts.get(name, 0) + count
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "dropped")


def _seconds(files: list[dict[str, Any]]) -> float | None:
    """How long was traced; of files without a status, or with others beside them, how long there were requests."""
    status = files[0]["status"] if len(files) == 1 else None
    if status and status["stopped_mono_ns"] and not status["rotation"]["older_files"]:
        return float(status["stopped_mono_ns"] - status["started_mono_ns"]) / 1e9
    spans = [(file["first_unix_ns"], file["last_unix_ns"]) for file in files if file["rows"]]
    return float(max(last for _, last in spans) - min(first for first, _ in spans)) / 1e9 if spans else None


def _missing_layers(files: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Device and layer -> why it is empty."""
    devices = [device for file in files if file["status"] for device in file["status"]["devices"]]
    return {(d["device"], layer): why for d in devices for layer, why in d["layers_missing"].items()}


def _disk(disk: dict[str, Any], seconds: float | None, missing: dict[tuple[str, str], str], chosen: bool) -> str:
    requests = "chosen requests" if chosen else "requests"
    title = f"{disk['device']} {disk['mode'] or 'of unknown mode'}: {disk['requests']:,} {requests}"
    if seconds:
        title += f", {disk['requests'] / seconds:,.1f} a second, {disk['bytes'] / MIB / seconds:,.1f} MiB a second"
    rows = [
        [
            TIMES[name],
            f"{times['requests']:,}",
            *(_us(times[q]) for q in QUANTILES),
            *(_share(disk[sums], name) for sums in ("sums_ns", "slow_sums_ns")),
        ]
        for name in TIMES
        if (times := disk["times"].get(name))
    ]
    headings = ["us", "requests", *QUANTILES.values(), "of the time", "from p99 on"]
    empty = [f"{layer} is empty: {why}" for (device, layer), why in missing.items() if device == disk["device"]]
    return "\n".join([title, *([_table(headings, rows, 1)] if rows else []), *empty])


def _calls(vfs: dict[str, Any]) -> str:
    """The calls on files, which need not have had a request."""
    rows = []
    for kind, classes in vfs.items():
        calls = [classes[name] for name in ("cached", "with_io")]
        means = [_us(c["sum_ns"] / c["calls"]) if c["calls"] else "" for c in calls]
        hits = "" if classes["hit_ratio"] is None else f"{classes['hit_ratio']:.1%}"
        rows.append(
            [kind, hits, *(text for c, mean in zip(calls, means, strict=True) for text in (f"{c['calls']:,}", mean))]
        )
    headings = ["calls", "hit ratio", "without I/O", "mean", "with I/O", "mean"]
    return "\n".join(["calls on files (us)", _table(headings, rows, 1)])


def _groups(keys: Sequence[str], groups: list[dict[str, Any]], top: int) -> str:
    all_ns = sum(group["sums_ns"].get("total_ns", 0) for group in groups)
    if SECOND in keys:
        groups, top = sorted(groups, key=lambda group: group[SECOND]), len(groups)
    rows = []
    for group in groups[:top]:
        total = group["total"]
        rows.append(
            [
                *("" if group[key] is None else str(group[key]) for key in keys),
                f"{group['requests']:,}",
                f"{group['bytes'] / MIB:,.1f}",
                f"{group['sums_ns']['total_ns'] / all_ns:.1%}" if total and all_ns else "",
                *(_us(total[q]) if total else "" for q in QUANTILES),
                *(_most(group[sums]) for sums in ("sums_ns", "slow_sums_ns")),
            ]
        )
    headings = [*keys, "requests", "MiB", "of the time", *QUANTILES.values(), "most in", "from p99 on"]
    rest = groups[top:]
    more = [f"and {len(rest):,} more, {sum(group['requests'] for group in rest):,} requests"] if rest else []
    return "\n".join([f"by {', '.join(keys)} (us)", _table(headings, rows, len(keys)), *more])


def _slowest(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            f"{row['t_us'] / 1e6:,.3f}",
            row["device"] or "",
            row["mode"] or "",
            f"{row['size_bytes'] / KIB:,.0f}",
            *("" if row[name] is None else _us(row[name]) for name in ("total_ns", *LAYERS)),
            row["origin"] or "",
            "" if row["pid"] is None else str(row["pid"]),
            *(row[name] or "" for name in ("comm", "component", "path")),
        ]
        for row in rows
    ]
    whose = ["origin", "pid", "thread", "component", "path"]
    headings = ["second", "device", "mode", "KiB", "total", *LAYERS.values(), *whose]
    return "\n".join(["the slowest (us)", _table(headings, cells, 0, right=range(3, 9))])


def _us(time_ns: float) -> str:
    return f"{time_ns / 1000:,.1f}"


def _share(sums_ns: dict[str, int], name: str) -> str:
    total = sums_ns.get("total_ns")
    return f"{sums_ns[name] / total:.1%}" if total and name in sums_ns else ""


def _most(sums_ns: dict[str, int]) -> str:
    """The layer with the most of the time, and its share."""
    layers = [name for name in LAYERS if name in sums_ns]
    most = max(layers, key=lambda name: sums_ns[name], default=None)
    return f"{LAYERS[most]} {_share(sums_ns, most)}" if most else ""


def _printable(text: str) -> str:
    """Names may hold anything: a newline would break the table, others mean something to a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _table(headings: Sequence[str], rows: list[list[str]], right_from: int, right: range | None = None) -> str:
    right = right or range(right_from, len(headings))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if index in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))  # plain: brackets in a cell are no markup
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())
