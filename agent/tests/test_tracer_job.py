"""How a run uses a tracer on an agent: a real agent, and a stand-in in the tracer's place that misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from agent import jobs
from agent.api import agent_pb2 as api
from agent.config import AgentConfig
from agent.jobs import Job
from agent.programs import JobRefusedError, Launch, plan_launch, traced_pids
from agent.tests.test_agent import Running, children, running_agent
from controller import phases
from controller.fleet import Fleet
from controller.phases import Measurement
from controller.plan import PlannedTrace, Trace
from controller.progress import Progress
from controller.results.store import RunStore

# Traces and, in a run that waits for a second only, is not ready in time.
TRACER_STAND_IN = """#!/bin/sh
[ "$1" = --check ] && echo '{"can_trace": true}' && exit
echo pondering >&2
sleep 3
echo '{"state": "running"}' > io.bin.json
echo ready
exec sleep 300
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Running]:
    program, pidfile = tmp_path / "tracer-stand-in", tmp_path / "database.pid"
    program.write_text(TRACER_STAND_IN)
    program.chmod(0o755)
    pidfile.write_text(f"{os.getpid()}\n")
    with running_agent(tmp_path, {"tracer": program}, {"database": pidfile}) as running:
        yield running


def overdue(script: str, folder: Path) -> api.JobEvent:
    """The last event of a tracer that its deadline ends after half a second; it is this shell script."""
    launch = Launch("tracer", ["sh", "-c", script], folder, status_file=folder / "io.bin.json")

    async def use() -> api.JobEvent:
        job = Job("tracer", launch, 0.5, lambda _: None)
        await job.start()
        await asyncio.wait_for(job.ended.wait(), 20)
        return job.last_event

    return asyncio.run(use())


def test_at_its_deadline_a_tracer_writes_its_last_records(tmp_path: Path) -> None:
    last = """trap 'echo "{\\"state\\": \\"stopped\\"}" > io.bin.json; exit 0' TERM; while :; do sleep 0.05; done"""
    end = overdue(last, tmp_path)
    assert json.loads(end.status_json) == {"state": "stopped"}
    assert end.state == api.JobEvent.FAILED and "deadline" in end.message and end.exit_code == 0


def test_a_tracer_that_does_not_end_at_its_deadline_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "STOP_GRACE_S", 0.5)
    end = overdue("trap '' TERM; while :; do sleep 0.05; done", tmp_path)
    assert end.state == api.JobEvent.FAILED and end.exit_code == -signal.SIGKILL


def test_without_pid_files_nothing_is_traced_by_process(tmp_path: Path) -> None:
    """No filter at all would trace every process of the machine."""
    config = AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path, "database", {}, {})
    with pytest.raises(JobRefusedError, match="no pid file"):
        traced_pids(api.TracerSpec(by=api.TracerSpec.PROCESS), config)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_database_that_was_started_again_is_written_down(tmp_path: Path, restarted: bool) -> None:
    pidfile, tracer = tmp_path / "regionserver.pid", tmp_path / "tracer"
    tracer.write_text(f"#!/bin/sh\n{f'echo {os.getppid()} > {pidfile}' if restarted else ':'}\n")
    tracer.chmod(0o755)
    pidfile.write_text(f"{os.getpid()}\n")
    config = AgentConfig(
        "node1", "127.0.0.1", 1, 2, tmp_path, "database", {"tracer": tracer}, {}, database_pidfiles={"rs": pidfile}
    )
    spec = api.JobSpec(job_id="tracer", tracer=api.TracerSpec(by=api.TracerSpec.PROCESS))

    async def use() -> None:
        job = Job("tracer", plan_launch(spec, config, tmp_path), 20, lambda _: None)
        await job.start()
        await asyncio.wait_for(job.ended.wait(), 20)

    asyncio.run(use())
    pids = json.loads((tmp_path / "database_pids.json").read_text())
    assert pids == {"traced": {"rs": os.getpid()}, "at_end": {"rs": os.getppid() if restarted else os.getpid()}}


async def measurement(agent: Running, store: RunStore) -> Measurement:
    """As in a run that has connected."""
    traces = (PlannedTrace(node="node1", by="device", target="data"),)
    plan: Any = SimpleNamespace(trace=Trace(wanted="preferred", nodes=traces), deadline_s=60, phases=(), nodes=())
    fleet = Fleet({"node1": agent.address}, agent.certificates)
    await fleet.connect()
    run = Measurement(plan, fleet, None, store, Progress())  # type: ignore[arg-type]
    run.facts = await fleet.facts()
    store.node_dir("node1").mkdir(parents=True, exist_ok=True)
    return run


def test_a_tracer_that_is_not_ready_in_time_is_ended_and_leaves_its_log(
    agent: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "_TRACER_READY_S", 1.0)
    store = RunStore.create(tmp_path, "demo")

    async def use() -> tuple[dict[str, Any], list[psutil.Process]]:
        run = await measurement(agent, store)
        await run.fleet.open_sessions(store.run_id)
        try:
            await run._start_tracers()
            return run.tracing["node1"], children(agent)
        finally:
            await run.fleet.close()

    tracing, running = asyncio.run(use())
    assert tracing["state"] == "unavailable" and "not ready within 1 s" in tracing["reason"]
    assert running == []
    assert {path.name: path.read_text() for path in store.node_dir("node1").iterdir()} == {"trace.log": "pondering\n"}


def test_a_controller_that_comes_back_knows_how_was_traced(agent: Running, tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "demo")

    async def use() -> tuple[dict[str, Any], dict[str, Any]]:
        died = await measurement(agent, store)
        await died.fleet.open_sessions(store.run_id)
        store.append_event("run_start")
        await died._start_tracers()
        await died.fleet.close()
        back = await measurement(agent, store)
        await back.adopt()
        await back.fleet.close()
        return died.tracing, back.tracing

    before, after = asyncio.run(use())
    assert before == after == {"node1": {"state": "traced", "by": "process", "reason": None}}
    assert (store.node_dir("node1") / "trace.json").is_file()
