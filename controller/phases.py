"""The measured part of a run: tracers on, each phase from its preparation to its last operation, tracers off.

Whatever happens, the files that exist are collected: a partial run keeps its data and says what is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import time
from typing import Any

from agent.api import agent_pb2 as api
from controller.client import AgentClient
from controller.databases.base import Database
from controller.errors import DeployError, RunError, StrataError
from controller.fleet import Fleet
from controller.phase_progress import PhaseProgress
from controller.plan import Plan, PlannedNode, PlannedPhase, PlannedShard, PlannedTrace
from controller.progress import Progress
from controller.results.store import RunStore

TRACER = "tracer"
_TRACER_READY_S = 30.0
_CONNECT_S = 90.0
_ADMIN_S = 3600  # an exact count goes through the whole table; that its node is gone is noticed before (client.py)
_STOP_GRACE_S = 15.0
_REOPEN_ATTEMPTS = 20
_START_AHEAD_NS = 400_000_000


class Measurement:
    """One run over the agents of ``fleet``; results go to ``store``. ``fresh``: the database was just deployed."""

    def __init__(
        self,
        plan: Plan,
        fleet: Fleet,
        database: Database,
        store: RunStore,
        progress: Progress,
        *,
        fresh: bool = False,
    ) -> None:
        self.plan = plan
        self.fleet = fleet
        self.database = database
        self.store = store
        self.progress = progress
        self.fresh = fresh
        self.facts: dict[str, dict[str, Any]] = {}
        self.tracing: dict[str, dict[str, Any]] = {}
        self.measured_phases: list[str] = []
        self._offsets_ns: dict[str, int] = {}
        self._error_bound_ns = 0
        self._uncollected: set[tuple[str, str]] = set()

    async def prepare(self) -> None:
        """Connects to the agents, reads facts and clocks. Raises DeployError: nothing has been measured."""
        await self.fleet.connect()
        self.facts = await self.fleet.facts()
        for node, facts in self.facts.items():
            self.store.node_dir(node).mkdir(parents=True, exist_ok=True)
            (self.store.node_dir(node) / "facts.json").write_text(json.dumps(facts, indent=1))
        self._check_tracing()
        try:
            await self.fleet.open_sessions(self.store.run_id)
        except RunError as error:
            raise DeployError(error.what, node=error.node, hint="wait for the other run, or stop it") from error

    async def run(self) -> None:
        """Runs every phase. Raises the run's first failure after collecting what there is."""
        try:
            await self.fleet.unless_failed(self._script())
        finally:
            await self._collect_rest()
            self._note_end()

    async def adopt(self) -> None:
        """After the death of the controller that began this run: fetches the files that the agents still hold."""
        await self.fleet.connect()
        self.facts = await self.fleet.facts()
        await self.fleet.each(self.fleet.agents, self._reopen_session)
        traced_by = {traced.node: self._traced_by(traced) for traced in self.plan.trace.nodes}
        held = [(node, TRACER) for node in traced_by]
        held += [(shard.client, phase.name) for phase in self.plan.phases for shard in phase.shards]
        for node, job_id in held:
            with contextlib.suppress(StrataError, OSError):  # most jobs were never started, or collected in time
                await self._collect(node, job_id)
                if job_id == TRACER:
                    self.tracing[node] = {"state": "traced", "by": traced_by[node], "reason": None}
        self._read_written_phases()
        self._note_end()

    async def _reopen_session(self, agent: AgentClient) -> None:
        """An agent first ends the jobs of the session that broke; until then it refuses another."""
        for _ in range(_REOPEN_ATTEMPTS):
            with contextlib.suppress(RunError):
                return await agent.open_session(self.store.run_id)
            await asyncio.sleep(1)
        return await agent.open_session(self.store.run_id)

    def _note_end(self) -> None:
        """The end of the time axis, also of a run that was cut short."""
        with contextlib.suppress(StrataError):  # a full disk has been said already
            self.store.append_event("run_end")

    def _read_written_phases(self) -> None:
        ended = {event["phase"] for event in self.store.events() if event["event"] == "phase_end"}
        self.measured_phases = [phase.name for phase in self.plan.phases if phase.name in ended]

    async def _script(self) -> None:
        await self._read_clocks()
        self.store.append_event("run_start")
        await self._start_tracers()
        for phase in self.plan.phases:
            await self._phase(phase)
        await self._stop_tracers()
        await self._read_clocks()

    def _check_tracing(self) -> None:
        if self.plan.trace.wanted == "off":
            self.tracing = {n.name: {"state": "off", "reason": "switched off"} for n in self._servers()}
        for traced in self.plan.trace.nodes:
            check = self.facts[traced.node]["tracing"]
            if not check["can_trace"]:
                self._without_trace(traced.node, check.get("reason", "unknown"))

    def _without_trace(self, node: str, reason: str) -> None:
        if self.plan.trace.wanted == "required":
            raise DeployError(
                f"tracing is required and not possible: {reason}",
                node=node,
                hint="what the tracer needs: docs/tracer-kernels.md; or set tracing=preferred",
            )
        self.tracing[node] = {"state": "unavailable", "reason": reason}
        self.progress.line(f"{node}: I/O is not traced: {reason}")

    async def _read_clocks(self) -> None:
        for node, reading in (await self.fleet.clocks()).items():
            self._offsets_ns[node] = reading.offset_ns
            self._error_bound_ns = max(self._error_bound_ns, reading.error_bound_ns)
            path = self.store.node_dir(node) / "clock.csv"
            new = not path.exists()
            with path.open("a", newline="") as file:
                writer = csv.writer(file)
                if new:
                    writer.writerow(["t_unix_ns", "t_mono_ns", "offset_ns", "error_bound_ns"])
                writer.writerow([reading.t_unix_ns, reading.t_mono_ns, reading.offset_ns, reading.error_bound_ns])

    async def _start_tracers(self) -> None:
        for traced in self.plan.trace.nodes:
            node = traced.node
            if node in self.tracing:
                continue
            by = self._traced_by(traced)
            spec = api.TracerSpec(
                by=api.TracerSpec.DEVICE if by == "device" else api.TracerSpec.PROCESS,
                without_context=not self.plan.trace.context,
                without_calls=not self.plan.trace.calls,
                context_without=self.plan.trace.context_without,
            )
            agent = self.fleet.agents[node]
            try:
                await agent.start(api.JobSpec(job_id=TRACER, deadline_ms=self._deadline_ms(), tracer=spec))
                await agent.ready(TRACER, _TRACER_READY_S)
            except RunError as error:
                await self._give_up_tracer(node)
                self._without_trace(node, error.what)
                continue
            self._uncollected.add((node, TRACER))
            self.fleet.must_live.add((node, TRACER))
            self.tracing[node] = {"state": "traced", "by": by, "reason": None}

    def _traced_by(self, traced: PlannedTrace) -> str:
        """By device only where the disk holds nothing but this node's data."""
        return "device" if traced.by == "device" and self.facts[traced.node]["data"]["own_disk"] else "process"

    async def _give_up_tracer(self, node: str) -> None:
        """Ends a tracer that did not become ready, if it runs: it would cost time in a run that says it has none."""
        agent, folder = self.fleet.agents[node], self.store.node_dir(node)
        with contextlib.suppress(StrataError, OSError):  # none was started, or there is no log: the reason is known
            await agent.stop(TRACER, _STOP_GRACE_S)
            await agent.fetch(TRACER, folder, only="stderr.log")
            (folder / "stderr.log").rename(folder / "trace.log")

    async def _stop_tracers(self) -> None:
        nodes = [node for node, job in self._uncollected if job == TRACER]
        for node in nodes:
            self.fleet.must_live.discard((node, TRACER))
        ends = await self.fleet.each(nodes, lambda agent: agent.stop(TRACER, _STOP_GRACE_S))
        for node in nodes:
            await self._collect(node, TRACER)
            if ends[node].state != api.JobEvent.DONE:
                raise RunError(f"tracer: {ends[node].message}", node=node)

    async def _phase(self, phase: PlannedPhase) -> None:
        for preparation in phase.before:
            await self._prepare_phase(phase, preparation)
        self.progress.status(f"{phase.name}: clients connect")
        shards = {shard.client: shard for shard in phase.shards}
        for client, shard in shards.items():
            self._uncollected.add((client, phase.name))
            await self.fleet.agents[client].start(self._client_job(phase, shard))
        await self.fleet.each(shards, lambda agent: agent.ready(phase.name, _CONNECT_S))
        await self._go(phase)
        with PhaseProgress(self.plan, phase, self.fleet, self.progress):
            ends = await self._ends(phase)
        self.store.append_event("phase_end", phase=phase.name)
        await self.fleet.each(shards, lambda agent: self._collect(agent.node, phase.name))
        self._check_ends(phase, ends)
        self.measured_phases.append(phase.name)
        if phase.kind == "load":
            await self._count(phase)
            self._note_regions(phase, await self._admin(phase, "status"))

    async def _go(self, phase: PlannedPhase) -> None:
        await self._read_clocks()  # one may have been set since
        start_unix_ns = time.time_ns() + _START_AHEAD_NS + self._error_bound_ns
        for shard in phase.shards:
            await self.fleet.agents[shard.client].go(phase.name, start_unix_ns + self._offsets_ns[shard.client])
        self.store.append_event("phase_start", t_unix_ns=start_unix_ns, phase=phase.name, kind=phase.kind)

    async def _ends(self, phase: PlannedPhase) -> dict[str, api.JobEvent]:
        """Waits for all clients; the first failure stops the others, which keep what they measured."""
        names = [shard.client for shard in phase.shards]
        tasks = {asyncio.create_task(self.fleet.agents[name].end(phase.name)): name for name in names}
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result().state == api.JobEvent.FAILED for task in done):
                break
        if pending:
            stops = (self.fleet.agents[tasks[task]].stop(phase.name, _STOP_GRACE_S) for task in pending)
            await asyncio.gather(*stops, return_exceptions=True)
        return {name: task.result() for task, name in tasks.items() if task.done()}

    def _check_ends(self, phase: PlannedPhase, ends: dict[str, api.JobEvent]) -> None:
        for client, end in ends.items():
            if end.state != api.JobEvent.DONE:
                log = self.store.client_dir(client, phase.name) / "stderr.log"
                raise RunError(f"{phase.name}: the client failed: {end.message}", node=client, log=str(log))

    async def _prepare_phase(self, phase: PlannedPhase, preparation: str) -> None:
        if preparation == "drop" and self.fresh:
            return
        self.progress.status(f"{phase.name}: {preparation.replace('_', ' ')}")
        more: dict[str, Any] = {}
        if preparation in ("drop", "flush"):
            answer = await self._admin(phase, preparation)
            if preparation == "flush":
                self._note_regions(phase, answer)
        else:
            servers = [node.name for node in self._servers()]
            each = await self.fleet.each(servers, lambda agent: agent.evict_page_cache())
            more["evicted"] = {node: {"files": of.files, "bytes": of.bytes} for node, of in each.items()}
        self.store.append_event("prepared", phase=phase.name, preparation=preparation, **more)

    async def _count(self, phase: PlannedPhase) -> None:
        rows = (await self._admin(phase, "count"))["rows"]
        self.store.append_event("rows_counted", phase=phase.name, rows=rows, planned=phase.record_count)
        if rows != phase.record_count:
            raise RunError(f"{phase.name}: {phase.record_count} records were loaded, {self.database.name} holds {rows}")

    def _note_regions(self, phase: PlannedPhase, answer: dict[str, Any]) -> None:
        """How many regions of its table each server has, and which part of their bytes on disk lies on its own node:
        an uneven table does not use all servers alike, and what lies elsewhere costs a way over the network."""
        placed: dict[str, int] | None = answer.get("table_regions")
        if placed is None:  # a database without regions
            return
        at = {address: node for node, addresses in self.database.ports().items() for address in addresses}
        shares: dict[str, float | None] = answer["table_locality"] if self.database.has_locality else {}
        locality = {at.get(address, address): share for address, share in shares.items() if share is not None}
        regions = dict.fromkeys((node.name for node in self._servers()), 0)
        for address, count in placed.items():
            regions[at.get(address, address)] = regions.get(at.get(address, address), 0) + count
        self.store.append_event(
            "regions_placed", phase=phase.name, table=phase.table, regions=regions, locality=locality
        )
        if max(regions.values()) - min(regions.values()) > 1:
            self.progress.line(f"{phase.name}: the regions of {phase.table} are not spread evenly: {regions}")

    async def _admin(self, phase: PlannedPhase, verb: str) -> dict[str, Any]:
        """Database maintenance, run on the first client node."""
        client = phase.shards[0].client
        job_id = f"{phase.name}-{verb}"
        properties = {**self.database.settings(), **phase.properties}
        spec = api.AdminSpec(verb=verb, binding=self.plan.database.binding, properties=properties)
        agent = self.fleet.agents[client]
        await agent.start(api.JobSpec(job_id=job_id, deadline_ms=_ADMIN_S * 1000, admin=spec))
        end = await agent.end(job_id)
        if end.state != api.JobEvent.DONE:
            raise RunError(f"{phase.name}: {verb} failed: {end.message}", node=client)
        return dict(json.loads(end.status_json))

    def _client_job(self, phase: PlannedPhase, shard: PlannedShard) -> api.JobSpec:
        spec = api.ClientSpec(
            verb=phase.kind,
            binding=self.plan.database.binding,
            properties={**self.database.settings(), **phase.client_properties(shard)},
            threads=shard.threads,
            target_ops_per_s=shard.target_ops_per_s or 0.0,
            shard=shard.shard,
            shards=shard.shards,
        )
        return api.JobSpec(job_id=phase.name, deadline_ms=self._deadline_ms(), client=spec)

    async def _collect(self, node: str, job_id: str) -> None:
        tracer = job_id == TRACER
        folder = self.store.node_dir(node) if tracer else self.store.client_dir(node, job_id)
        await self.fleet.agents[node].fetch(job_id, folder)
        if tracer:
            (folder / "io.bin.json").rename(folder / "trace.json")
            (folder / "stderr.log").rename(folder / "trace.log")
        self._uncollected.discard((node, job_id))

    async def _collect_rest(self) -> None:
        """After a failure: stops what still runs and fetches what can be had; what cannot is said, not raised."""
        self.fleet.must_live.clear()

        async def rest(node: str, job_id: str) -> None:
            agent = self.fleet.agents[node]
            if not agent.alive:
                self.progress.line(f"{node}: {job_id}: its files are lost with the agent")
                return
            try:
                await agent.stop(job_id, _STOP_GRACE_S)
                await self._collect(node, job_id)
            except (StrataError, OSError) as error:
                self.progress.line(f"{node}: {job_id}: not collected: {error}")

        await asyncio.gather(*(rest(node, job) for node, job in sorted(self._uncollected)))

    def _servers(self) -> list[PlannedNode]:
        return [node for node in self.plan.nodes if "database" in node.roles]

    def _deadline_ms(self) -> int:
        return self.plan.deadline_s * 1000
