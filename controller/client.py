"""One agent as the controller sees it: a connection, a session that keeps its jobs alive, their events, their files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from agent.api import agent_pb2 as api
from agent.api import agent_pb2_grpc as api_grpc
from controller.clock import ClockReading, read_offset
from controller.errors import DeployError, RunError

LEASE_MS = 10_000
_BEAT_S = 2.0
_CALL_S = 30.0
_DISK_S = 3600.0  # of calls that write back all dirty pages, or read whole traces
_T = TypeVar("_T")
#: A node that loses its power or its network closes no connection, and TCP alone notices after a quarter of an hour
#: (tcp_retries2 in ip-sysctl of the kernel). So a silent agent is asked whether it is there.
_KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # of a ping that gRPC sends to measure the way: it holds up the one above
    ("grpc.http2.max_pings_without_data", 0),  # as many as it takes
]
#: Nodes are reached at their addresses; proxies that the environment names are for others.
_DIRECT = ("grpc.enable_http_proxy", 0)
ENDED = (api.JobEvent.DONE, api.JobEvent.FAILED)


@dataclass(frozen=True)
class Certificates:
    """The controller's own certificate and key, and the CA of the cluster (PEM files)."""

    ca: Path
    certificate: Path
    key: Path

    def credentials(self) -> grpc.ChannelCredentials:
        """Channel credentials. Raises DeployError when a file is missing."""
        try:
            return grpc.ssl_channel_credentials(
                self.ca.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
            )
        except OSError as error:
            raise DeployError(f"cannot read {error.filename}: {error.strerror}", hint="run `strata deploy`") from error


class AgentClient:
    """A node's agent. ``on_event(node, event)`` and ``on_lost(node, why)`` are called on the event loop."""

    def __init__(
        self,
        node: str,
        address: str,
        certificates: Certificates,
        on_event: Callable[[str, api.JobEvent], None],
        on_lost: Callable[[str, str], None],
    ) -> None:
        self.node = node
        self.address = address
        self._channel = grpc.aio.secure_channel(address, certificates.credentials(), options=[_DIRECT, *_KEEPALIVE])
        self._stub = api_grpc.AgentStub(self._channel)
        self._on_event = on_event
        self._on_lost = on_lost
        self._session: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()
        self._ends: dict[str, asyncio.Future[api.JobEvent]] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self.alive = False

    async def connect(self, timeout_s: float) -> None:
        """Waits for the agent. Raises DeployError when it does not answer in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._channel.channel_ready()
        except TimeoutError:
            raise DeployError(
                f"the agent at {self.address} does not answer within {timeout_s:.0f} s",
                node=self.node,
                hint="run `strata deploy`, and see the agent's log on the node",
            ) from None

    async def facts(self) -> dict[str, Any]:
        """What the agent knows of its node."""
        reply = await self._call(self._stub.GetFacts(api.Empty(), timeout=_CALL_S))
        return dict(json.loads(reply.json))

    async def read_clock(self) -> ClockReading:
        """The node's clock against the controller's."""

        async def ask() -> tuple[int, int]:
            reading = await self._call(self._stub.ReadClock(api.Empty(), timeout=_CALL_S))
            return reading.t_unix_ns, reading.t_mono_ns

        return await read_offset(ask)

    async def open_session(self, run_id: str) -> None:
        """Opens the lease and keeps renewing it until ``close``. Raises RunError when the agent refuses."""
        self._opened = asyncio.get_running_loop().create_future()
        self._session = asyncio.create_task(self._hold_session(run_id))
        try:
            await asyncio.wait_for(self._opened, _CALL_S)
        except TimeoutError:
            raise RunError("the agent did not open a session", node=self.node) from None
        self.alive = True

    async def start(self, spec: api.JobSpec) -> None:
        """Starts a job. Raises RunError when the agent refuses."""
        self._ends[spec.job_id] = asyncio.get_running_loop().create_future()
        self._ready[spec.job_id] = asyncio.Event()
        try:
            await self._stub.StartJob(spec, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            raise RunError(f"{spec.job_id}: {error.details()}", node=self.node) from error

    async def ready(self, job_id: str, timeout_s: float) -> None:
        """Waits until the job says that it is ready. Raises RunError when it ends before or takes too long."""
        ready = asyncio.create_task(self._ready[job_id].wait())
        end = self._ends[job_id]
        waiting: set[asyncio.Future[Any]] = {ready, end}
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._ready[job_id].is_set():
            return
        if end.done():
            raise RunError(f"{job_id} ended before it was ready: {end.result().message}", node=self.node)
        raise RunError(f"{job_id} was not ready within {timeout_s:.0f} s", node=self.node)

    async def go(self, job_id: str, start_unix_ns: int) -> None:
        """Gives a client its start instant, in the node's own time."""
        await self._call(self._stub.Go(api.GoRequest(job_id=job_id, start_unix_ns=start_unix_ns), timeout=_CALL_S))

    async def end(self, job_id: str) -> api.JobEvent:
        """Waits for the job's end."""
        return await asyncio.shield(self._ends[job_id])

    async def stop(self, job_id: str, grace_s: float) -> api.JobEvent:
        """Stops a job in order and returns its last event."""
        request = api.StopRequest(job_id=job_id, grace_ms=int(grace_s * 1000))
        return await self._call(self._stub.StopJob(request, timeout=grace_s + _CALL_S))

    async def evict_page_cache(self) -> api.Evicted:
        """Drops the page cache of the database's files on the node."""
        return await self._call(self._stub.EvictPageCache(api.Empty(), timeout=_DISK_S))

    async def fetch(self, job_id: str, folder: Path, *, only: str | None = None) -> None:
        """Copies a job's files, or one, into ``folder``, checked by sha256. Raises RunError, also for a full disk."""
        listing = await self._call(self._stub.ListFiles(api.JobRef(job_id=job_id), timeout=_DISK_S))
        folder.mkdir(parents=True, exist_ok=True)
        for entry in listing.files:
            if only not in (None, entry.name):
                continue
            if entry.name in ("", "..") or "/" in entry.name:  # a node that was taken over must not write elsewhere
                raise RunError(f"{job_id} has a file {entry.name!r}, which no job writes", node=self.node)
            chunks = self._stub.FetchFile(api.FileRequest(job_id=job_id, name=entry.name), timeout=_DISK_S)
            try:
                digest = await _receive(chunks, folder / entry.name)
            except OSError as error:
                raise RunError(
                    f"cannot write {folder / entry.name}: {error.strerror}", hint="free disk space"
                ) from error
            except grpc.aio.AioRpcError as error:
                raise RunError(f"fetching {entry.name} of {job_id}: {error.details()}", node=self.node) from error
            if digest != entry.sha256:
                raise RunError(f"{entry.name} of {job_id} arrived damaged (sha256 differs)", node=self.node)

    async def close(self) -> None:
        """Closes the session (the agent ends what still runs) and the connection."""
        self.alive = False
        self._closing.set()
        if self._session is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._session, 15)
        await self._channel.close(None)

    async def _hold_session(self, run_id: str) -> None:
        async def beats() -> AsyncIterator[api.SessionRequest]:
            while not self._closing.is_set():
                yield api.SessionRequest(run_id=run_id, lease_ms=LEASE_MS)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), _BEAT_S)

        why = "the agent closed the session"
        try:
            async for event in self._stub.Session(beats()):
                self._take(event)
        except grpc.aio.AioRpcError as error:
            why = f"the agent is gone: {error.code().name}: {error.details()}"
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(RunError(why, node=self.node))
        if self.alive:
            self.alive = False
            for job_id, end in self._ends.items():
                if not end.done():
                    end.set_result(api.JobEvent(job_id=job_id, state=api.JobEvent.FAILED, message=why))
            self._on_lost(self.node, why)

    def _take(self, event: api.JobEvent) -> None:
        if not event.job_id:  # the session is open
            if self._opened is not None and not self._opened.done():
                self._opened.set_result(None)
            return
        if event.job_id in self._ready and event.state in (api.JobEvent.READY, api.JobEvent.RUNNING):
            self._ready[event.job_id].set()
        if event.state in ENDED and (end := self._ends.get(event.job_id)) is not None and not end.done():
            end.set_result(event)
        self._on_event(self.node, event)

    async def _call(self, call: Awaitable[_T]) -> _T:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise RunError(f"the agent answered {error.code().name}: {error.details()}", node=self.node) from error


async def _receive(chunks: AsyncIterable[api.FileChunk], path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        async for chunk in chunks:
            file.write(chunk.data)
            digest.update(chunk.data)
    return digest.hexdigest()
