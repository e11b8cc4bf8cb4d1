"""A SYNTHETIC run folder for tests: made-up operations and I/O with known truth, in the real file formats.

Nothing in it was measured. Binary layouts follow docs/interfaces.md, histogram logs are written by hdrh.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from controller.results.store import RunStore

T0 = 1_790_000_000_123_456_789  # the run's start, unix ns, controller's clock
SECOND = 1_000_000_000
STATUSES = ["OK", "NOT_FOUND", "ERROR"]
LAYERS = ("vfs", "block", "driver", "device")

IO_SCHEMA = pa.schema(
    [
        ("t_us", pa.float64()),
        ("t_unix_ns", pa.int64()),
        ("node", pa.string()),
        ("device", pa.string()),
        ("sector", pa.int64()),
        ("mode", pa.string()),
        ("sync", pa.bool_()),
        ("size_bytes", pa.int64()),
        *((f"{name}_ns", pa.int64()) for name in ("total", *LAYERS)),
        ("origin", pa.string()),
        ("pid", pa.int64()),
        ("comm", pa.string()),
        ("cgroup_id", pa.int64()),
        ("inode", pa.int64()),
        ("path", pa.string()),
        ("component", pa.string()),
        ("tracing_mode", pa.string()),
    ]
)


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


DEMO_PHASES = (
    Phase("content-load", "load", "content-caching", 1.3, 3.6, {"INSERT": 300}, {"INSERT": 21.0}),
    Phase(
        "content-run",
        "run",
        "content-caching",
        6.1,
        9.2,
        {"READ": 900, "UPDATE": 100},
        {"READ": 7, "UPDATE": 16},
    ),
    Phase("messenger-load", "load", "messenger", 17.0, 2.4, {"INSERT": 500}, {"INSERT": 4.0}),
    Phase(
        "messenger-run",
        "run",
        "messenger",
        20.7,
        8.0,
        {"READ": 600, "UPDATE": 340, "DELETE": 60},
        {"READ": 1.6, "UPDATE": 3.1, "DELETE": 2.4},
    ),
)


@dataclass(frozen=True)
class Truth:
    """What was put into the run folder. Operation and I/O times are unix ns in the controller's clock."""

    store: RunStore
    operations: list[dict[str, Any]]
    io: list[dict[str, Any]]


def write_run(
    output_dir: Path,
    *,
    phases: tuple[Phase, ...] = DEMO_PHASES,
    clients: tuple[str, ...] = ("client1", "client2"),
    nodes: tuple[str, ...] = ("node1", "node2", "node3"),
    untraced: tuple[str, ...] = (),
    without_vfs: tuple[str, ...] = (),
    ios_per_second: int = 40,
    target: bool = False,
    bucket_ms: int = 1000,
    offsets_ns: dict[str, int] | None = None,
    seed: int = 1,
) -> Truth:
    """Make a complete, consistent run folder below `output_dir`."""
    random = np.random.default_rng(seed)
    offsets = dict.fromkeys((*clients, *nodes), 0) | (offsets_ns or {})
    store = RunStore.create(output_dir, "demo", now_unix_ns=T0)
    _write_events(store, phases)
    plan = _plan(phases, clients, nodes, bucket_ms)
    (store.path / "plan.json").write_text(json.dumps(plan))
    (store.path / "experiment.yaml").write_text("name: demo\n")
    for name, offset in offsets.items():
        _write_clock(store, name, offset)
    operations = []
    for phase in phases:
        for shard, client in enumerate(clients):
            rows = _client_operations(random, phase, client, open_loop=target)
            _write_client(store, phase, client, shard, clients, rows, offsets[client], open_loop=target)
            operations += rows
    end_s = phases[-1].start_s + phases[-1].seconds + 1
    io = []
    for index, node in enumerate(n for n in nodes if n not in untraced):
        rows = _node_io(random, node, end_s, ios_per_second * (index + 1), vfs=node not in without_vfs)
        _write_trace(store, node, rows, end_s, offsets[node], vfs=node not in without_vfs)
        io += rows
    store.write_manifest(_manifest(store, nodes, untraced))
    return Truth(store, operations, io)


def _write_events(store: RunStore, phases: tuple[Phase, ...]) -> None:
    store.append_event("run_start", t_unix_ns=T0)
    for phase in phases:
        start = T0 + int(phase.start_s * SECOND)
        store.append_event("phase_start", t_unix_ns=start, phase=phase.name)
        store.append_event("phase_end", t_unix_ns=start + int(phase.seconds * SECOND), phase=phase.name)
    end = phases[-1].start_s + phases[-1].seconds + 1
    store.append_event("run_end", t_unix_ns=T0 + int(end * SECOND))


def _plan(
    phases: tuple[Phase, ...], clients: tuple[str, ...], nodes: tuple[str, ...], bucket_ms: int
) -> dict[str, Any]:
    loaded = next((phase for phase in phases if phase.kind == "load"), phases[0])

    def records(phase: Phase) -> int:
        return sum(phase.operations.values()) * len(clients)

    def shards(phase: Phase) -> list[dict[str, Any]]:
        keys = (
            [
                (i * records(phase) // len(clients), (i + 1) * records(phase) // len(clients))
                for i in range(len(clients))
            ]
            if phase.kind == "load"
            else [(None, None)] * len(clients)
        )
        return [
            {
                "client": client,
                "shard": shard,
                "shards": len(clients),
                "key_start": keys[shard][0],
                "key_end": keys[shard][1],
                "planned": phase.operations,
                "seed": shard,
            }
            for shard, client in enumerate(clients)
        ]

    return {
        "schema_version": 1,
        "experiment": "demo",
        "seed": 1,
        "bucket_ms": bucket_ms,
        "database": {"name": "hbase", "settings": {"hbase.regionserver.handler.count": 30}},
        "phases": [
            {
                "name": phase.name,
                "kind": phase.kind,
                "workload": phase.workload,
                "table": "t",
                "threads": 4,
                "target": None,
                "record_count": records(phase if phase.kind == "load" else loaded),
                "shards": shards(phase),
            }
            for phase in phases
        ],
        "trace": {"nodes": [{"node": node, "by": "device", "target": f"loop{i}"} for i, node in enumerate(nodes)]},
        "nodes": [
            *({"name": n, "address": f"127.0.0.{11 + i}", "roles": ["database"]} for i, n in enumerate(nodes)),
            *({"name": c, "address": f"127.0.0.{21 + i}", "roles": ["client"]} for i, c in enumerate(clients)),
        ],
    }


def _write_clock(store: RunStore, node: str, offset_ns: int) -> None:
    folder = store.node_dir(node)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{T0 + offset_ns + s * SECOND},{s * SECOND},{offset_ns},{150_000 + s}" for s in (0, 10, 30)]
    (folder / "clock.csv").write_text("t_unix_ns,t_mono_ns,offset_ns,error_bound_ns\n" + "\n".join(rows) + "\n")
    facts = {
        "node": node,
        "kernel": "6.1.0-synthetic",
        "cpu": {"model": "Synthetic CPU", "cores": 2},
        "memory_bytes": 8 << 30,
        "disks": [{"name": "loop0", "size_bytes": 1 << 30}],
    }
    (folder / "facts.json").write_text(json.dumps(facts))


# --- operations -------------------------------------------------------------------------------------------


def _client_operations(
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


def _write_client(
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


# --- I/O --------------------------------------------------------------------------------------------------


def _node_io(
    random: np.random.Generator, node: str, end_s: float, per_second: int, *, vfs: bool
) -> list[dict[str, Any]]:
    count = int(end_s * per_second)
    times = np.sort(T0 + (random.random(count) * end_s * SECOND).astype(np.int64))
    modes = random.choice(["R", "W", "F"], count, p=[0.35, 0.6, 0.05])
    return [_io_row(random, node, int(t), str(mode), vfs=vfs) for t, mode in zip(times, modes, strict=True)]


def _io_row(random: np.random.Generator, node: str, t_unix_ns: int, mode: str, *, vfs: bool) -> dict[str, Any]:
    written_back = mode == "W" and random.random() < 0.4
    layers: dict[str, int | None] = {
        "vfs": int(random.lognormal(7.5, 0.4)) if vfs and not written_back else None,
        "block": int(random.lognormal(9, 0.5)),
        "driver": int(random.lognormal(8, 0.3)),
        "device": int(random.lognormal(11.5 if mode == "R" else 12.2, 0.6)),
    }
    return {
        "t_us": (t_unix_ns - T0) / 1000,
        "t_unix_ns": t_unix_ns,
        "node": node,
        "device": f"loop{node[-1]}",
        "sector": int(random.integers(0, 1 << 20)),
        "mode": mode,
        "sync": not written_back,
        "size_bytes": 0 if mode == "F" else int(random.integers(1, 32)) * 4096,
        "total_ns": sum(value for value in layers.values() if value is not None),
        **{f"{name}_ns": value for name, value in layers.items()},
        "origin": "writeback" if written_back else "syscall",
        "pid": 4242,
        "comm": "java",
        "cgroup_id": 7,
        "inode": 99,
        "path": None,
        "component": None,
        "tracing_mode": "tp_btf",
    }


def _write_trace(
    store: RunStore, node: str, rows: list[dict[str, Any]], end_s: float, offset_ns: int, *, vfs: bool
) -> None:
    """`io.parquet` (as if converted) and `trace.json`; two requests are excluded by name."""
    pq.write_table(pa.Table.from_pylist(rows, schema=IO_SCHEMA), store.node_dir(node) / "io.parquet")
    modes: NDArray[np.str_] = np.array([row["mode"] for row in rows])
    reads, writes, flushes = (int((modes == mode).sum()) for mode in "RWF")
    before = {"reads": 1000, "writes": 2000, "discards": 0, "flushes": 10}
    after = {"reads": 1000 + reads, "writes": 2002 + writes, "discards": 0, "flushes": 10 + flushes}
    missing = {} if vfs else {"vfs": "kprobe on vfs_read is not available on this kernel"}
    trace = {
        "schema_version": 1,
        "tracer_version": "0.1.0",
        "kernel": "6.1.0-synthetic",
        "state": "stopped",
        "reason": "",
        "started_unix_ns": T0 + offset_ns,
        "started_mono_ns": 0,
        "stopped_unix_ns": T0 + offset_ns + int(end_s * SECOND),
        "stopped_mono_ns": int(end_s * SECOND),
        "filters": {"devices": [f"loop{node[-1]}"], "cgroups": [], "pids": []},
        "probes": ["block_rq_issue", "block_rq_complete"],
        "completions": len(rows),
        "emitted": len(rows),
        "dropped": 0,
        "devices": [
            {
                "device": f"loop{node[-1]}",
                "major": 7,
                "minor": int(node[-1]),
                "tracing_mode": "tp_btf",
                "layers_missing": missing,
                "completions": len(rows),
                "emitted": len(rows),
                "dropped": 0,
                "excluded": {"in flight at start": 2},
                "diskstats_before": before,
                "diskstats_after": after,
                "diskstats_settled": True,
            }
        ],
    }
    if vfs:
        reads_of = {"calls": 900, "sum_ns": 1_800_000, "log2_ns": {"10": 900}}
        with_io = {"calls": 100, "sum_ns": 25_000_000, "log2_ns": {"17": 100}}
        trace["vfs"] = {"read": {"hit_ratio": 0.9, "cached": reads_of, "with_io": with_io}}
    (store.node_dir(node) / "trace.json").write_text(json.dumps(trace))


def _manifest(store: RunStore, nodes: tuple[str, ...], untraced: tuple[str, ...]) -> dict[str, Any]:
    return {
        "run_id": store.run_id,
        "experiment": "demo",
        "status": "complete",
        "reasons": [],
        "warnings": [],
        "started_unix_ns": T0,
        "ended_unix_ns": T0 + 30 * SECOND,
        "versions": {
            "stratabench": "0.1.0",
            "hbase": "2.6.4",
            "java": "17.0.0-synthetic",
            "kernel": dict.fromkeys(nodes, "6.1.0-synthetic"),
        },
        "git_revision": "0" * 40,
        "durability": {"hbase.wal": "SYNC_WAL", "dfs.replication": 3},
        "settings": {"hbase.storage": "hdfs"},
        "tags": {"data": "synthetic"},
        "tracing": {
            node: {"state": "unavailable", "reason": "no right to load BPF programs (needs root)"}
            if node in untraced
            else {"state": "traced", "reason": ""}
            for node in nodes
        },
        "files": {},
        "lost_events": {},
    }
