"""Filters, sampling, rotation, an almost full disk, and tracing without being root."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tracer.tests.conftest import DISK_BYTES
from tracer.tests.test_context import has_loopback
from tracer.tests.test_trace import FLUSH, READ, WRITE, assert_closed
from tracer.tests.tracing import BACKEND, EMPTY, Record, fio, read_records, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def mixed_load(disk: str, requests: int = 600, *more: str) -> None:
    fio(f"--filename=/dev/{disk}", "--rw=randrw", "--bs=4k", "--direct=1", f"--number_ios={requests}", *more)


def total_ns(record: Record) -> int:
    return sum(value for value in record.durations[:4] if value != EMPTY)


@pytest.mark.parametrize(("letters", "modes"), [("R", {READ}), ("W", {WRITE}), ("WF", {WRITE, FLUSH})])
def test_mode_filter(disk: str, tmp_path: Path, letters: str, modes: set[int]) -> None:
    options = [word for letter in letters for word in ("--mode", letter)]
    with tracing(tmp_path / "io.bin", "--device", disk, *options) as trace:
        mixed_load(disk, 200, "--fsync=10")
        assert trace.stop() == 0
    assert {r.mode for r in trace.records()} == modes
    assert trace.device(disk)["excluded"]["filtered"] > 50
    assert_closed(trace, disk)


def test_minimum_latency(disk: str, tmp_path: Path) -> None:
    # Two sizes, so that some requests stay faster than the limit and some slower when the machine gets another pace.
    sizes = "--bssplit=4k/50:256k/50"
    with tracing(tmp_path / "first.bin", "--device", disk) as first:
        mixed_load(disk, 200, sizes)
        assert first.stop() == 0
    small, large = (
        median(total_ns(r) for r in first.records() if r.size_bytes == size) for size in (4 << 10, 256 << 10)
    )
    assert 2 * small < large
    limit_us = round((small * large) ** 0.5 / 1000)
    with tracing(tmp_path / "all.bin", "--device", disk) as everything:
        with tracing(tmp_path / "slow.bin", "--device", disk, "--min-latency", str(limit_us)) as slow:
            mixed_load(disk, 600, sizes)
            assert slow.stop() == 0
        assert everything.stop() == 0
    totals = [total_ns(r) / 1000 for r in everything.records()]
    expected = [total for total in totals if total >= limit_us]
    assert 0 < len(expected) < len(totals)
    assert all(total_ns(r) / 1000 >= limit_us for r in slow.records())
    # Two tracers see each request some 100 ns apart.
    border = sum(0.875 * limit_us < total < 1.125 * limit_us for total in totals)
    assert abs(len(slow.records()) - len(expected)) <= border
    assert_closed(slow, disk)


def test_sampling_is_random_and_counted(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--sample", "4") as trace:
        mixed_load(disk, 4000, "--ioengine=libaio", "--iodepth=8")
        assert trace.stop() == 0
    excluded = trace.device(disk)["excluded"]
    kept, left_out = len(trace.records()), excluded["sampled_out"]
    assert kept + left_out + excluded["completion_not_seen"] >= 4000
    # Binomial(4000, 1/4): a deviation of six standard deviations, 164, does not happen.
    assert abs(kept - (kept + left_out) / 4) < 164
    assert_closed(trace, disk)


def test_comm_filter(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--comm", "dd", "--comm", "none") as trace:
        for program in ("dd", "cat"):
            subprocess.run(f"{program} < /dev/{disk} > /dev/null 2>&1", shell=True, check=True)
            subprocess.run(["blockdev", "--flushbufs", f"/dev/{disk}"], check=True)
        assert trace.stop() == 0
    assert {r.comm for r in trace.records()} == {b"dd"}
    excluded = trace.device(disk)["excluded"]
    whole_disk = int(Path(f"/sys/block/{disk}/size").read_text()) * 512
    read = sum(r.size_bytes for r in trace.records())
    assert read == whole_disk or (read < whole_disk and excluded["completion_not_seen"])
    assert excluded["filtered"] > 0
    assert_closed(trace, disk)


@pytest.fixture
def partition(can_trace: None, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A loop device, and the name of a partition that begins at its sector 2048."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    found = ["losetup", "--partscan", "--show", "--find", str(image)]
    made = subprocess.run(found, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    disk = made.stdout.strip()
    try:
        subprocess.run(["addpart", disk, "1", "2048", "65536"], check=True)
        yield Path(disk).name, f"{Path(disk).name}p1"
    finally:
        subprocess.run(["losetup", "--detach", disk], check=True)


def test_a_partition_stands_for_its_disk(partition: tuple[str, str], tmp_path: Path) -> None:
    disk, part = partition
    with tracing(tmp_path / "io.bin", "--device", f"/dev/{part}", "--device", disk) as trace:
        mixed_load(part, 300)
        assert trace.stop() == 0
    assert trace.status()["filters"]["devices"] == [disk]
    mine = [r for r in trace.records() if r.comm == b"fio"]
    unseen = trace.device(disk)["excluded"]["completion_not_seen"]
    assert 300 - unseen <= len(mine) <= 300 and all(2048 <= r.sector < 2048 + 65536 for r in mine)
    assert_closed(trace, disk)


BIOS_LOOKED_AT = 32 if BACKEND == "bcc" else 1024  # of a request: docs/tracer-limits.md


def assert_scheduled(records: list[Record]) -> None:
    assert all(0 <= r.scheduler_ns <= r.block_ns for r in records if r.scheduler_ns != EMPTY)


def test_the_scheduler_part_lies_within_the_block_layer(deadline: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", deadline, "--scheduler") as trace:
        mixed_load(deadline, 400, "--ioengine=libaio", "--iodepth=16", "--iodepth_batch=8")
        assert trace.stop() == 0
    assert sum(r.scheduler_ns != EMPTY for r in trace.records()) > 100
    assert_scheduled(trace.records())


def test_requests_that_are_merged_in_the_scheduler_keep_its_time(deadline: str, tmp_path: Path) -> None:
    """More threads than the disk takes requests at a time write neighbouring blocks: what waits is merged."""
    threads = 2 * int(Path(f"/sys/block/{deadline}/queue/nr_requests").read_text())
    stride = ("--bs=4k", f"--rw=write:{4 * (threads - 1)}k", "--offset_increment=4k")
    with tracing(tmp_path / "io.bin", "--device", deadline, "--scheduler") as trace:
        fio(f"--filename=/dev/{deadline}", "--direct=1", "--thread", f"--numjobs={threads}", "--group_reporting",
            *stride, f"--size={DISK_BYTES - threads * 4096}")  # fmt: skip
        assert trace.stop() == 0
    merged = [r for r in trace.records() if r.bios > 1]
    assert merged
    assert all(r.scheduler_ns != EMPTY and r.bios == min(r.size_bytes // 4096, BIOS_LOOKED_AT) for r in merged)
    assert_scheduled(trace.records())
    assert_closed(trace, deadline)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A place where everybody may write; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def exchange() -> None:
    """A request on a socket of the loopback device, and its response."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        answering, _ = server.accept()
        with answering:
            client.sendall(b"x")
            answering.recv(1)
            answering.sendall(b"y")
            client.recv(1)


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def is_seen(option: str, directory: Path) -> bool:
    """Whether there is what was asked for beside the records."""
    path = directory / option[2:]
    if option == "--vfs":
        vfs = json.loads((directory / "io.bin.json").read_text())["vfs"]
        return bool(vfs["read"]["cached"]["calls"] + vfs["read"]["with_io"]["calls"])
    if option == "--context":
        return any(
            line["run_queue_p99_ns"] and line["cpu_iowait_ticks"] and line["page_cache_folios_added"]
            for line in lines_of(path)
        )
    if option == "--peers":
        return any(line["peer"] == "127.0.0.1" and line["tcp_rtt_samples"] != "0" for line in lines_of(path))
    mine = [line for line in lines_of(path) if line["pid"] == str(os.getpid())]
    return any(int(line["spans"]) + int(line["switch_not_seen"]) for line in mine)


BESIDE = ("--vfs", "--context", "--peers", "--spans")


@pytest.mark.parametrize(
    ("more", "beside"),
    [("", ()), (",+syslog,+sys_nice", ()), *(("", (option,)) for option in BESIDE), ("", BESIDE)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_two_capabilities_are_enough(
    disk: str, binary: Path, open_directory: Path, more: str, beside: tuple[str, ...]
) -> None:
    if {"--peers", "--spans"} & set(beside) and not has_loopback():
        pytest.skip("127.0.0.1 cannot be reached")
    if BACKEND == "bcc":
        pytest.skip("the bcc backend needs root")
    capabilities = f"+bpf,+perfmon{more}"
    confined = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={capabilities}"]
    confined += [f"--ambient-caps={capabilities}"]
    # Where kptr_restrict and perf_event_paranoid allow it, everybody sees the kernel's addresses.
    symbol = subprocess.run([*confined, "grep", " _stext$", "/proc/kallsyms"], capture_output=True, check=True).stdout
    address = int(symbol.split()[0], 16)
    command = [*confined, str(binary), "--output", str(open_directory / "io.bin")]
    for option in beside:
        command += [option] if option == "--vfs" else [f"{option}={open_directory / option[2:]}"]
    read_end, write_end = os.pipe()
    process = subprocess.Popen([*command, "--ready-fd", str(write_end), "--device", disk], pass_fds=[write_end])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as ready:
        answer = ready.readline()
    if process.poll() in (126, 127):
        pytest.skip("the build directory is closed to other users")
    assert answer == b"ready\n"
    mixed_load(disk, 100)
    if beside:
        exchange()
    process.terminate()
    assert process.wait(30) == 0
    assert sum(r.size_bytes == 4096 for r in read_records(open_directory / "io.bin")) == 100
    limits = " ".join(json.loads((open_directory / "io.bin.json").read_text())["limits"])
    missing = [name for name in ("CAP_SYSLOG", "CAP_SYS_ADMIN", "CAP_SYS_NICE") if name in limits]
    assert missing == ["CAP_SYSLOG"] * (address == 0) + ["CAP_SYS_ADMIN"] + ["CAP_SYS_NICE"] * (not more)
    assert address or not more
    assert [option for option in beside if is_seen(option, open_directory)] == list(beside)


def test_process_numbers_of_a_container(disk: str, binary: Path, tmp_path: Path) -> None:
    output = tmp_path / "io.bin"
    command = ["unshare", "--pid", "--fork", "--mount-proc", str(binary), "--output", str(output), "--device", disk]
    refused = subprocess.run([*command, "--pid", "1"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--pid 1: in this container" in refused.stderr and not list(tmp_path.glob("io.bin*"))
    spans = [*command, "--spans", str(tmp_path / "spans")]
    refused = subprocess.run(spans, check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "in this container" in refused.stderr and not list(tmp_path.glob("*i*n*"))
    subprocess.run([*command, "--duration", "0.1"], check=True)
    limits = json.loads(Path(f"{output}.json").read_text())["limits"]
    assert any("process numbers are the machine's" in limit for limit in limits)


def test_the_clock_of_a_time_namespace_is_refused(binary: Path, can_trace: None) -> None:
    if not Path("/proc/self/timens_offsets").exists():
        pytest.skip("no time namespaces before Linux 5.6")
    for ahead_s, code in ((0, 0), (1000, 3)):
        inside = ["unshare", "--time", "--monotonic", str(ahead_s), "--fork", str(binary), "--check"]
        done = subprocess.run(inside, check=False, capture_output=True, text=True)
        assert done.returncode == code
        assert ("time namespace" in done.stdout) == bool(ahead_s)
