"""The agent's gRPC service (mutual TLS: whoever has no certificate of this cluster's CA is refused)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import grpc

from agent.api import agent_pb2 as api
from agent.api import agent_pb2_grpc as api_grpc
from agent.config import AgentConfig
from agent.facts import collect_facts
from agent.metrics import serve_metrics
from agent.programs import JobRefusedError
from agent.session import Session as Lease

Context = grpc.aio.ServicerContext[Any, Any]
LOG = logging.getLogger("agent")
_CHUNK_BYTES = 1 << 20
_HIDDEN = {"job.properties"}  # may hold a password
#: A controller asks a silent agent every 10 s whether it is there (controller/client.py); unasked, gRPC takes that for
#: abuse and closes the connection.
_PINGS = ("grpc.http2.min_ping_interval_without_data_ms", 5_000)


class AgentService(api_grpc.AgentServicer):
    """Implements ``agent.proto``; every method's contract stands there."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.session: Lease | None = None

    async def GetFacts(self, request: api.Empty, context: Context) -> api.Facts:
        facts = await asyncio.to_thread(collect_facts, self.config)
        return api.Facts(json=json.dumps(facts))

    async def ReadClock(self, request: api.Empty, context: Context) -> api.ClockReading:
        return api.ClockReading(t_unix_ns=time.time_ns(), t_mono_ns=time.monotonic_ns())

    async def Session(
        self, requests: AsyncIterator[api.SessionRequest], context: Context
    ) -> AsyncIterator[api.JobEvent]:
        first = await anext(aiter(requests))
        if self.session is not None:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"run {self.session.run_id} is using this agent")
        try:
            session = self.session = Lease(first.run_id, self.config)
        except (JobRefusedError, OSError) as error:
            await self._refuse(context, error)
        LOG.info("session of run %s", session.run_id)
        lease = asyncio.create_task(_lease(requests, first.lease_ms / 1000))
        why = "the controller's stream broke"
        try:
            yield api.JobEvent(t_unix_ns=time.time_ns())  # without a job: the session is open
            async for event in _events_until(session, lease):
                yield event
            why = lease.result()
        finally:
            lease.cancel()
            # Shielded: the stream's own cancellation must not cancel the cleaning up.
            await asyncio.shield(self._close(session, why))

    async def _close(self, session: Lease, why: str) -> None:
        await session.close(why)
        self.session = None
        LOG.info("session of run %s closed: %s", session.run_id, why)

    async def StartJob(self, request: api.JobSpec, context: Context) -> api.JobEvent:
        try:
            return await self._open_session().start(request)
        except (JobRefusedError, OSError) as error:
            await self._refuse(context, error)

    async def Go(self, request: api.GoRequest, context: Context) -> api.Empty:
        try:
            await self._open_session().job(request.job_id).go(request.start_unix_ns)
        except (JobRefusedError, RuntimeError, OSError) as error:
            await self._refuse(context, error)
        return api.Empty()

    async def StopJob(self, request: api.StopRequest, context: Context) -> api.JobEvent:
        try:
            return await self._open_session().job(request.job_id).stop(request.grace_ms / 1000)
        except JobRefusedError as error:
            await self._refuse(context, error)

    async def ListFiles(self, request: api.JobRef, context: Context) -> api.FileList:
        try:
            folder = self._open_session().folder_of(request.job_id)
        except JobRefusedError as error:
            await self._refuse(context, error)
        paths = sorted(p for p in folder.iterdir() if p.is_file() and p.name not in _HIDDEN)
        return api.FileList(files=[await asyncio.to_thread(_entry, path) for path in paths])

    async def FetchFile(self, request: api.FileRequest, context: Context) -> AsyncIterator[api.FileChunk]:
        try:
            path = self._open_session().file(request.job_id, request.name)
            if path.name in _HIDDEN:
                raise JobRefusedError(f"{request.name} is not handed out")
        except JobRefusedError as error:
            await self._refuse(context, error)
        with path.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                yield api.FileChunk(data=data)

    async def EvictPageCache(self, request: api.Empty, context: Context) -> api.Evicted:
        if self.config.data_path is None:
            await self._refuse(context, JobRefusedError("this node has no database data path"))
        return await asyncio.to_thread(_evict, self.config.data_path)

    def _open_session(self) -> Lease:
        if self.session is None:
            raise JobRefusedError("no session is open on this agent")
        return self.session

    async def _refuse(self, context: Context, error: Exception) -> NoReturn:
        code = grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, JobRefusedError) else grpc.StatusCode.INTERNAL
        await context.abort(code, str(error))
        raise AssertionError("context.abort returned")


async def _lease(requests: AsyncIterator[api.SessionRequest], lease_s: float) -> str:
    """Returns, with the reason, when the controller closed the stream or did not renew in time."""
    while True:
        try:
            async with asyncio.timeout(lease_s):
                await anext(aiter(requests))
        except StopAsyncIteration:
            return "the controller closed the session"
        except TimeoutError:
            return f"no sign of life from the controller for {lease_s:.0f} s"


async def _events_until(session: Lease, lease: asyncio.Task[str]) -> AsyncIterator[api.JobEvent]:
    while True:
        event = asyncio.create_task(session.events.get())
        done, _ = await asyncio.wait({event, lease}, return_when=asyncio.FIRST_COMPLETED)
        if lease in done:
            event.cancel()
            return
        yield event.result()


def _entry(path: Path) -> api.FileEntry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return api.FileEntry(name=path.name, size_bytes=path.stat().st_size, sha256=digest)


def _evict(folder: Path) -> api.Evicted:
    """Writes back and drops the cached pages of every file below ``folder`` (posix_fadvise(2), DONTNEED)."""
    os.sync()  # dirty pages are not dropped
    files = size = 0
    # Not rglob, which fails at a directory that the database deletes meanwhile.
    paths = (Path(directory) / name for directory, _, names in os.walk(folder) for name in names)
    for path in paths:
        try:
            if not path.is_file():
                continue
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # deleted by the database meanwhile
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            files, size = files + 1, size + os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    return api.Evicted(files=files, bytes=size)


def _credentials(config: AgentConfig) -> grpc.ServerCredentials:
    pair = (config.tls["key"].read_bytes(), config.tls["certificate"].read_bytes())
    return grpc.ssl_server_credentials([pair], config.tls["ca"].read_bytes(), require_client_auth=True)


async def serve(config: AgentConfig) -> None:
    """Serves until SIGTERM or SIGINT; then ends what runs. Raises OSError when the port cannot be had."""
    service = AgentService(config)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), _PINGS])
    api_grpc.add_AgentServicer_to_server(service, server)
    where = f"{config.address}:{config.port}"
    try:
        bound = server.add_secure_port(where, _credentials(config))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {where}: {error}") from error
    if not bound:
        raise OSError(f"cannot listen on {where}: the port is in use")
    serve_metrics(config, lambda: service.session)
    await server.start()
    LOG.info("agent of %s listens on %s, metrics on port %d", config.node, where, config.metrics_port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    if service.session is not None:
        await service.session.close("the agent was stopped")
    await server.stop(grace=1)
