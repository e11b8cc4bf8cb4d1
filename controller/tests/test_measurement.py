"""A measurement from its first clock to its last, over stand-ins of agents that write down what they are asked for."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.api import agent_pb2 as api
from controller.client import AgentClient, Certificates
from controller.clock import ClockReading
from controller.errors import DeployError, RunError
from controller.fleet import Fleet
from controller.phases import Measurement
from controller.plan import Plan
from controller.progress import Progress
from controller.results.store import RunStore
from controller.tests.test_plan import plan

NODES = ("node0", "node1", "client0", "client1")
#: Before: what each of its preparations asks for is told below.
WORKLOAD: dict[str, Any] = {
    "name": "w",
    "workload": "w",
    "properties": {"recordcount": 21, "operationcount": 100},
    "load": {"threads": 2, "before": ["flush"]},
    "run": {"threads": 2, "before": ["flush", "evict_page_cache"]},
}
TRACER_FILES = ("io.bin", "io.bin.json", "stderr.log")


class Agent:
    """Does what it is told at once. `ends`: last events of jobs that end in another way; `hang`: jobs that only a stop
    ends; `busy`: how often it refuses a session."""

    def __init__(self, node: str, asked: list[tuple[str, ...]]) -> None:
        self.node, self.asked, self.alive = node, asked, True
        self.facts_: dict[str, Any] = {"tracing": {"can_trace": True}, "data": {"own_disk": True}}
        self.specs: dict[str, api.JobSpec] = {}
        self.ends: dict[str, api.JobEvent] = {}
        self.hang: set[str] = set()
        self.refuses: set[tuple[str, str]] = set()
        self.busy = 0
        self._stopped = asyncio.Event()

    def _note(self, *words: str) -> None:
        self.asked.append((self.node, *words))
        if words in self.refuses:
            raise RunError(f"{' '.join(words)} was refused", node=self.node)

    async def connect(self, _: float) -> None:
        self._note("connect")

    async def facts(self) -> dict[str, Any]:
        return self.facts_

    async def read_clock(self) -> ClockReading:
        self._note("clock")
        return ClockReading(1, 2, 0, 1000)

    async def open_session(self, run_id: str) -> None:
        self.busy -= 1
        if self.busy >= 0:
            raise RunError("another session is open", node=self.node)
        self._note("session")

    async def start(self, spec: api.JobSpec) -> None:
        self._note("start", spec.job_id)
        self.specs[spec.job_id] = spec

    async def ready(self, job_id: str, _: float) -> None:
        self._note("ready", job_id)

    async def go(self, job_id: str, _: int) -> None:
        self._note("go", job_id)

    async def end(self, job_id: str) -> api.JobEvent:
        if job_id in self.hang:
            await self._stopped.wait()
        self._note("end", job_id)
        answer = {"rows": 21} if job_id.endswith("count") else {"table_regions": {"10.0.0.1:1": 3, "10.0.0.2:1": 2}}
        done = api.JobEvent(job_id=job_id, state=api.JobEvent.DONE, status_json=json.dumps(answer))
        return self.ends.get(job_id, done)

    async def stop(self, job_id: str, _: float) -> api.JobEvent:
        self._note("stop", job_id)
        self._stopped.set()
        return self.ends.get(job_id, api.JobEvent(job_id=job_id, state=api.JobEvent.DONE))

    async def fetch(self, job_id: str, folder: Path, *, only: str | None = None) -> None:
        self._note("fetch", job_id)
        folder.mkdir(parents=True, exist_ok=True)
        for name in TRACER_FILES if job_id == "tracer" else ("summary.json",):
            if only in (None, name):
                (folder / name).write_text(f"{name} of {job_id} on {self.node}")

    async def evict_page_cache(self) -> api.Evicted:
        self._note("evict")
        return api.Evicted(files=3, bytes=4096)

    async def close(self) -> None:
        self._note("close")


class Run:
    """A measurement and its agents, to which `before` may do something."""

    def __init__(self, folder: Path, *, fresh: bool = False, **members: Any) -> None:
        self.plan: Plan = plan(2, {}, servers=2, **{"workloads": [WORKLOAD], **members})
        self.store = RunStore.create(folder, "x")
        self.asked: list[tuple[str, ...]] = []
        self.fresh = fresh
        self.error: BaseException | None = None

    def measure(self, before: Any = lambda _: None, *, again: bool = False) -> Run:
        asyncio.run(self._measure(before, again))
        return self

    async def _measure(self, before: Any, again: bool) -> None:
        fleet = Fleet({}, cast(Certificates, None))
        agents = {name: Agent(name, self.asked) for name in NODES}
        fleet.agents = cast("dict[str, AgentClient]", agents)
        before(SimpleNamespace(fleet=fleet, **agents))
        ports = {"node0": ["10.0.0.1:1"], "node1": ["10.0.0.2:1"]}
        database: Any = SimpleNamespace(
            name="stand-in", settings=lambda: {"hosts": "10.0.0.1"}, ports=lambda: ports, has_locality=False
        )
        self.measurement = Measurement(self.plan, fleet, database, self.store, Progress(), fresh=self.fresh)
        self.agents = agents
        try:
            if again:
                await self.measurement.adopt()
            else:
                await self.measurement.prepare()
                await self.measurement.run()
        except (RunError, DeployError) as error:
            self.error = error
        finally:
            self.must_live = set(fleet.must_live)
            await fleet.close()

    def events(self) -> list[str]:
        return [
            " ".join(str(event[name]) for name in ("event", "phase", "preparation") if name in event)
            for event in self.store.events()
        ]

    def order(self, *steps: tuple[str, ...]) -> None:
        """That these were asked for one after the other."""
        places = [self.asked.index(step) for step in steps]
        assert places == sorted(places), [self.asked[place] for place in sorted(places)]


def test_a_whole_run(tmp_path: Path) -> None:
    run = Run(tmp_path, deadline_s=7).measure()
    assert run.error is None
    assert run.events() == [
        "run_start",
        "prepared w-load drop",
        "regions_placed w-load",
        "prepared w-load flush",
        "phase_start w-load",
        "phase_end w-load",
        "rows_counted w-load",
        "regions_placed w-load",
        "regions_placed w-run",
        "prepared w-run flush",
        "prepared w-run evict_page_cache",
        "phase_start w-run",
        "phase_end w-run",
        "run_end",
    ]
    assert run.measurement.measured_phases == ["w-load", "w-run"]
    evicted = {node: {"files": 3, "bytes": 4096} for node in ("node0", "node1")}
    assert [event["evicted"] for event in run.store.events() if "evicted" in event] == [evicted]
    for node in ("node0", "node1"):
        run.order(
            *((node, *step) for step in (("session",), ("start", "tracer"), ("ready", "tracer"), ("evict",))),
            ("client1", "end", "w-run"),
            *((node, *step) for step in (("stop", "tracer"), ("fetch", "tracer"), ("close",))),
        )
        names = {"clock.csv", "facts.json", "io.bin", "trace.json", "trace.log"}
        assert {path.name for path in run.store.node_dir(node).iterdir()} == names
        assert (run.store.node_dir(node) / "trace.json").read_text() == f"io.bin.json of tracer on {node}"
    traced = {"state": "traced", "by": "device", "reason": None}
    assert run.measurement.tracing == {"node0": traced, "node1": traced}
    for phase in ("w-load", "w-run"):
        for name in ("client0", "client1"):  # no client begins before all are ready
            run.order(("client1", "ready", phase), (name, "go", phase), (name, "end", phase), (name, "fetch", phase))
            run.order(("client0", "ready", phase), (name, "go", phase))
            assert [path.name for path in run.store.client_dir(name, phase).iterdir()] == ["summary.json"]
    # Maintenance is the first client's, and only a load is counted.
    maintained = [words for words in run.asked if words[1] == "start" and words[2].count("-") > 1]
    verbs = ("w-load-drop", "w-load-flush", "w-load-count", "w-load-status", "w-run-flush")
    assert maintained == [("client0", "start", verb) for verb in verbs]
    flush = run.agents["client0"].specs["w-run-flush"]
    assert (flush.admin.verb, flush.admin.binding, flush.admin.properties["hosts"]) == ("flush", "hbase2", "10.0.0.1")
    hour_ms = 3_600_000
    assert {flush.deadline_ms, run.agents["client0"].specs["w-load-count"].deadline_ms} == {hour_ms}
    jobs = (run.agents["client1"].specs["w-run"], run.agents["node0"].specs["tracer"])
    assert [job.deadline_ms for job in jobs] == [7000, 7000]
    # Before the first phase, before each, and at the end; of every node.
    assert Counter(words[0] for words in run.asked if words[1] == "clock") == dict.fromkeys(NODES, 4)
    # Nothing that has ended in order is stopped or fetched a second time.
    assert Counter(words for words in run.asked if words[1] in ("stop", "fetch")) == dict.fromkeys(
        {words for words in run.asked if words[1] in ("stop", "fetch")}, 1
    )
    assert run.must_live == set()


def test_a_database_that_was_just_deployed_has_nothing_to_drop(tmp_path: Path) -> None:
    run = Run(tmp_path, fresh=True).measure()
    assert run.error is None
    assert run.events()[2:4] == ["prepared w-load flush", "phase_start w-load"]
    assert ("client0", "start", "w-load-drop") not in run.asked


@pytest.mark.parametrize("context", [True, False])
def test_what_a_tracer_is_told(tmp_path: Path, context: bool) -> None:
    def before(its: Any) -> None:
        its.node1.facts_["data"]["own_disk"] = False

    traced: dict[str, Any] = {"context": context, "calls": not context, "context_without": ["peers"] if context else []}
    run = Run(tmp_path, **traced).measure(before)
    specs = [run.agents[node].specs["tracer"].tracer for node in ("node0", "node1")]
    assert [spec.by for spec in specs] == [api.TracerSpec.DEVICE, api.TracerSpec.PROCESS]
    assert {(spec.without_context, spec.without_calls) for spec in specs} == {(not context, context)}
    assert {tuple(spec.context_without) for spec in specs} == {("peers",) if context else ()}
    assert [run.measurement.tracing[node]["by"] for node in ("node0", "node1")] == ["device", "process"]


def test_a_tracer_that_does_not_begin_leaves_its_log_and_the_run_goes_on(tmp_path: Path) -> None:
    def before(its: Any) -> None:
        its.node1.refuses = {("ready", "tracer")}

    run = Run(tmp_path, tracing="preferred").measure(before)
    assert run.error is None
    assert run.measurement.tracing["node1"] == {"state": "unavailable", "reason": "ready tracer was refused"}
    assert run.measurement.tracing["node0"]["state"] == "traced"
    names = {"clock.csv", "facts.json", "trace.log"}
    assert {path.name for path in run.store.node_dir("node1").iterdir()} == names
    assert run.asked.count(("node1", "stop", "tracer")) == 1


def failed(job_id: str, message: str) -> dict[str, api.JobEvent]:
    return {job_id: api.JobEvent(job_id=job_id, state=api.JobEvent.FAILED, message=message)}


def test_where_one_client_fails_the_others_are_stopped_and_keep_what_they_measured(tmp_path: Path) -> None:
    def before(its: Any) -> None:
        its.client1.ends = failed("w-load", "out of luck")
        its.client0.hang = {"w-load"}

    run = Run(tmp_path).measure(before)
    assert str(run.error).startswith("client1: w-load: the client failed: out of luck")
    log = run.store.client_dir("client1", "w-load") / "stderr.log"
    assert isinstance(run.error, RunError) and run.error.log == str(log)
    assert run.asked.count(("client0", "stop", "w-load")) == 1
    assert run.events()[-3:] == ["phase_start w-load", "phase_end w-load", "run_end"]
    assert run.measurement.measured_phases == [], "its numbers are not those of a phase"
    for name in ("client0", "client1"):
        assert (run.store.client_dir(name, "w-load") / "summary.json").exists()
    for node in ("node0", "node1"):
        assert (run.store.node_dir(node) / "trace.json").exists()


def test_a_tracer_that_lost_its_end_fails_the_run(tmp_path: Path) -> None:
    def before(its: Any) -> None:
        its.node1.ends = failed("tracer", "no space left on device")

    run = Run(tmp_path).measure(before)
    assert str(run.error).startswith("node1: tracer: no space left on device")
    assert (run.store.node_dir("node1") / "trace.json").exists()
    assert run.measurement.measured_phases == ["w-load", "w-run"]


def test_maintenance_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    def before(its: Any) -> None:
        its.client0.ends = failed("w-load-flush", "no region answers")

    run = Run(tmp_path).measure(before)
    assert str(run.error).startswith("client0: w-load: flush failed: no region answers")
    assert run.events() == ["run_start", "prepared w-load drop", "run_end"]


def test_what_cannot_be_collected_is_said_and_the_rest_is_collected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def before(its: Any) -> None:
        its.client0.refuses = {("ready", "w-load")}
        its.node0.refuses = {("fetch", "tracer")}
        its.client1.alive = False

    run = Run(tmp_path).measure(before)
    assert str(run.error).startswith("client0: ready w-load was refused")
    said = capsys.readouterr().err
    assert "node0: tracer: not collected: node0: fetch tracer was refused" in said
    assert "client1: w-load: its files are lost with the agent" in said
    assert said.count("not collected") == said.count("lost with the agent") == 1
    assert (run.store.node_dir("node1") / "trace.json").exists()
    assert (run.store.client_dir("client0", "w-load") / "summary.json").exists()
    assert not run.store.client_dir("client1", "w-load").exists()


def test_an_agent_of_another_run_fails_before_anything_is_measured(tmp_path: Path) -> None:
    def before(its: Any) -> None:
        its.client1.refuses = {("session",)}

    run = Run(tmp_path).measure(before)
    assert isinstance(run.error, DeployError) and (run.error.node, run.error.exit_code) == ("client1", 3)
    assert not [words for words in run.asked if words[1] == "start"]


@pytest.mark.parametrize("busy", [0, 3, 1000])
def test_a_controller_that_comes_back_fetches_what_agents_still_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    """The one before died in the second phase. `busy`: an agent first ends the jobs of its broken session."""

    async def at_once(_: float) -> None:
        pass

    def before(its: Any) -> None:
        its.client1.busy = busy
        its.client1.refuses = {("fetch", "w-run")}
        its.node1.refuses = {("fetch", "tracer")}

    monkeypatch.setattr(asyncio, "sleep", at_once)
    run = Run(tmp_path)
    run.store.append_event("run_start")
    run.store.append_event("phase_end", phase="w-load")
    run.measure(before, again=True)
    if busy == 1000:
        assert isinstance(run.error, RunError) and run.error.node == "client1"
        return
    assert run.error is None
    assert run.measurement.tracing == {"node0": {"state": "traced", "by": "device", "reason": None}}
    assert run.measurement.measured_phases == ["w-load"]
    fetched = [run.store.client_dir(name, phase) for phase in ("w-load", "w-run") for name in ("client0", "client1")]
    assert [(folder / "summary.json").exists() for folder in fetched] == [True, True, True, False]
    assert (run.store.node_dir("node0") / "trace.json").exists()
    assert run.events() == ["run_start", "phase_end w-load", "run_end"]
    assert not [words for words in run.asked if words[1] in ("start", "go")], "nothing is measured any more"
