"""When the clients of a phase begin."""

from __future__ import annotations

import asyncio
import csv
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from controller.clock import ClockReading
from controller.phases import Measurement
from controller.progress import Progress
from controller.results.store import RunStore
from controller.tests.test_plan import plan

HOUR_NS = 3_600_000_000_000


class Client:
    """Its unix clock is `ahead_ns` of ours."""

    def __init__(self, ahead_ns: int) -> None:
        self.ahead_ns = ahead_ns
        self.starts_ns: list[int] = []

    async def go(self, _phase: str, start_unix_ns: int) -> None:
        self.starts_ns.append(start_unix_ns - self.ahead_ns)


def test_a_clock_that_was_set_before_a_phase_moves_no_begin(tmp_path: Path) -> None:
    clients = {"client1": Client(0), "client2": Client(-HOUR_NS)}

    async def clocks() -> dict[str, ClockReading]:
        now_ns, mono_ns = time.time_ns(), time.monotonic_ns()
        return {
            name: ClockReading(now_ns + client.ahead_ns, mono_ns, client.ahead_ns, 1000)
            for name, client in clients.items()
        }

    async def two_phases() -> None:
        for name in ("a-load", "a-run"):
            shards = [SimpleNamespace(client=client) for client in clients]
            await measurement._go(SimpleNamespace(name=name, kind="run", shards=shards))  # type: ignore[arg-type]
            clients["client2"].ahead_ns += 2 * HOUR_NS

    store = RunStore.create(tmp_path, "run")
    for client in clients:
        store.node_dir(client).mkdir(parents=True)
    fleet: Any = SimpleNamespace(agents=clients, clocks=clocks)
    nothing: Any = None
    measurement = Measurement(nothing, fleet, nothing, store, Progress())
    asyncio.run(two_phases())

    begins = [event["t_unix_ns"] for event in store.events() if event["event"] == "phase_start"]
    assert clients["client1"].starts_ns == clients["client2"].starts_ns == begins
    with (store.node_dir("client2") / "clock.csv").open(newline="") as file:
        assert [int(row["offset_ns"]) for row in csv.DictReader(file)] == [-HOUR_NS, HOUR_NS]


def test_a_client_is_told_its_part_of_the_phase() -> None:
    workload = {
        "name": "w",
        "workload": "w",
        "properties": {"operationcount": 100},
        "run": {"threads": 7, "target_ops_per_s": 50, "warmup_operations": 9, "properties": {"a": "phase"}},
    }
    made = plan(2, {}, seed=3, deadline_s=60, workloads=[workload])
    database: Any = SimpleNamespace(settings=lambda: {"a": "database", "b": "database"})
    nothing: Any = None
    measurement = Measurement(made, nothing, database, nothing, Progress())
    load, run = ([measurement._client_job(phase, shard) for shard in phase.shards] for phase in made.phases)
    assert [job.client.verb for job in (*load, *run)] == ["load", "load", "run", "run"]
    assert [job.client.target_ops_per_s for job in (*load, *run)] == [0, 0, 25, 25]
    assert [(job.job_id, job.deadline_ms) for job in run] == [("w-run", 60_000)] * 2
    assert [(job.client.shard, job.client.shards, job.client.threads) for job in run] == [(0, 2, 3), (1, 2, 4)]
    assert [job.client.properties["warmup.operations"] for job in (*load, *run)] == ["0", "0", "4", "5"]
    assert {job.client.properties["seed"] for job in run} == {"3"}
    assert (run[0].client.properties["a"], run[0].client.properties["b"]) == ("phase", "database")
