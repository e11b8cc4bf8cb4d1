"""Holds what a guest wrote down against itself: the trace, fio's counts, and the kernel's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracer import decode
from tracer.guests import expectations

LAYERS = ("vfs_ns", "block_ns", "driver_ns", "device_ns")
SECTOR_BYTES = 512
# Row mode -> the kernel's counters of requests and sectors. It does not say how much a flush moves.
COUNTERS = {
    "R": ("reads", "read_sectors"),
    "W": ("writes", "written_sectors"),
    "D": ("discards", "discarded_sectors"),
    "F": ("flushes", None),
}


def judge(variant: str, workload: str, disk: str, out: Path) -> list[str]:
    """Returns what is wrong with one workload on one disk; an empty list means that all is exact."""
    folder = out / workload
    try:
        tracer = json.loads((folder / "tracer.json").read_text())["error"]
        seen = json.loads((folder / f"{disk}.json").read_text())
        status = json.loads((folder / "trace.bin.json").read_text())
        rows = decode.read_table(folder / "trace.bin")
    except (OSError, ValueError) as error:
        return [f"no evidence: {error}"]
    if tracer or seen["error"]:
        return [f"tracer: {tracer or 'ok'}, workload: {seen['error'] or 'ok'}"]
    devices = [device for device in status["devices"] if device["device"] == disk]
    if len(devices) != 1:
        return [f"{len(devices)} entries of {disk} in trace.bin.json"]
    rows = rows.filter(pc.equal(rows["device"], disk))
    return [
        *_mode(variant, disk, devices[0], rows),
        *_accounts(devices[0], rows),
        *_kernel_counts(devices[0], seen, rows),
        *_fio_counts(workload, seen, rows),
        *_lengths(status, rows),
        *_layers(variant, workload, disk, rows),
    ]


def _mode(variant: str, disk: str, device: dict[str, Any], rows: pa.Table) -> Iterator[str]:
    expected = expectations.mode(variant, disk)
    if device["tracing_mode"] != expected:
        yield f"mode {device['tracing_mode']}, expected {expected}"
    modes = set(rows["tracing_mode"].to_pylist()) - {expected, "block"}
    if modes:
        yield f"rows of mode {modes}, expected {expected}"


def _accounts(device: dict[str, Any], rows: pa.Table) -> Iterator[str]:
    """The tracer's own sums, and nothing left out: the disks belonged to the workload alone."""
    if device["emitted"] + device["dropped"] != device["completions"]:
        yield f"emitted {device['emitted']} + dropped {device['dropped']} != completions {device['completions']}"
    if device["dropped"]:
        yield f"{device['dropped']} records dropped"
    if len(rows) != device["emitted"]:
        yield f"{len(rows)} rows, {device['emitted']} emitted"
    if not device["diskstats_settled"]:
        yield "diskstats not settled"
    excluded = {name: number for name, number in device["excluded"].items() if number}
    if excluded:
        yield f"excluded: {excluded}"


def _kernel_counts(device: dict[str, Any], seen: dict[str, Any], rows: pa.Table) -> Iterator[str]:
    """Requests and bytes equal what /proc/diskstats grew by, as read by the tracer and as read around the workload."""
    readings = {
        "read by the tracer": (device["diskstats_before"], device["diskstats_after"]),
        "read around the workload": (seen["before"], seen["after"]),
    }
    for mode, (requests, sectors) in COUNTERS.items():
        of_mode = rows.filter(pc.equal(rows["mode"], mode))
        size_bytes = pc.sum(of_mode["size_bytes"]).as_py() or 0
        for source, (before, after) in readings.items():
            counted = after[requests] - before[requests]
            if counted != len(of_mode):
                yield f"{len(of_mode)} rows of mode {mode}, diskstats ({source}): {counted}"
            if sectors and (after[sectors] - before[sectors]) * SECTOR_BYTES != size_bytes:
                moved = (after[sectors] - before[sectors]) * SECTOR_BYTES
                yield f"{size_bytes} bytes of mode {mode}, diskstats ({source}): {moved}"


def _fio_counts(workload: str, seen: dict[str, Any], rows: pa.Table) -> Iterator[str]:
    """Each of fio's requests is one row, but where they are split or gathered in the page cache; then bytes count."""
    inode = seen["inode"]
    own = rows.filter(pc.equal(rows["inode"], inode) if inode else pc.equal(rows["comm"], "fio"))
    if not sum(job[direction]["total_ios"] for job in seen["fio"] for direction in ("read", "write")):
        yield "fio has done nothing"
    for mode, direction in (("R", "read"), ("W", "write")):
        of_mode = own.filter(pc.equal(own["mode"], mode))
        requests = sum(job[direction]["total_ios"] for job in seen["fio"])
        size_bytes = sum(job[direction]["io_bytes"] for job in seen["fio"])
        traced_bytes = pc.sum(of_mode["size_bytes"]).as_py() or 0
        if traced_bytes != size_bytes:
            yield f"fio {direction}: {size_bytes} bytes, its rows: {traced_bytes}"
        if workload == "split":
            if len(of_mode) < 2 * requests:
                yield f"fio {direction}: {requests} blocks, {len(of_mode)} rows; they were not all split"
        elif len(of_mode) != requests and not (inode and mode == "W"):
            yield f"fio {direction}: {requests} requests, its rows: {len(of_mode)}"


def _lengths(status: dict[str, Any], rows: pa.Table) -> Iterator[str]:
    """Durations have no sign in the file: were one negative, it would be counted, and as long as one can be."""
    if status["layers_negative"]:
        yield f"{status['layers_negative']} rows with an end before its beginning"
    longest = status["stopped_mono_ns"] - status["started_mono_ns"]
    for name in (*LAYERS, "total_ns"):
        longer = pc.sum(pc.greater(rows[name], longest)).as_py() or 0
        if longer:
            yield f"{longer} rows with a {name} longer than the trace"


def _layers(variant: str, workload: str, disk: str, rows: pa.Table) -> Iterator[str]:
    total = sum(pc.fill_null(rows[name], 0).to_numpy() for name in LAYERS)
    wrong = int((total != pc.fill_null(rows["total_ns"], 0).to_numpy()).sum())
    if wrong:
        yield f"{wrong} rows whose layers do not add up to total_ns"
    moving = rows.filter(pc.and_(pc.is_in(rows["mode"], pa.array(["R", "W"])), pc.greater(rows["size_bytes"], 0)))
    flushes = len(rows.filter(pc.equal(rows["mode"], "F")))
    missed = expectations.MISSED_BY_KPROBES if expectations.mode(variant, disk) == "kprobe" else 0
    for mode, waiting in (("R", 0), ("W", flushes)):
        of_mode = moving.filter(pc.equal(moving["mode"], mode))
        allowed = waiting + int(missed * len(of_mode))
        for name in expectations.ALWAYS + expectations.UNLESS_IT_WAITS_FOR_A_FLUSH:
            missing = of_mode[name].null_count
            if missing > (allowed if name in expectations.UNLESS_IT_WAITS_FOR_A_FLUSH else 0):
                yield f"{missing} of {len(of_mode)} rows of mode {mode} without {name}"
    if expectations.has_core(variant) and workload in expectations.TIMED_BY_RING:
        own = moving.filter(pc.equal(moving["origin"], "io_uring"))
        if not len(own):
            yield f"none of {len(moving)} rows is of io_uring"
        if own["vfs_ns"].null_count:
            yield f"{own['vfs_ns'].null_count} of {len(own)} rows of io_uring without vfs_ns"
    if workload in expectations.TIMED_BY_SYSCALL:
        own = moving.filter(pc.equal(moving["comm"], "fio"))
        if own["vfs_ns"].null_count:
            yield f"{own['vfs_ns'].null_count} of {len(own)} rows of a waiting system call without vfs_ns"
        if expectations.has_core(variant) and own["return_ns"].null_count:
            yield f"{own['return_ns'].null_count} of {len(own)} rows of a waiting system call without return_ns"
