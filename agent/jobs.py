"""Jobs: the processes that an agent starts, watches and ends.

A job ends in one of four ways: by itself, by ``stop``, by its deadline, or with its session. In each of them its
process is gone before its last event is published. Should the agent itself be killed, the kernel ends the process
(``setpriv --pdeathsig``, see prctl(2)): nothing outlives the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from io import FileIO
from pathlib import Path
from typing import Any

from agent.api import agent_pb2 as api
from agent.programs import Launch

State = api.JobEvent
Publish = Callable[[api.JobEvent], None]
LOG = logging.getLogger("agent")
#: What a client has counted, by the names in its status.
_COUNTS = ("operations", "planned", "errors")
_POLL_S = 1.0
_LAST_WORDS = 8
#: Between TERM and KILL. A client whose database hangs needs 12 s until its summary is written (WorkerThreads.java: 2 s
#: in which operations may end by themselves, 10 s after it has interrupted their threads); the unit of an agent gives
#: it 30 s.
STOP_GRACE_S = 15.0


class Job:
    """One process. ``publish`` is called with every change of state and every status, on the event loop."""

    def __init__(self, job_id: str, launch: Launch, deadline_s: float, publish: Publish) -> None:
        self.job_id = job_id
        self.launch = launch
        self.status: dict[str, Any] = {}
        self._deadline_s = deadline_s
        self._publish = publish
        self._state: api.JobEvent.State.ValueType = State.STARTING
        self._last_words: list[str] = []
        self._ended_because = ""
        self._overdue = False
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        self.last_event = self._event("")

    @property
    def running(self) -> bool:
        return not self.ended.is_set()

    async def start(self) -> None:
        """Starts the process; its further life is published. Raises OSError when it cannot be started."""
        death = ["setpriv", "--pdeathsig", self.launch.death_signal.name.removeprefix("SIG"), "--"]
        stdout = self.launch.stdout_file.open("wb") if self.launch.stdout_file else asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *death, *self.launch.argv, cwd=self.launch.folder, start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=stdout, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        finally:
            if not isinstance(stdout, int):
                stdout.close()
        self._watch = asyncio.create_task(self._live(self._process))

    async def go(self, start_unix_ns: int) -> None:
        """Hands a waiting client its start instant."""
        if self._process is None or self._process.stdin is None or not self.running:
            raise RuntimeError(f"{self.job_id} is not waiting for a start")
        self._process.stdin.write(f"{start_unix_ns}\n".encode())
        await self._process.stdin.drain()

    async def stop(self, grace_s: float, because: str = "") -> api.JobEvent:
        """TERM, then KILL after ``grace_s``; returns the last event, when the process is gone."""
        self._ended_because = self._ended_because or because
        process = self._process
        if process is not None and self.running:
            await _end(process, grace_s)
            await self.ended.wait()
        return self.last_event

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        readers = [asyncio.create_task(self._read_stderr(process.stderr))]
        if process.stdout is not None:
            readers.append(asyncio.create_task(self._read_stdout(process.stdout)))
        polling = asyncio.create_task(self._poll_status()) if self.launch.status_file is not None else None
        try:
            exit_code = await asyncio.wait_for(process.wait(), self._deadline_s)
        except TimeoutError:
            self._overdue = True
            self._ended_because = f"its deadline of {self._deadline_s:.0f} s passed"
            exit_code = await _end(process, STOP_GRACE_S)
        # Whatever became of them: an end that is told to nobody would keep the session and the agent for ever.
        for failure in await asyncio.gather(*readers, return_exceptions=True):
            if failure is not None:
                LOG.error("reading what %s says: %r", self.job_id, failure)
        if polling is not None:
            polling.cancel()
        self._read_status_file()
        if self.launch.at_end is not None:
            with contextlib.suppress(OSError):  # a full disk has ended the program, too, which said so
                self.launch.at_end()
        self._end(exit_code)

    def _end(self, exit_code: int) -> None:
        # A tracer ends in order when it is stopped, a client only when it has done all its operations.
        cut_off = self._overdue or (self._ended_because and self.launch.kind != "tracer")
        done = exit_code == 0 and not cut_off
        message = "" if done else self._why(exit_code)
        self._state = State.DONE if done else State.FAILED
        self.last_event = self._event(message, exit_code)
        self.ended.set()
        self._publish(self.last_event)

    def _why(self, exit_code: int) -> str:
        how = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        words = self.status.get("message") or " | ".join(self._last_words)
        return ": ".join(part for part in (self._ended_because, how, words) if part)

    async def _read_stderr(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        with _open_log(self.launch.folder / "stderr.log") as log:
            async for line in _lines(stream):
                if line.startswith(b"{") and (status := _parse(line)) is not None:
                    self._take(status)
                else:
                    # On a full disk the reading goes on: else the program waits for its reader.
                    with contextlib.suppress(OSError):
                        log.write(line)
                    self._last_words = [*self._last_words, line.decode(errors="replace").strip()][-_LAST_WORDS:]

    async def _read_stdout(self, stream: asyncio.StreamReader) -> None:
        async for line in _lines(stream):
            if line.strip() == b"ready":
                self._take({**self.status, "state": "ready"})
            elif (status := _parse(line)) is not None:
                self._take(status)

    async def _poll_status(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            if self._read_status_file():
                self._publish(self._event(""))

    def _read_status_file(self) -> bool:
        if self.launch.status_file is None:
            return False
        try:
            status = _parse(self.launch.status_file.read_bytes())
        except OSError:
            return False
        self.status = status or self.status
        return status is not None

    def _take(self, status: dict[str, Any]) -> None:
        # Warnings and last words come without counts: what was counted before stands.
        self.status = {**{name: self.status[name] for name in _COUNTS if name in self.status}, **status}
        state = str(status.get("state"))
        if state != "failed":  # which also says who could not begin, and so was never ready
            self._state = {"ready": State.READY, "connecting": State.STARTING}.get(state, State.RUNNING)
        self._publish(self._event(""))

    def _event(self, message: str, exit_code: int = 0) -> api.JobEvent:
        return api.JobEvent(
            job_id=self.job_id, state=self._state, exit_code=exit_code, message=message,
            status_json=json.dumps(self.status), t_unix_ns=time.time_ns(),
        )  # fmt: skip


def _open_log(path: Path) -> FileIO:
    """Unbuffered, so that a full disk is met when a line is written and not when the file is closed."""
    try:
        return path.open("wb", buffering=0)
    except OSError as error:
        LOG.error("%s: %s", path, error.strerror)
        return Path(os.devnull).open("wb", buffering=0)


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> int:
    """TERM, then KILL after ``grace_s``; returns the exit code. What writes files writes the last of them at TERM."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        return await asyncio.wait_for(process.wait(), grace_s)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: an overlong one (over the stream's limit) is passed on in pieces, not lost."""
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            if end.partial:
                yield end.partial
            return
        except asyncio.LimitOverrunError as overrun:
            line = await stream.readexactly(overrun.consumed)
        yield line


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
