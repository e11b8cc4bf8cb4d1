"""All agents of a run at once: connect, facts, clocks, sessions; the first thing that breaks, breaks the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from agent.api import agent_pb2 as api
from controller.client import AgentClient, Certificates
from controller.clock import ClockReading
from controller.errors import RunError, StrataError

_T = TypeVar("_T")
_CONNECT_S = 15.0


class Fleet:
    """The agents by node name, the last status of every job, and the first failure."""

    def __init__(self, addresses: dict[str, str], certificates: Certificates) -> None:
        self.agents = {
            node: AgentClient(node, address, certificates, self._on_event, self._on_lost)
            for node, address in addresses.items()
        }
        self.status: dict[tuple[str, str], dict[str, Any]] = {}
        # Jobs whose end is a failure of the run, e.g. a tracer that nobody stopped.
        self.must_live: set[tuple[str, str]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def connect(self) -> None:
        """Raises DeployError naming the first agent that does not answer."""
        await asyncio.gather(*(agent.connect(_CONNECT_S) for agent in self.agents.values()))

    async def facts(self) -> dict[str, dict[str, Any]]:
        """Every node's facts."""
        return await self.each(self.agents, lambda agent: agent.facts())

    async def clocks(self) -> dict[str, ClockReading]:
        """Every node's clock; one node after the other, so that their calls do not delay each other."""
        return {node: await agent.read_clock() for node, agent in self.agents.items()}

    async def open_sessions(self, run_id: str) -> None:
        """Raises RunError when an agent is in use by another run."""
        await self.each(self.agents, lambda agent: agent.open_session(run_id))

    async def each(self, nodes: Iterable[str], do: Callable[[AgentClient], Coroutine[Any, Any, _T]]) -> dict[str, _T]:
        """``do`` on several nodes at once; the first error cancels the rest and is raised."""
        names = list(nodes)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {node: group.create_task(do(self.agents[node])) for node in names}
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return {node: task.result() for node, task in tasks.items()}

    async def unless_failed(self, work: Awaitable[_T]) -> _T:
        """The result of ``work``, or the run's first failure as soon as there is one."""
        task = asyncio.ensure_future(work)
        waiting: set[asyncio.Future[Any]] = {task, self._failure}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._failure.result()
        raise AssertionError("a failure is always an exception")

    def fail(self, error: StrataError) -> None:
        """Ends the run; only the first failure counts, later ones follow from it."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def close(self) -> None:
        """Closes every session; agents end what still runs."""
        self.must_live.clear()
        await asyncio.gather(*(agent.close() for agent in self.agents.values()), return_exceptions=True)
        if self._failure.done():
            self._failure.exception()  # seen
        else:
            self._failure.cancel()

    def _on_event(self, node: str, event: api.JobEvent) -> None:
        status = json.loads(event.status_json or "{}")
        if status:
            self.status[node, event.job_id] = status
        if event.state in (api.JobEvent.DONE, api.JobEvent.FAILED) and (node, event.job_id) in self.must_live:
            why = event.message or "it ended before it was stopped"
            self.fail(RunError(f"{event.job_id}: {why}", node=node, hint="see its log in the results"))

    def _on_lost(self, node: str, why: str) -> None:
        self.fail(RunError(why, node=node, hint="see the agent's log, in the results or on the node"))
