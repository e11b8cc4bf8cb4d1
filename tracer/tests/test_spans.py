"""Spans of requests, held against what the server that answers them measures itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tracer.guests.layout import TESTS_UNTIL
from tracer.tests.scheduler_log import asleep_ns, runnable_ns
from tracer.tests.spans import (
    NEEDS,
    PARTS,
    SCHEDULER_LOG,
    ended,
    rows,
    samples,
    total,
    traced_in_a_thread,
    tracing_spans,
)
from tracer.tests.test_context import drop_from_cache, has_loopback
from tracer.tests.test_fine import quantile
from tracer.tests.tracing import altered, tracing

pytestmark = NEEDS

SPAN_END = "static __always_inline void span_end("
SAMPLED = "	if (!span->switch_not_seen)\n		sample(ctx, span, current);\n"
LINGER = "static long linger(__u64 index, void *unused)\n{\n	return 0;\n}\n\n"
CALL_LINGER = "	bpf_loop(1 << 20, linger, NULL, 0);\n"
PROCESSES = "#define IOTRACE_SPAN_PROCESSES 256"
#: A process of this name receives so many requests and answers them, and stays until its input ends.
ANSWERS_ITSELF = """
import socket, sys
from pathlib import Path

Path("/proc/self/comm").write_text(sys.argv[1])
near, far = socket.socketpair()
for _ in range(int(sys.argv[2])):
    far.send(b"x")
    near.recv(1)
    near.send(b"y")
print("done", flush=True)
sys.stdin.read()
"""
MS = 1_000_000
AROUND_NS = 5 * MS  # what Python does between a server's clocks and the begin and end of a span, on a busy machine
TICK_NS = 10 * MS  # of /proc/stat, which rounds down


@dataclass
class Server:
    process: subprocess.Popen[str]
    connect: Callable[[], socket.socket]

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def server(file: Path, place: str, *prefix: str) -> Iterator[Server]:
    """Serves at a path, or with `tcp` on the loopback device."""
    process = subprocess.Popen(
        [*prefix, sys.executable, str(Path(__file__).with_name("span_server.py")), str(file), place],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    where = process.stdout.readline().strip()

    def connect() -> socket.socket:
        if place == "tcp":
            return socket.create_connection(("127.0.0.1", int(where)))
        client = socket.socket(socket.AF_UNIX)
        client.connect(place)
        return client

    try:
        yield Server(process, connect)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(client: socket.socket, kind: str, amount: int) -> dict[str, Any]:
    client.sendall(f"{kind} {amount}\n".encode())
    with client.makefile() as lines:
        answer: dict[str, Any] = json.loads(lines.readline())
    return answer


@pytest.fixture
def file(mounted: Path) -> Path:
    path = mounted / "file"
    path.write_bytes(os.urandom(4 << 20))
    os.sync()
    return path


@pytest.fixture(params=["unix", "tcp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "tcp" and not has_loopback():
        pytest.skip("127.0.0.1 cannot be reached")
    return "tcp" if request.param == "tcp" else str(tmp_path / "socket")


def slack_ns(answer: dict[str, Any]) -> int:
    """On a slow machine reading the clocks takes long, and so does all else that Python does around."""
    return AROUND_NS + int(answer["around"])


def assert_is_span(sample: dict[str, int], answer: dict[str, Any]) -> None:
    """Whole, CPU and waiting for one, of one request, by tracer and server."""
    assert sample["tid"] == answer["tid"]
    around_ns = slack_ns(answer)
    outside_ns = sample["total_ns"] - answer["wall"]  # of what the server has measured
    assert 0 <= outside_ns < answer["wall"] / 5 + around_ns
    assert answer["queued"] - around_ns <= sample["run_queue_ns"] <= answer["queued"] + outside_ns + around_ns
    # The tracer sees a switch some microseconds later or earlier than the scheduler counts it.
    on_cpu = sample["compute_ns"] + sample["vfs_ns"]
    assert answer["cpu"] * 0.9 - around_ns <= on_cpu < answer["wall"] - answer["queued"] + outside_ns + around_ns


def began(sample: dict[str, int], answer: dict[str, Any]) -> bool:
    """Whether the request that was answered so was the span's."""
    return 0 <= int(answer["at"]) - sample["t_mono_ns"] < sample["total_ns"]


def stolen_ticks() -> int:
    """For how long the machine below has taken CPUs away, as far as it tells."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])


def test_each_part_is_what_the_server_measured(disk: str, tmp_path: Path, file: Path, place: str) -> None:
    kinds = (("compute", 30_000), ("lock", 40_000), ("read", 60), ("sleep", 20_000)) * 3
    with server(file, place) as serving, tracing_spans(tmp_path, disk, serving.pid) as (trace, path):
        before = stolen_ticks()
        with serving.connect() as client:
            answers = [ask(client, *kind) for kind in kinds]
        stolen = stolen_ticks() - before
        assert trace.stop() == 0
    assert ended(path, serving.pid) == len(answers)
    asked = list(zip(answers, kinds, strict=True))
    seen = [(sample, *next(one for one in asked if began(sample, one[0]))) for sample in samples(path)]
    assert len(seen) == total(path, serving.pid, "spans")
    assert {kind for _, _, kind in seen} == set(kinds)
    for sample, answer, (kind, amount) in seen:
        assert_is_span(sample, answer)
        around_ns = slack_ns(answer)
        waited = {name: sample[f"{name}_ns"] for name in ("io", "lock", "other")}
        if kind == "compute":
            assert sum(waited.values()) < around_ns
            assert sample["compute_ns"] >= amount * 950
        elif kind == "read":
            in_calls = sample["vfs_ns"] + sample["io_ns"] + sample["run_queue_ns"]
            assert 0.6 * answer["work"] < in_calls < answer["work"] + around_ns
            assert sample["io_ns"] > sample["lock_ns"] + sample["other_ns"]
        else:
            part = {"lock": "lock", "sleep": "other"}[kind]
            assert amount * 950 - answer["around"] <= sample[f"{part}_ns"] < answer["work"] + around_ns
            assert sum(waited.values()) - waited[part] < around_ns
    # Of all, for the machine below may take a CPU away: the thread's clock then stands still, so long at most.
    excess_ns = min(sample["compute_ns"] - 1.1 * answer["cpu"] for sample, answer, kind in seen if kind[0] == "compute")
    assert excess_ns < (stolen + 1) * TICK_NS if stolen else excess_ns < 0
    assert total(path, serving.pid, "handed_over") == total(path, serving.pid, "interleaved") == 0


@pytest.mark.parametrize("stall_s", [0, 0.2], ids=["reads at once", "reads late"])
def test_sendfile_waits_for_the_disk_or_for_the_reader(
    disk: str, tmp_path: Path, file: Path, place: str, stall_s: float
) -> None:
    """By the kernel's own log it cannot be interrupted while it waits for pages, and can be for room in the socket."""
    content = file.read_bytes()
    with server(file, place) as serving, tracing_spans(tmp_path, disk, serving.pid) as (trace, path):
        answers = []
        with serving.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            for _ in range(12):
                drop_from_cache(file)
                client.sendall(b"sendfile %d\n" % len(content))
                time.sleep(stall_s)
                with client.makefile("rb") as response:
                    assert response.read(len(content)) == content
                    answers.append(json.loads(response.readline()))
        assert trace.stop() == 0
    assert ended(path, serving.pid) == len(answers)
    found, known = samples(path), 0
    apart: list[tuple[str, int, int]] = []
    for sample in found:
        (answer,) = (answer for answer in answers if began(sample, answer))
        assert sample["tid"] == answer["tid"]
        assert sample["total_ns"] < answer["wall"] + slack_ns(answer)
        assert sample["other_ns"] > stall_s / 2 * 1e9 or not stall_s
        for part, state in (("io", "D"), ("other", "S")):
            slept_ns = asleep_ns(tmp_path / SCHEDULER_LOG, sample, state)
            if slept_ns is not None:
                known += 1
                if abs(sample[f"{part}_ns"] - slept_ns) > slept_ns * 0.02 + MS / 4:
                    apart.append((part, sample[f"{part}_ns"], slept_ns))
    assert known >= 6  # the log misses others, more of them the longer the CPU is idle meanwhile
    # Not in each: the disk's own thread may have the CPU meanwhile, and then the server waits for that.
    assert any(sample["io_ns"] for sample in found)
    # The CPUs of an emulated guest stand still for milliseconds, also between the log and the program at one event.
    assert len(apart) <= (known // 2 if TESTS_UNTIL in os.environ else 0), apart


def test_the_lines_of_a_process_add_up_to_its_spans(disk: str, tmp_path: Path, file: Path) -> None:
    with (
        server(file, str(tmp_path / "socket")) as serving,
        tracing_spans(tmp_path, disk, serving.pid) as (trace, path),
    ):
        clients = [serving.connect() for _ in range(4)]
        for number in range(20):
            for client in clients:
                client.sendall(b"sleep 200000\n" if number == 7 else b"sleep 10000\n")
            for client in clients:
                client.recv(1000)
        for client in clients:
            client.close()
        assert trace.stop() == 0
    found, lines = samples(path), rows(path)
    assert len(lines) >= 1 and {row["pid"] for row in lines} == {str(serving.pid)}
    assert len(found) == sum(int(row["spans"]) for row in lines)
    assert ended(path, serving.pid) == 80
    assert len({sample["tid"] for sample in found}) == 4
    for name in ("total", *PARTS):
        counted = sum(int(row["spans"]) * int(row[f"{name}_mean_ns"]) for row in lines)
        assert abs(counted - sum(sample[f"{name}_ns"] for sample in found)) <= 80
    # Each line has those that ended next; where two ended at once as it was written, perhaps the other one.
    compared, done = [], 0
    found.sort(key=lambda sample: sample["t_mono_ns"] + sample["total_ns"])
    for row in lines:
        of_line, done = found[done : done + int(row["spans"])], done + int(row["spans"])
        times = [sample["total_ns"] for sample in of_line]
        if times and abs(sum(times) / len(times) - int(row["total_mean_ns"])) <= 1:
            compared.append(row)
            for name in ("total", *PARTS):
                values = [sample[f"{name}_ns"] for sample in of_line]
                for percent in (50, 99):
                    assert int(row[f"{name}_p{percent}_ns"]) == quantile(values, percent)
    assert any(4 * int(row["total_p50_ns"]) < int(row["total_p99_ns"]) for row in compared)
    assert trace.status()["spans"] == {"sample_every": 1, "samples_dropped": 0, "not_counted": 0}


def test_a_wait_in_a_call_without_requests_of_its_own_is_not_io(disk: str, tmp_path: Path, file: Path) -> None:
    """For a file system that is frozen, by a write to a page that is cached."""
    wait_ns = 200 * MS
    near, far = socket.socketpair()
    far.sendall(b"x")
    opened = os.open(file, os.O_RDWR)
    os.pwrite(opened, os.pread(opened, 1, 0), 0)  # what a first one does, like reading its place, is done
    frozen, asked = threading.Event(), threading.Event()

    def freeze() -> None:
        subprocess.run(["fsfreeze", "--freeze", str(file.parent)], check=True)
        try:
            frozen.set()
            assert asked.wait(30)
            time.sleep(wait_ns / 1e9)
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(file.parent)], check=True)

    def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            freezing = pool.submit(freeze)
            assert frozen.wait(30)
            near.recv(1)
            asked.set()
            os.pwrite(opened, b"y", 0)
            near.send(b"y")
            freezing.result()

    try:
        path = traced_in_a_thread(run, disk, tmp_path)
    finally:
        os.close(opened)
        near.close()
        far.close()
    assert ended(path, os.getpid()) == 1
    for sample in samples(path):
        assert sample["vfs_ns"] > 0.9 * wait_ns
        assert sample["io_ns"] < 0.1 * wait_ns


def test_waiting_for_a_cpu(disk: str, tmp_path: Path, file: Path) -> None:
    """Many short spans: of a long one a switch may be hidden from all programs (hidden_from_programs), and its times
    are then not known.
    """
    pinned = ("taskset", "-c", "0")
    loops = [subprocess.Popen([*pinned, "sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        with (
            server(file, str(tmp_path / "socket"), *pinned) as serving,
            tracing_spans(tmp_path, disk, serving.pid) as (trace, path),
        ):
            with serving.connect() as client:
                answers = [ask(client, "compute", 50_000) for _ in range(12)]
            assert trace.stop() == 0
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert ended(path, serving.pid) == len(answers)
    found = samples(path)
    assert found
    for sample in found:
        (answer,) = (answer for answer in answers if began(sample, answer))
        assert answer["queued"] > 25 * MS
        waited_ns = runnable_ns(tmp_path / SCHEDULER_LOG, sample)
        assert waited_ns * 0.995 <= sample["run_queue_ns"] <= waited_ns * 1.005


def test_requests_that_change_threads_make_no_span(disk: str, tmp_path: Path, file: Path) -> None:
    with (
        server(file, str(tmp_path / "socket")) as serving,
        tracing_spans(tmp_path, disk, serving.pid) as (trace, path),
    ):
        with serving.connect() as client:
            for _ in range(10):
                ask(client, "hand", 1000)
            ask(client, "sleep", 1000)
        assert trace.stop() == 0
    assert total(path, serving.pid, "handed_over") == 10
    assert ended(path, serving.pid) == 1
    assert total(path, serving.pid, "spans") == len(samples(path))


def answered_for(client: socket.socket, seconds: float) -> int:
    """How many requests that cost nothing, one after the other."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        ask(client, "sleep", 0)
        count += 1
    return count


def test_a_trace_that_ends_in_a_span_counts_what_it_samples(disk: str, tmp_path: Path, file: Path) -> None:
    """A build that takes milliseconds from the one to the other."""
    slow = altered(tmp_path / "slow", {"bpf/span.bpf.h": {SPAN_END: LINGER + SPAN_END, SAMPLED: CALL_LINGER + SAMPLED}})
    with server(file, str(tmp_path / "socket")) as serving, serving.connect() as client, ThreadPoolExecutor() as pool:
        for number in range(5):
            path = tmp_path / f"{number}.csv"
            arguments = ("--device", disk, "--pid", str(serving.pid), "--spans", str(path), "--span-sample", "1")
            with tracing(tmp_path / f"{number}.bin", *arguments, binary=slow) as trace:
                asking = pool.submit(answered_for, client, 0.3)
                time.sleep(0.1)
                assert trace.stop() == 0
                assert asking.result() > 0
            assert 0 < total(path, serving.pid, "spans") == len(samples(path))


def test_other_processes_are_filtered_out(disk: str, tmp_path: Path, file: Path) -> None:
    with (
        server(file, str(tmp_path / "socket")) as serving,
        tracing_spans(tmp_path, disk, os.getppid()) as (trace, path),
    ):
        with serving.connect() as client:
            ask(client, "sleep", 1000)
        assert trace.stop() == 0
    assert not [row for row in rows(path) if int(row["pid"]) == serving.pid]


def test_spans_of_more_processes_than_are_kept(disk: str, tmp_path: Path) -> None:
    """A build that keeps one."""
    few = altered(tmp_path / "few", {"bpf/iotrace.h": {PROCESSES: PROCESSES.replace("256", "1")}})
    path, name = tmp_path / "spans.csv", "one-of-many"
    arguments = ("--device", disk, "--comm", name, "--spans", str(path), "--span-sample", "1")
    processes: list[subprocess.Popen[str]] = []
    try:
        with tracing(tmp_path / "io.bin", *arguments, binary=few) as trace:
            for requests in ("3", "5"):
                command = [sys.executable, "-c", ANSWERS_ITSELF, name, requests]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                processes.append(process)
                assert process.stdout and process.stdout.readline() == "done\n"
            assert trace.stop() == 0
    finally:
        for process in processes:
            process.communicate()
    assert ended(path, processes[0].pid) == 3
    assert {int(row["pid"]) for row in rows(path)} == {processes[0].pid}
    assert trace.status()["spans"]["not_counted"] == 5


def test_without_it_nothing_is_attached(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        assert trace.stop() == 0
    assert not [probe for probe in trace.status()["probes"] if probe.startswith("span")]
    assert "spans" not in trace.status()


def test_a_place_that_cannot_be_written(binary: Path, tmp_path: Path) -> None:
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--spans", str(tmp_path / "missing" / "s.csv")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 4
    assert "--spans" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
