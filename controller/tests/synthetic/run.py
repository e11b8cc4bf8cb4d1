"""The whole folder of a made-up run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controller.results.store import RunStore
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.clients import Phase, client_operations, write_client
from controller.tests.synthetic.io import node_io, write_trace

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
            rows = client_operations(random, phase, client, open_loop=target)
            write_client(store, phase, client, shard, clients, rows, offsets[client], open_loop=target)
            operations += rows
    end_s = phases[-1].start_s + phases[-1].seconds + 1
    io = []
    for index, node in enumerate(n for n in nodes if n not in untraced):
        rows = node_io(random, node, end_s, ios_per_second * (index + 1), vfs=node not in without_vfs)
        write_trace(store, node, rows, end_s, offsets[node], vfs=node not in without_vfs)
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
