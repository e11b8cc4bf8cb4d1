"""The context, held against what the kernel says elsewhere and what was done."""

from __future__ import annotations

import csv
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tracer.tests.tracing import tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def waited_ns(pid: int) -> int:
    """Time the process was runnable without a CPU, by the scheduler's own account."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def test_each_second_has_a_line(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "context.csv"
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        time.sleep(2.5)
        assert trace.stop() == 0
    lines = lines_of(path)
    status = trace.status()
    assert len(lines) == 3
    times = [int(line["t_mono_ns"]) for line in lines]
    assert all(int(b["interval_ns"]) == t - s for b, t, s in zip(lines[1:], times[1:], times, strict=False))
    assert sum(int(line["interval_ns"]) for line in lines) == pytest.approx(
        times[-1] - status["started_mono_ns"], abs=1e9
    )
    assert all(int(line["t_unix_ns"]) - int(line["t_mono_ns"]) > 1e18 for line in lines)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not account waiting")
def test_waiting_for_a_cpu(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "context.csv"
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        loops = [subprocess.Popen(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]) for _ in range(3)]
        try:
            time.sleep(1.5)
            waited = sum(waited_ns(loop.pid) for loop in loops)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert trace.stop() == 0
    lines = [line for line in lines_of(path) if line["run_queue_mean_ns"]]
    counted = sum(int(line["run_queue_waits"]) * float(line["run_queue_mean_ns"]) for line in lines)
    # What still waits at the end has not been counted yet.
    assert waited > 1e9
    assert counted > 0.8 * waited
    for line in lines:
        assert int(line["run_queue_p50_ns"]) <= int(line["run_queue_p99_ns"])
    assert sum(int(line["pressure_cpu_some_us"]) for line in lines if line["pressure_cpu_some_us"]) >= 0


def has_loopback() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_loopback(), reason="127.0.0.1 cannot be reached")
def test_page_cache_and_tcp(mounted: Path, disk: str, tmp_path: Path) -> None:
    file = mounted / "file"
    file.write_bytes(os.urandom(8 << 20))
    os.sync()
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    path = tmp_path / "context.csv"
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        file.read_bytes()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            answering, _ = server.accept()
            with answering:
                for _ in range(500):
                    client.sendall(b"x")
                    answering.recv(1)
                    answering.sendall(b"y")
                    client.recv(1)
        assert trace.stop() == 0
    lines = lines_of(path)
    assert (
        sum(int(line["page_cache_folios_added"]) for line in lines) >= (8 << 20) // 4096 // 16
    )  # large folios count once
    assert sum(int(line["tcp_rtt_samples"]) for line in lines) >= 500
    assert all(int(line["dirty_pages"]) >= 0 for line in lines)


def test_reads_that_hit_the_page_cache_and_that_miss_it(mounted: Path, disk: str, tmp_path: Path) -> None:
    file = mounted / "file"
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    path = tmp_path / "context.csv"
    opened = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: a request for each first read
        arguments = ("--device", disk, "--pid", str(os.getpid()), "--vfs", "--context", str(path))
        with tracing(tmp_path / "io.bin", *arguments) as trace:
            for _ in range(4):
                for block in range(32):
                    os.pread(opened, 4096, block << 20)
            assert trace.stop() == 0
    finally:
        os.close(opened)
    lines = lines_of(path)
    assert sum(int(line["cached_reads"]) for line in lines) == 3 * 32
    assert sum(int(line["reads_with_io"]) for line in lines) == 32


PARTS = {
    "run-queue": ({"sched_wakeup", "sched_wakeup_new", "sched_switch"}, {"run_queue_waits", "run_queue_mean_ns"}),
    "tcp": ({"tcp_probe", "tcp_retransmit_skb"}, {"tcp_rtt_samples", "tcp_rtt_p99_us", "tcp_retransmits"}),
    "page-cache": ({"mm_filemap_add_to_page_cache"}, {"page_cache_folios_added"}),
}
COUNTS = {"run_queue_waits", "tcp_rtt_samples", "tcp_retransmits", "page_cache_folios_added"}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(disk: str, tmp_path: Path, part: str) -> None:
    """Not counted is empty, and no program is there for it; the other parts are as before."""
    path = tmp_path / "context.csv"
    arguments = ("--device", disk, "--context", str(path), "--without", part)
    with tracing(tmp_path / "io.bin", *arguments) as trace:
        time.sleep(1.2)
        assert trace.stop() == 0
    programs, columns = PARTS[part]
    everywhere = set().union(*(of_part for of_part, _ in PARTS.values()))
    assert everywhere & set(trace.status()["program_misses"]) == everywhere - programs
    for line in lines_of(path):
        assert all(line[column] == "" for column in columns)
        assert all(line[column] != "" for column in COUNTS - columns)
        assert line["cached_reads"] == line["reads_with_io"] == ""  # without --vfs
        assert line["dirty_pages"] != ""


def test_there_must_be_something_to_leave_out(binary: Path, tmp_path: Path) -> None:
    for arguments in (["--without", "tcp"], ["--without", "memory", "--context", str(tmp_path / "c.csv")]):
        command = [str(binary), "--output", str(tmp_path / "io.bin"), *arguments]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        assert result.returncode == 2
        assert "--without" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(binary: Path, tmp_path: Path) -> None:
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--context", str(tmp_path / "missing" / "c.csv")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 4
    assert "--context" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
