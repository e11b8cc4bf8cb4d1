"""Made-up I/O of a node: what a tracer would leave, already converted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from controller.results.store import RunStore
from controller.tests.synthetic import SECOND, T0

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


def node_io(
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


def write_trace(
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
