"""The agent as a real process with real certificates; the programs it starts are stand-ins written here."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from agent.api import agent_pb2 as api
from agent.api import agent_pb2_grpc as api_grpc
from agent.server import _evict
from controller import client
from controller.client import AgentClient, Certificates
from controller.errors import DeployError, RunError
from controller.pki import CONTROLLER, ensure_pki, identity

TRACER = Path(__file__).resolve().parents[2] / "tracer" / "build" / "strata-iotrace"

# Says that it is ready, waits for its start, writes it down, and lives until it is stopped.
CLIENT_STAND_IN = """#!/bin/sh
echo '{"state":"ready"}' >&2
read start || exit 5
echo "{\\"state\\":\\"measuring\\",\\"operations\\":7,\\"ops_per_s\\":3.5,\\"start\\":$start}" >&2
echo "$@" > arguments
echo result lines
case "$(cat job.properties)" in *mode=quick*) exit 0;; *mode=broken*) echo out of luck >&2; exit 4;; esac
exec sleep 300
"""


@dataclass
class Running:
    """An agent under test."""

    process: subprocess.Popen[bytes]
    address: str
    metrics: str
    certificates: Certificates
    folder: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_agent(tmp_path: Path, programs: dict[str, Path], pidfiles: dict[str, Path]) -> Iterator[Running]:
    ensure_pki(tmp_path / "pki", {"node1": "127.0.0.1"})
    mine, controller = identity(tmp_path / "pki", "node1"), identity(tmp_path / "pki", CONTROLLER)
    port, metrics = _free_port(), _free_port()
    data = tmp_path / "data"
    data.mkdir()
    config = {
        "node": "node1", "address": "127.0.0.1", "port": port, "metrics_port": metrics, "role": "database",
        "work_dir": str(tmp_path / "work"), "programs": {name: str(program) for name, program in programs.items()},
        "tls": {"ca": str(mine.ca), "certificate": str(mine.certificate), "key": str(mine.key)},
        "data_path": str(data), "data_is_own_disk": False,
        "database_pidfiles": {name: str(pidfile) for name, pidfile in pidfiles.items()},
    }  # fmt: skip
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(config))
    process = subprocess.Popen([sys.executable, "-m", "agent", "--config", str(path)])
    certificates = Certificates(controller.ca, controller.certificate, controller.key)
    try:
        yield Running(process, f"127.0.0.1:{port}", f"http://127.0.0.1:{metrics}/metrics", certificates, tmp_path)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Running]:
    program = tmp_path / "client-stand-in"
    program.write_text(CLIENT_STAND_IN)
    program.chmod(0o755)
    with running_agent(tmp_path, {"client": program, "admin": program}, {}) as running:
        yield running


@pytest.fixture
def tracing_agent(tmp_path: Path) -> Iterator[Running]:
    """With the real tracer, where it can trace. The database is this test."""
    if not TRACER.exists():
        pytest.skip("the tracer is not built: make -C tracer")
    check = json.loads(subprocess.run([TRACER, "--check"], check=False, capture_output=True, text=True).stdout)
    if not check["can_trace"]:
        pytest.skip(f"cannot trace here: {check['reason']}")
    pidfile = tmp_path / "database.pid"
    pidfile.write_text(f"{os.getpid()}\n")
    with running_agent(tmp_path, {"tracer": TRACER}, {"database": pidfile}) as running:
        yield running


class Recorder:
    """A connected controller that keeps what it is told."""

    def __init__(self, agent: Running) -> None:
        self.events: list[api.JobEvent] = []
        self.lost: list[str] = []
        self.client = AgentClient(
            "node1",
            agent.address,
            agent.certificates,
            lambda _, event: self.events.append(event),
            lambda _, why: self.lost.append(why),
        )


def job(job_id: str = "job", mode: str = "endless", deadline_ms: int = 60_000) -> api.JobSpec:
    client = api.ClientSpec(verb="run", binding="noop", properties={"mode": mode}, threads=2, shard=0, shards=1)
    return api.JobSpec(job_id=job_id, deadline_ms=deadline_ms, client=client)


def with_session(agent: Running, use: Any) -> Any:
    async def go() -> Any:
        recorder = Recorder(agent)
        await recorder.client.connect(20)
        await recorder.client.open_session("20260101T000000Z-0000")
        try:
            return await use(recorder)
        finally:
            await recorder.client.close()

    return asyncio.run(go())


def children(agent: Running) -> list[psutil.Process]:
    return psutil.Process(agent.process.pid).children(recursive=True)


def wait_until(condition: Any, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_job_from_start_to_files(agent: Running, tmp_path: Path) -> None:
    async def use(recorder: Recorder) -> None:
        client = recorder.client
        await client.start(job(mode="quick"))
        await client.ready("job", 20)
        await client.go("job", 1234567890123456789)
        end = await client.end("job")
        assert (end.state, end.exit_code) == (api.JobEvent.DONE, 0)
        assert json.loads(end.status_json)["start"] == 1234567890123456789
        await client.fetch("job", tmp_path / "fetched")

    with_session(agent, use)
    fetched = {path.name: path.read_text() for path in (tmp_path / "fetched").iterdir()}
    assert fetched["stdout.log"] == "result lines\n"
    assert "-shard 0/1 -start-at stdin" in fetched["arguments"]
    assert "job.properties" not in fetched, "it may hold a password"


def test_why_a_job_failed_is_told(agent: Running) -> None:
    async def use(recorder: Recorder) -> api.JobEvent:
        await recorder.client.start(job(mode="broken"))
        await recorder.client.ready("job", 20)
        await recorder.client.go("job", 1)
        return await recorder.client.end("job")

    end = with_session(agent, use)
    assert (end.state, end.exit_code) == (api.JobEvent.FAILED, 4)
    assert "out of luck" in end.message


def test_a_deadline_ends_the_job(agent: Running) -> None:
    async def use(recorder: Recorder) -> api.JobEvent:
        await recorder.client.start(job(deadline_ms=600))
        return await asyncio.wait_for(recorder.client.end("job"), 20)

    end = with_session(agent, use)
    assert end.state == api.JobEvent.FAILED
    assert "deadline" in end.message


def test_a_proxy_of_the_environment_is_not_asked_for_the_agent(agent: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.99:1")

    async def use(recorder: Recorder) -> bool:
        return recorder.client.alive

    assert with_session(agent, use)


def test_a_closed_session_leaves_nothing_running(agent: Running) -> None:
    async def use(recorder: Recorder) -> int:
        await recorder.client.start(job())
        await recorder.client.ready("job", 20)
        return len(children(agent))

    assert with_session(agent, use) == 1
    assert wait_until(lambda: not children(agent))


def test_a_silent_controller_loses_its_jobs(agent: Running) -> None:
    """The stream stays open and the beats stop: what a network partition or a frozen controller looks like."""

    async def go() -> str:
        async with grpc.aio.secure_channel(agent.address, agent.certificates.credentials()) as channel:
            await channel.channel_ready()
            stub = api_grpc.AgentStub(channel)
            call = stub.Session()  # type: ignore[call-arg]
            await call.write(api.SessionRequest(run_id="r1", lease_ms=800))
            await call.read()
            await stub.StartJob(job())
            before = len(children(agent))
            await asyncio.to_thread(wait_until, lambda: not children(agent))
            return f"{before} -> {len(children(agent))}"

    assert asyncio.run(go()) == "1 -> 0"


def test_a_killed_agent_leaves_nothing_running(agent: Running) -> None:
    async def use(recorder: Recorder) -> list[str]:
        await recorder.client.start(job())
        await recorder.client.ready("job", 20)
        child = children(agent)[0]
        os.kill(agent.process.pid, signal.SIGKILL)
        assert await asyncio.to_thread(wait_until, lambda: not child.is_running() or child.status() == "zombie")
        end = await asyncio.wait_for(recorder.client.end("job"), 20)
        assert end.state == api.JobEvent.FAILED
        return recorder.lost

    assert len(with_session(agent, use)) == 1


def test_an_agent_that_falls_silent_is_lost(agent: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its node has no power or no network any more: nobody closes the connection."""
    sooner = [(name, 1000 if name.endswith("_ms") else value) for name, value in client._KEEPALIVE]
    monkeypatch.setattr(client, "_KEEPALIVE", sooner)

    async def use(recorder: Recorder) -> list[str]:
        await recorder.client.start(job())
        await recorder.client.ready("job", 20)
        os.kill(agent.process.pid, signal.SIGSTOP)
        try:
            await asyncio.to_thread(wait_until, lambda: recorder.lost)
        finally:
            os.kill(agent.process.pid, signal.SIGCONT)
        return recorder.lost

    assert len(with_session(agent, use)) == 1


def test_one_controller_at_a_time(agent: Running) -> None:
    async def use(_: Recorder) -> str:
        second = Recorder(agent)
        await second.client.connect(20)
        with pytest.raises(RunError) as refused:
            await second.client.open_session("other")
        await second.client.close()
        return str(refused.value)

    assert "20260101T000000Z-0000 is using this agent" in with_session(agent, use)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (api.JobSpec(job_id="../x", client=api.ClientSpec(verb="run", binding="noop")), "job name"),
        (api.JobSpec(job_id="x", client=api.ClientSpec(verb="rm", binding="noop")), "unknown verb"),
        (api.JobSpec(job_id="x", client=api.ClientSpec(verb="run", binding="a b")), "binding"),
        (api.JobSpec(job_id="x"), "names no program"),
        (api.JobSpec(job_id="x", tracer=api.TracerSpec()), "no program"),
    ],
)
def test_what_an_agent_refuses(agent: Running, spec: api.JobSpec, word: str) -> None:
    async def use(recorder: Recorder) -> list[str]:
        reasons = []
        for _ in range(2):
            with pytest.raises(RunError) as refused:
                await recorder.client.start(spec)
            reasons.append(str(refused.value))
        return reasons

    first, again = with_session(agent, use)
    assert word in first and again == first


def test_no_file_outside_a_job_is_handed_out(agent: Running) -> None:
    async def use(recorder: Recorder) -> None:
        await recorder.client.start(job(mode="quick"))
        stub = recorder.client._stub
        for name in ("../../../agent.json", "job.properties", "./job.properties", "x/job.properties", "/etc/passwd"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async for _ in stub.FetchFile(api.FileRequest(job_id="job", name=name)):
                    pass
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    with_session(agent, use)


@pytest.mark.parametrize("name", ["../outside", "/nonexistent/outside", "..", "a/../../outside", ""])
def test_no_file_is_fetched_to_outside_its_folder(
    agent: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What an agent that is not ours any more may answer."""

    async def lies(*_: Any, **__: Any) -> api.FileList:
        return api.FileList(files=[api.FileEntry(name=name, sha256=hashlib.sha256().hexdigest())])

    async def nothing() -> AsyncIterator[api.FileChunk]:
        yield api.FileChunk()

    async def use(recorder: Recorder) -> None:
        monkeypatch.setattr(recorder.client._stub, "ListFiles", lies)
        monkeypatch.setattr(recorder.client._stub, "FetchFile", lambda *_, **__: nothing())
        with pytest.raises(RunError, match="which no job writes"):
            await recorder.client.fetch("job", tmp_path / "results" / "job")

    with_session(agent, use)
    assert not list(tmp_path.rglob("outside"))


def test_a_stranger_is_refused(agent: Running, tmp_path: Path) -> None:
    """A certificate of another authority, and none at all."""
    ensure_pki(tmp_path / "other", {})
    other = identity(tmp_path / "other", CONTROLLER)
    stranger = grpc.ssl_channel_credentials(
        agent.certificates.ca.read_bytes(), other.key.read_bytes(), other.certificate.read_bytes()
    )
    nobody = grpc.ssl_channel_credentials(agent.certificates.ca.read_bytes())

    async def ask(credentials: grpc.ChannelCredentials) -> None:
        async with grpc.aio.secure_channel(agent.address, credentials) as channel:
            await api_grpc.AgentStub(channel).ReadClock(api.Empty(), timeout=5)

    with_session(agent, lambda _: asyncio.sleep(0))  # it does answer those it knows
    for credentials in (stranger, nobody):
        with pytest.raises(grpc.aio.AioRpcError):
            asyncio.run(ask(credentials))


def test_metrics_show_what_runs(agent: Running) -> None:
    async def use(recorder: Recorder) -> str:
        await recorder.client.start(job("metered"))
        await recorder.client.ready("metered", 20)
        await recorder.client.go("metered", 1)
        while not any('"operations": 7' in event.status_json for event in recorder.events):
            await asyncio.sleep(0.05)
        return await asyncio.to_thread(lambda: urllib.request.urlopen(agent.metrics).read().decode())

    text = with_session(agent, use)
    assert 'strata_agent_jobs_running{node="node1"} 1.0' in text
    assert 'strata_client_operations_total{job="metered",node="node1"} 7.0' in text
    assert 'strata_client_operations_per_second{job="metered",node="node1"} 3.5' in text


def test_metrics_of_a_job_that_has_ended_are_its_counts(agent: Running) -> None:
    async def use(recorder: Recorder) -> str:
        await recorder.client.start(job("metered", mode="quick"))
        await recorder.client.ready("metered", 20)
        await recorder.client.go("metered", 1)
        await recorder.client.end("metered")
        return await asyncio.to_thread(lambda: urllib.request.urlopen(agent.metrics).read().decode())

    text = with_session(agent, use)
    assert 'strata_client_operations_total{job="metered",node="node1"} 7.0' in text
    assert "strata_client_operations_per_second{" not in text, "nothing was done in the last second"


def test_eviction_drops_the_page_cache_of_the_data(agent: Running) -> None:
    """Counted by mincore(2) through `fincore`, not by the agent."""
    path = agent.folder / "data" / "block"
    path.write_bytes(os.urandom(1 << 20))

    def cached_pages() -> int:
        answer = subprocess.run(["fincore", "-bno", "PAGES", path], capture_output=True, text=True, check=True)
        return int(answer.stdout)

    assert cached_pages() == 256
    evicted = with_session(agent, lambda recorder: recorder.client.evict_page_cache())
    assert (evicted.files, evicted.bytes) == (1, 1 << 20)
    assert cached_pages() == 0


def test_eviction_goes_on_where_the_database_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is gone between being listed in its parent and being listed itself."""
    (tmp_path / "compacted").mkdir()
    (tmp_path / "block").write_bytes(bytes(4096))
    scandir = os.scandir

    def late(path: str) -> Any:
        if Path(path).name == "compacted":
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    evicted = _evict(tmp_path)
    assert (evicted.files, evicted.bytes) == (1, 4096)
    assert not (tmp_path / "compacted").exists()


def _trace(agent: Running, **options: Any) -> Path:
    """The folder with the files of a tracer that lived until a status said that it runs."""
    spec = api.TracerSpec(by=api.TracerSpec.PROCESS, **options)

    async def use(recorder: Recorder) -> None:
        await recorder.client.start(api.JobSpec(job_id="tracer", deadline_ms=60_000, tracer=spec))
        await recorder.client.ready("tracer", 20)
        while not any('"running"' in event.status_json for event in recorder.events):
            await asyncio.sleep(0.05)
        end = await recorder.client.stop("tracer", 20)
        assert end.state == api.JobEvent.DONE, end.message
        await recorder.client.fetch("tracer", agent.folder / "fetched")

    with_session(agent, use)
    return agent.folder / "fetched"


@pytest.mark.bpf
@pytest.mark.root
def test_a_tracer_brings_the_context_of_its_time(tracing_agent: Running) -> None:
    before_ns = time.time_ns()
    folder = _trace(tracing_agent)
    after_ns = time.time_ns()
    with (folder / "context.csv").open() as file:
        lines = list(csv.DictReader(file))
    documented = (TRACER.parents[2] / "docs" / "results-format.md").read_text()
    assert [column for column in lines[0] if f"`{column}`" not in documented] == []
    begins = [int(line["t_unix_ns"]) - int(line["interval_ns"]) for line in lines]
    ends = [int(line["t_unix_ns"]) for line in lines]
    assert begins[1:] == ends[:-1]
    assert before_ns < begins[0] < ends[-1] < after_ns
    trace = json.loads((folder / "io.bin.json").read_text())
    traced_ns = trace["stopped_mono_ns"] - trace["started_mono_ns"]
    assert ends[-1] - begins[0] == pytest.approx(traced_ns, abs=5e8)
    with (folder / "peers.csv").open() as file:  # the agent's own callers at least
        assert {int(line["t_mono_ns"]) for line in csv.DictReader(file)} <= {int(line["t_mono_ns"]) for line in lines}
    assert {"read", "write", "sync"} == set(trace["vfs"])
    # This test alone was woken that often: each status and each answer of the agent.
    assert sum(int(line["run_queue_waits"]) for line in lines) > 10


@pytest.mark.bpf
@pytest.mark.root
def test_a_tracer_without_context_and_calls_loads_no_program_for_them(tracing_agent: Running) -> None:
    folder = _trace(tracing_agent, without_context=True, without_calls=True)
    assert not (folder / "context.csv").exists() and not (folder / "peers.csv").exists()
    probes = json.loads((folder / "io.bin.json").read_text())["probes"]
    assert "block_rq_issue" in probes
    assert not {"sched_switch", "sched_wakeup", "tcp_probe", "sys_exit"} & set(probes)


@pytest.mark.bpf
@pytest.mark.root
def test_parts_of_the_context_are_left_out(tracing_agent: Running) -> None:
    folder = _trace(tracing_agent, context_without=["peers", "run-queue", "memory", "cpu-ticks", "pressure"])
    assert not (folder / "peers.csv").exists()
    with (folder / "context.csv").open() as file:
        lines = list(csv.DictReader(file))
    for column in ("run_queue_waits", "dirty_pages", "cpu_iowait_ticks", "pressure_io_full_us"):
        assert {line[column] for line in lines} == {""}
    assert all(int(line["page_cache_folios_added"]) >= 0 and int(line["tcp_rtt_samples"]) >= 0 for line in lines)
    assert "sched_switch" not in json.loads((folder / "io.bin.json").read_text())["probes"]


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    ensure_pki(tmp_path, {})
    mine = identity(tmp_path, CONTROLLER)

    def connect() -> Coroutine[Any, Any, None]:
        address = f"127.0.0.1:{_free_port()}"
        certificates = Certificates(mine.ca, mine.certificate, mine.key)
        return AgentClient("node9", address, certificates, lambda *_: None, lambda *_: None).connect(1)

    async def go() -> None:
        await connect()

    with pytest.raises(DeployError, match=r"node9: the agent at .* does not answer"):
        asyncio.run(go())
