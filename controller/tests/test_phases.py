"""What a measurement decides without its agents: when clients begin, what each is told, what is traced, what fails."""

from __future__ import annotations

import asyncio
import csv
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.clock import ClockReading
from controller.errors import DeployError, RunError
from controller.phases import Measurement
from controller.plan import Plan, PlannedTrace
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


def test_a_clock_that_was_set_before_a_phase_moves_no_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns, bound_ns = time.time_ns(), 5_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    clients = {"client1": Client(0), "client2": Client(-HOUR_NS)}

    async def clocks() -> dict[str, ClockReading]:
        return {
            name: ClockReading(now_ns + client.ahead_ns, time.monotonic_ns(), client.ahead_ns, bound_ns)
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
    assert min(begins) > now_ns + bound_ns, "it is still to come wherever the clocks are within their bounds"
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


def measurement_of(made: Plan, store: RunStore | None = None, **database: Any) -> Measurement:
    """Of a run that has no agents."""
    nothing: Any = None
    return Measurement(made, nothing, cast(Any, SimpleNamespace(**database)), store or nothing, Progress())


@pytest.mark.parametrize("traced", [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("wanted", ["required", "preferred", "off"])
def test_what_cannot_be_traced_ends_the_run_only_where_that_is_required(wanted: str, traced: tuple[bool, bool]) -> None:
    measurement = measurement_of(plan(1, {}, servers=2, tracing=wanted))
    measurement.facts = {
        f"node{i}": {"tracing": {"can_trace": can, "reason": "no BTF"}} for i, can in enumerate(traced)
    }
    if wanted == "required" and not all(traced):
        with pytest.raises(DeployError, match="tracing is required and not possible: no BTF") as error:
            measurement._check_tracing()
        assert error.value.node == "node0"
        return
    measurement._check_tracing()
    cannot = {f"node{i}": {"state": "unavailable", "reason": "no BTF"} for i, can in enumerate(traced) if not can}
    off = {node: {"state": "off", "reason": "switched off"} for node in ("node0", "node1")}
    assert measurement.tracing == (off if wanted == "off" else cannot)


@pytest.mark.parametrize(
    ("planned", "own_disk", "by"),
    [("device", True, "device"), ("device", False, "process"), ("process", True, "process")],
)
def test_a_disk_is_traced_as_a_whole_only_where_it_holds_nothing_else(planned: Any, own_disk: bool, by: str) -> None:
    measurement = measurement_of(plan(1, {}))
    measurement.facts = {"node0": {"data": {"own_disk": own_disk}}}
    assert measurement._traced_by(PlannedTrace(node="node0", by=planned, target="data")) == by


@pytest.mark.parametrize("has_locality", [True, False])
def test_where_the_regions_of_a_table_are_is_noted_by_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_locality: bool
) -> None:
    ports = {"node0": ["10.0.0.1:1"], "node1": ["10.0.0.2:1"], "client0": ["10.0.0.9:1"]}
    store = RunStore.create(tmp_path, "x")
    measurement = measurement_of(plan(1, {}, servers=2), store, ports=lambda: ports, has_locality=has_locality)
    phase = measurement.plan.phases[0]
    measurement._note_regions(phase, {})  # as a database without regions: two events follow, not three
    where = {"10.0.0.1:1": 2, "10.0.0.7:1": 1}
    locality = {"10.0.0.1:1": 0.5, "10.0.0.2:1": None, "10.0.0.7:1": 0.25}
    measurement._note_regions(phase, {"table_regions": where, "table_locality": locality})
    measurement._note_regions(phase, {"table_regions": {"10.0.0.1:1": 2, "10.0.0.2:1": 1}, "table_locality": {}})
    first, second = store.events()
    assert (first["event"], first["phase"], first["table"]) == ("regions_placed", "w-load", "usertable")
    assert first["regions"] == {"node0": 2, "node1": 0, "10.0.0.7:1": 1}
    assert first["locality"] == ({"node0": 0.5, "10.0.0.7:1": 0.25} if has_locality else {})
    assert second["regions"] == {"node0": 2, "node1": 1}
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("are not spread evenly: {'node0': 2, 'node1': 0, '10.0.0.7:1': 1}")


@pytest.mark.parametrize("rows", [20, 21, 22])
def test_a_load_ends_with_as_many_records_as_planned_or_the_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    store = RunStore.create(tmp_path, "x")
    measurement = measurement_of(plan(1, {"recordcount": 21}), store, name="stand-in")

    async def admin(_: object, verb: str) -> dict[str, Any]:
        return {"count": {"rows": rows}}[verb]

    monkeypatch.setattr(measurement, "_admin", admin)
    counted = measurement._count(measurement.plan.phases[0])
    if rows == 21:
        asyncio.run(counted)
    else:
        with pytest.raises(RunError, match=f"21 records were loaded, stand-in holds {rows}"):
            asyncio.run(counted)
    assert [(event["rows"], event["planned"]) for event in store.events()] == [(rows, 21)]
