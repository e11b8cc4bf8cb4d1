"""A pipe beside the records that is full, and that nobody reads: it does not hold up the end of the trace."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tracer.tests.test_context import has_loopback
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import Trace, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

#: Behind the signal, or the duration; a second of it is the tracer's own.
MOST_S = 15


@contextmanager
def full_pipe(path: Path) -> Iterator[int]:
    """Whose reading end, yielded, is open."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def connections(stack: ExitStack, count: int) -> None:
    """From so many addresses, each with a segment received."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    for number in range(count):
        source = (f"127.0.1.{number}", 0)
        client = stack.enter_context(socket.create_connection(server.getsockname(), source_address=source))
        stack.enter_context(server.accept()[0]).sendall(b"x")
        assert client.recv(1) == b"x"


def read(disk: str, requests: int) -> None:
    load = ("--rw=randread", "--bs=512", "--direct=1", "--ioengine=libaio", "--iodepth=32")
    fio(f"--filename=/dev/{disk}", *load, f"--number_ios={requests}")


def assert_told(trace: Trace, disk: str) -> None:
    status = trace.status()
    assert (status["state"], "pipe is full" in status["reason"]) == ("failed", True)
    assert len(trace.records()) == trace.device(disk)["emitted"]
    assert_closed(trace, disk)


@pytest.mark.parametrize("option", ["context", "peers", "spans"])
def test_a_signal_ends_the_trace(disk: str, tmp_path: Path, option: str) -> None:
    """With all records: their file is none that waits."""
    pipe = tmp_path / "pipe"
    with full_pipe(pipe), tracing(tmp_path / "io.bin", "--device", disk, f"--{option}", str(pipe)) as trace:
        time.sleep(1.5)  # a second, and its lines
        read(disk, 2000)
        signalled = time.monotonic()
        assert trace.stop() == 4
        assert time.monotonic() - signalled < MOST_S
    assert_told(trace, disk)
    assert trace.device(disk)["emitted"] > 1800 and trace.device(disk)["dropped"] == 0


def test_a_signal_ends_it_when_no_more_records_may_wait_either(disk: str, tmp_path: Path) -> None:
    """130,000, and as many in the logs: the thread that reads signals waits for the one that writes."""
    pipe = tmp_path / "pipe"
    options = ("--device", disk, "--context", str(pipe), "--ring-bytes", str(1 << 20))
    with full_pipe(pipe), tracing(tmp_path / "io.bin", *options) as trace:
        time.sleep(1.5)
        read(disk, 170_000)
        signalled = time.monotonic()
        assert trace.stop() == 4
        assert time.monotonic() - signalled < MOST_S
    assert_told(trace, disk)
    assert trace.device(disk)["emitted"] > 100_000 and trace.device(disk)["dropped"] > 10_000


def test_its_duration_ends_the_trace(disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    options = ("--device", disk, "--context", str(pipe), "--duration", "2")
    with full_pipe(pipe), tracing(tmp_path / "io.bin", *options) as trace:
        assert trace.process.wait(2 + MOST_S) == 4
    assert_told(trace, disk)


def test_what_was_full_for_a_while_has_every_line(disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    with full_pipe(pipe) as reader:
        with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(pipe)) as trace:
            time.sleep(2.5)
            text = os.read(reader, 4096)
            assert text == b"x" * 4096
            time.sleep(0.5)
            text = os.read(reader, 65536)
            assert trace.stop() == 0
        text += os.read(reader, 65536)
    lines = text.decode().splitlines()
    assert lines[0].startswith("t_unix_ns,") and len(lines) >= 3
    assert {line.count(",") for line in lines} == {lines[0].count(",")}


@pytest.mark.skipif(not has_loopback(), reason="127.0.0.1 cannot be reached")
def test_lines_that_a_pipe_takes_in_parts_are_whole(disk: str, tmp_path: Path) -> None:
    """More at a time than it has room for, and the reader is slow."""
    pipe, text = tmp_path / "pipe", b""
    with full_pipe(pipe) as reader, ExitStack() as stack:
        assert os.read(reader, 4096) == b"x" * 4096
        with tracing(tmp_path / "io.bin", "--device", disk, "--peers", str(pipe)) as trace:
            connections(stack, 200)
            deadline = time.monotonic() + 30
            while text.count(b",127.0.1.") < 200:
                assert time.monotonic() < deadline
                time.sleep(0.01)
                with suppress(BlockingIOError):
                    text += os.read(reader, 500)
            trace.process.terminate()
            while trace.process.poll() is None:
                time.sleep(0.01)
                with suppress(BlockingIOError):
                    text += os.read(reader, 500)
        assert trace.process.returncode == 0
        with suppress(BlockingIOError):
            text += os.read(reader, 65536)
    lines = text.decode().splitlines()
    assert {line.count(",") for line in lines} == {lines[0].count(",")}
    assert {f"127.0.1.{number}" for number in range(200)} <= {line.split(",")[3] for line in lines}
