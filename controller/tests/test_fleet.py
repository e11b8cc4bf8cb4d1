"""What breaks a run, and what becomes of the rest; the agents are stand-ins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.api import agent_pb2 as api
from controller.client import Certificates
from controller.errors import InterruptedRunError, RunError
from controller.fleet import Fleet

State = api.JobEvent


def with_fleet(use: Any) -> Any:
    async def go() -> Any:
        fleet = Fleet({}, cast(Certificates, None))
        fleet.agents = {name: cast(Any, SimpleNamespace(node=name)) for name in ("a", "b", "c")}
        return await use(fleet)

    return asyncio.run(asyncio.wait_for(go(), 60))


class Work:
    """Goes on for ever."""

    ended = False

    async def go(self) -> None:
        try:
            await asyncio.sleep(300)
        finally:
            self.ended = True


def test_nodes_are_asked_at_once_and_the_first_error_ends_the_others() -> None:
    async def use(fleet: Fleet) -> None:
        together = asyncio.Barrier(2)

        async def name(agent: Any) -> str:
            await asyncio.wait_for(together.wait(), 20)
            return str(agent.node)

        assert await fleet.each(["c", "a"], name) == {"c": "c", "a": "a"}
        works = {"a": Work(), "c": Work()}

        def do(agent: Any) -> Coroutine[Any, Any, None]:
            async def fails() -> None:
                await asyncio.sleep(0)
                raise RunError("out of luck", node="b")

            return fails() if agent.node == "b" else works[agent.node].go()

        with pytest.raises(RunError, match="b: out of luck"):
            await fleet.each(fleet.agents, do)
        assert all(work.ended for work in works.values())

    with_fleet(use)


def test_the_first_failure_ends_the_work_and_later_ones_follow_from_it() -> None:
    async def use(fleet: Fleet) -> None:
        async def result() -> int:
            return 7

        assert await fleet.unless_failed(result()) == 7
        work = Work()
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, fleet.fail, InterruptedRunError("interrupted"))
        loop.call_later(0.06, fleet._on_lost, "a", "the agent is gone")
        with pytest.raises(InterruptedRunError, match="interrupted"):
            await fleet.unless_failed(work.go())
        assert work.ended
        await asyncio.sleep(0.1)
        with pytest.raises(InterruptedRunError, match="interrupted"):
            await fleet.unless_failed(work.go())

    with_fleet(use)


@pytest.mark.parametrize(
    ("state", "message", "failure"),
    [
        (State.RUNNING, "", None),
        (State.READY, "", None),
        (State.DONE, "", "a: tracer: it ended before it was stopped"),
        (State.FAILED, "killed by signal 9", "a: tracer: killed by signal 9"),
    ],
)
def test_only_the_end_of_a_job_that_must_live_fails_the_run(state: Any, message: str, failure: str | None) -> None:
    async def use(fleet: Fleet) -> None:
        event = api.JobEvent(job_id="tracer", state=state, message=message, status_json=json.dumps({"completions": 3}))
        fleet._on_event("a", event)
        fleet._on_event("a", api.JobEvent(job_id="tracer", state=State.RUNNING))
        assert fleet.status == {("a", "tracer"): {"completions": 3}}, "what says nothing takes nothing back"
        fleet.must_live = {("b", "tracer"), ("a", "w-run")}
        fleet._on_event("a", event)
        assert not fleet._failure.done()
        fleet.must_live.add(("a", "tracer"))
        fleet._on_event("a", event)
        if failure is None:
            assert not fleet._failure.done()
        else:
            with pytest.raises(RunError, match=failure):
                await fleet.unless_failed(Work().go())

    with_fleet(use)
