"""Made-up clients: operations, and the files in which a client leaves them."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from controller.results.store import RunStore
from controller.tests.synthetic import SECOND, T0

STATUSES = ["OK", "NOT_FOUND", "ERROR"]


@dataclass(frozen=True)
class Phase:
    name: str
    kind: str
    workload: str
    start_s: float
    seconds: float
    operations: dict[str, int]  # per client
    mean_ms: dict[str, float]
    failed: dict[str, int] = field(default_factory=dict)  # per client, of the above


def client_operations(
    random: np.random.Generator, phase: Phase, client: str, *, open_loop: bool
) -> list[dict[str, Any]]:
    rows = []
    begin = T0 + int(phase.start_s * SECOND)
    for op, count in phase.operations.items():
        latency = (random.lognormal(0, 0.5, count) * phase.mean_ms[op] * 1e6).astype(np.int64)
        latency = np.minimum(latency, int(phase.seconds * SECOND) // 2)
        start = begin + (random.random(count) * (phase.seconds * SECOND - latency)).astype(np.int64)
        failed = phase.failed.get(op, 0)
        for i in range(count):
            rows.append(
                {
                    "client": client,
                    "phase": phase.name,
                    "op": op,
                    "start": int(start[i]),
                    "latency_ns": int(latency[i]),
                    "delay_ns": int(random.integers(0, 50_000)) if open_loop else -1,
                    "status": "ERROR" if i < failed else "OK",
                    "key_hash": int(random.integers(1, 1 << 32)),
                    "thread": int(random.integers(0, 4)),
                }
            )
    return sorted(rows, key=lambda row: row["start"])


def write_client(
    store: RunStore,
    phase: Phase,
    client: str,
    shard: int,
    clients: tuple[str, ...],
    rows: list[dict[str, Any]],
    offset_ns: int,
    *,
    open_loop: bool,
) -> None:
    folder = store.client_dir(client, phase.name)
    folder.mkdir(parents=True)
    begin = T0 + int(phase.start_s * SECOND)
    operations = list(phase.operations)
    write_ops_bin(folder / "ops.bin", rows, operations, offset_ns)
    for op in operations:
        mine = [row for row in rows if row["op"] == op]
        good = [row for row in mine if row["status"] == "OK"]
        bad = [row for row in mine if row["status"] != "OK"]
        for name, part, delayed in (
            (f"{op}.hdr", good, False),
            (f"{op}-FAILED.hdr", bad, False),
            (f"Intended-{op}.hdr", good, True),
        ):
            if part and (open_loop or not delayed):
                write_hdr(folder / name, part, begin, offset_ns, delayed=delayed)
    (folder / "stdout.log").write_text("[OVERALL], RunTime(ms), 1\n")
    summary = _summary(phase, shard, clients, rows, begin + offset_ns)
    (folder / "summary.json").write_text(json.dumps(summary))


def write_ops_bin(path: Path, rows: list[dict[str, Any]], operations: list[str], offset_ns: int = 0) -> None:
    """The operation log as docs/interfaces.md lays it out; monotonic time 0 is the run's start."""
    header = {
        "record_bytes": 16,
        "anchor_unix_ns": T0 + offset_ns + 5 * SECOND,
        "anchor_mono_ns": 5 * SECOND,
        "shard": 0,
        "shards": 1,
        "threads": 4,
        "operations": operations,
        "statuses": STATUSES,
    }
    text = json.dumps(header).encode()
    length = (16 + len(text) + 63) // 64 * 64
    records = b"".join(
        operation_record(
            row, row["start"] - T0 - 5 * SECOND, operations.index(row["op"]), STATUSES.index(row["status"])
        )
        for row in rows
    )
    path.write_bytes(b"STRATAOP" + struct.pack("<II", 2, length) + text.ljust(length - 16) + records)


def operation_record(row: dict[str, Any], since_anchor_ns: int, operation: int, status: int) -> bytes:
    """One or two slots of 16 bytes."""
    start = since_anchor_ns.to_bytes(8, "little", signed=True)
    latency, delay = int(row["latency_ns"]), int(row["delay_ns"])
    thread, key_hash = struct.pack("<H", row["thread"]), struct.pack("<I", row["key_hash"])
    codes = bytes([status << 4 | operation])
    if latency < 0xFFFFFF and delay < 0 and start[6:] == b"\0\0":
        return start[:6] + thread + codes + latency.to_bytes(3, "little") + key_hash
    second = latency.to_bytes(6, "little") + start[6:] + b"\xff" + delay.to_bytes(7, "little", signed=True)
    return start[:6] + thread + codes + b"\xff\xff\xff" + key_hash + second


def write_hdr(
    path: Path, rows: list[dict[str, Any]], begin_ns: int, offset_ns: int = 0, *, delayed: bool = False
) -> None:
    """One histogram log with intervals of 1 s since `begin_ns`; a value counts when it is finished."""
    intervals: dict[int, HdrHistogram] = {}
    for row in rows:
        second = (row["start"] + row["latency_ns"] - begin_ns) // SECOND
        histogram = intervals.setdefault(second, HdrHistogram(1, 3600 * SECOND, 3))
        assert histogram.record_value(row["latency_ns"] + (row["delay_ns"] if delayed else 0))
    lines = [
        "#[Histogram log format version 1.3]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for second, histogram in sorted(intervals.items()):
        start_s = (begin_ns + offset_ns + second * SECOND) / 1e9
        payload = histogram.encode().decode()
        lines.append(f"{start_s:.3f},1.000,{histogram.get_max_value() / 1e6:.3f},{payload}")
    path.write_text("\n".join(lines) + "\n")


def _summary(
    phase: Phase, shard: int, clients: tuple[str, ...], rows: list[dict[str, Any]], start_unix_ns: int
) -> dict[str, Any]:
    operations = {}
    for op in phase.operations:
        mine = [row for row in rows if row["op"] == op]
        failed = sum(row["status"] != "OK" for row in mine)
        operations[op] = {
            "count": len(mine),
            "ok": len(mine) - failed,
            "not_found": 0,
            "failed": failed,
            "errors": {"ERROR": failed} if failed else {},
            "latency_ns": {"mean": float(np.mean([row["latency_ns"] for row in mine]))},
            "intended_ns": None,
        }
    records = sum(phase.operations.values()) * len(clients)
    load = phase.kind == "load"
    return {
        "schema_version": 1,
        "status": "complete",
        "reason": "",
        "phase": phase.kind,
        "binding": "hbase2",
        "shard": shard,
        "shards": len(clients),
        "threads": 4,
        "target_ops_per_s": None,
        "seed": shard,
        "key_start": shard * records // len(clients) if load else None,
        "key_end": (shard + 1) * records // len(clients) if load else None,
        "planned_operations": sum(phase.operations.values()),
        "start_unix_ns": start_unix_ns,
        "end_unix_ns": start_unix_ns + int(phase.seconds * SECOND),
        "measured_ns": int(phase.seconds * SECOND),
        "operations": operations,
        "throughput_ops_per_s": len(rows) / phase.seconds,
        "client": {"cpu_ns": 1, "gc_ns": 0, "wakeup_error_ns": None},
        "java_version": "17.0.0-synthetic",
        "properties": {},
    }
