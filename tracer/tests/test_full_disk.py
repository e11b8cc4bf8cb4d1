"""What it does when a file system is full, or nearly, and whose file it names."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer.decode import read_table
from tracer.tests.conftest import loop_device
from tracer.tests.test_context import has_loopback
from tracer.tests.test_control import exchange, mixed_load
from tracer.tests.test_sectors import SECTOR
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import SLOT, TRACER, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


@contextlib.contextmanager
def file_system(directory: Path, size: str) -> Iterator[Path]:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def file_system_of_8_mib(tmp_path: Path) -> Iterator[Path]:
    with file_system(tmp_path / "small", "8m") as directory:
        yield directory


def test_it_stops_before_the_disk_is_full_and_says_so(disk: str, file_system_of_8_mib: Path) -> None:
    (file_system_of_8_mib / "others").write_bytes(bytes(5 << 20))
    path = file_system_of_8_mib / "io.bin"
    with tracing(path, "--device", disk, "--min-free-bytes", str(4 << 20)) as trace:
        mixed_load(disk, 100)
        assert trace.process.wait(10) == 4
    status = trace.status()
    assert (status["state"], "almost full" in status["reason"]) == ("failed", True)
    assert len(trace.records()) == trace.device(disk)["emitted"]
    assert_closed(trace, disk)


def test_it_stops_when_there_is_no_room_for_what_stands_beside(
    disk: str, file_system_of_8_mib: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = str(file_system_of_8_mib / "context.csv")
    (file_system_of_8_mib / "others").write_bytes(bytes(5 << 20))
    with tracing(
        tmp_path / "io.bin", "--device", disk, "--context", context, "--min-free-bytes", str(4 << 20)
    ) as trace:
        assert trace.process.wait(10) == 4
    assert "almost full" in trace.status()["reason"]
    assert capfd.readouterr().err.startswith(f"strata-iotrace: writing {context}: ")


@pytest.mark.parametrize(("left", "stops"), [(2 << 20, False), (500 << 10, True)])
def test_by_default_it_stops_at_the_last_hundredth(disk: str, tmp_path: Path, left: int, stops: bool) -> None:
    """Of 64 MiB: 671,088 bytes."""
    directory = tmp_path / "full"
    directory.mkdir()
    context = ("--context", str(directory / "context.csv"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={64 << 20}", "tmpfs", str(directory)], check=True)
    try:
        with (directory / "others").open("wb") as others:
            os.posix_fallocate(others.fileno(), 0, (64 << 20) - left)
        with tracing(tmp_path / "io.bin", "--device", disk, *context, "--duration", "2.5") as trace:
            assert trace.process.wait(30) == (4 if stops else 0)
    finally:
        subprocess.run(["umount", str(directory)], check=True)
    assert ("almost full" in trace.status()["reason"]) == stops


def make_folder(path: Path, deadline: float) -> None:
    """In the place of a file that the tracer makes for a moment each second."""
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return
        assert time.monotonic() < deadline


FAILING = ("context", "peers", "spans", "spans.samples", "io.bin.json", "io.bin")


@pytest.mark.parametrize("failing", FAILING)
def test_it_names_the_file_that_cannot_be_written(
    disk: str, file_system_of_8_mib: Path, tmp_path: Path, failing: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The others are where there is room, for only a link leads to the small file system."""
    if not has_loopback():
        pytest.skip("127.0.0.1 cannot be reached")
    is_status = failing == "io.bin.json"
    if not is_status:
        (tmp_path / failing).symlink_to(file_system_of_8_mib / failing)
    options = [f"--{name}={tmp_path / name}" for name in ("context", "peers", "spans")]
    with tracing(
        tmp_path / "io.bin", "--device", disk, *options, "--span-sample", "1", "--min-free-bytes", "0"
    ) as trace:
        deadline = time.monotonic() + 60
        if is_status:
            make_folder(tmp_path / f"{failing}.new", deadline)
        with contextlib.suppress(OSError), (file_system_of_8_mib / "others").open("wb", buffering=0) as others:
            while others.write(bytes(64 << 10)):
                pass
        while trace.process.poll() is None:
            assert time.monotonic() < deadline
            exchange()
            mixed_load(disk, 2000, "--ioengine=libaio", "--iodepth=16")
        assert trace.process.wait(10) == 4
    assert capfd.readouterr().err.startswith(f"strata-iotrace: writing {tmp_path / failing}: ")


@pytest.fixture
def small_file_system(can_trace: None, tmp_path: Path) -> Iterator[Path]:
    with file_system(tmp_path / "small", "512k") as directory:
        yield directory


def test_a_full_disk_stops_it_with_whole_records(disk: str, small_file_system: Path) -> None:
    with tracing(small_file_system / "io.bin", "--device", disk) as trace:
        # All are there when it begins to write: else a status that finds no room may end it before a record is lost.
        trace.process.send_signal(signal.SIGSTOP)
        fio(
            f"--filename=/dev/{disk}",
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--ioengine=libaio",
            "--iodepth=16",
            "--number_ios=6000",
        )
        trace.process.send_signal(signal.SIGCONT)
        assert trace.process.wait(10) == 4
    status, device = trace.status(), trace.device(disk)
    assert status["state"] == "failed"
    assert "No space" in status["reason"]
    records = trace.records()
    assert 0 < len(records) == device["emitted"] < device["completions"]
    assert device["emitted"] + device["dropped"] == device["completions"]
    for name in ("completions", "emitted", "dropped"):
        assert status[name] == sum(device[name] for device in status["devices"])
    header_bytes = int.from_bytes(trace.output.read_bytes()[12:16], "little")
    assert (trace.output.stat().st_size - header_bytes) % SLOT.size == 0


def test_what_finds_no_room_is_counted_when_its_tasks_are_new_too(disk: str, small_file_system: Path) -> None:
    """Among the records that are lost are the definitions of theirs, which are none."""
    path = small_file_system / "io.bin"
    with tracing(path, "--device", disk) as trace:
        trace.process.send_signal(signal.SIGSTOP)
        for _ in range(24):
            subprocess.run(
                ["dd", f"if=/dev/{disk}", "of=/dev/null", "bs=4k", "count=400", "iflag=direct", "status=none"],
                check=True,
            )
        trace.process.send_signal(signal.SIGCONT)
        assert trace.process.wait(10) == 4
    device, records = trace.device(disk), trace.records()
    assert 0 < len(records) == device["emitted"] < device["completions"]
    assert device["emitted"] + device["dropped"] == device["completions"]


def test_calls_that_find_no_room_are_counted_too(disk: str, small_file_system: Path) -> None:
    with tracing(small_file_system / "io.bin", "--device", disk, "--vfs") as trace:
        trace.process.send_signal(signal.SIGSTOP)
        # On the CPU whose log is read first: else requests that another one completes may take all the room.
        job = ("--rw=randread", "--bs=4k", "--direct=1", "--number_ios=6000", "--cpus_allowed=0")
        fio(f"--filename=/dev/{disk}", *job)
        trace.process.send_signal(signal.SIGCONT)
        assert trace.process.wait(10) == 4
    returns = trace.status()["returns"]
    assert 0 < len(trace.returns()) == returns["emitted"] < returns["returned"]
    assert returns["emitted"] + returns["dropped"] == returns["returned"]


def test_why_requests_failed_is_what_the_writer_was_told(file_system_of_8_mib: Path, tmp_path: Path) -> None:
    """A loop device whose file has no room to grow."""
    image, told = file_system_of_8_mib / "disk.img", []
    image.touch()
    os.truncate(image, 32 << 20)
    with loop_device(image) as disk, mmap.mmap(-1, 1 << 20) as megabyte:
        raw = os.open(f"/dev/{disk}", os.O_WRONLY | os.O_DIRECT)
        with tracing(tmp_path / "io.bin", "--device", disk) as trace:
            for offset in range(0, 12 << 20, 1 << 20):
                try:
                    os.pwrite(raw, megabyte, offset)
                except OSError as error:
                    told.append(error.errno)
            assert trace.stop() == 0
        os.close(raw)
    names: dict[int | None, str] = {errno.ENOSPC: "nospc", errno.EIO: "ioerr"}
    rows = [row for row in read_table(trace.output).to_pylist() if row["device"] == disk and row["mode"] == "W"]
    failed = {row["sector"] * SECTOR >> 20: row["error"] for row in rows if row["error"]}
    assert 4 <= len(told) == len(failed) < 12
    assert set(failed.values()) == {names[number] for number in told}


@pytest.mark.parametrize("limit", [1 << 20, (1 << 20) + 100], ids=["at a record", "within a record"])
def test_a_file_that_may_not_grow_further_stops_it_likewise(limit: int, disk: str, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the kernel would end it at once, without a status (SIGXFSZ)."""
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nexec prlimit --fsize={limit} {TRACER} "$@"\n')
    limited.chmod(0o755)
    with tracing(tmp_path / "io.bin", "--device", disk, binary=limited) as trace:
        job = ("--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--number_ios=40000")
        fio(f"--filename=/dev/{disk}", *job)
        assert trace.process.wait(10) == 4
    status, device = trace.status(), trace.device(disk)
    assert (status["state"], status["reason"]) == ("failed", os.strerror(errno.EFBIG))
    assert 0 < len(trace.records()) == device["emitted"] < device["completions"]
    assert device["emitted"] + device["dropped"] == device["completions"]
    assert limit - SLOT.size < trace.output.stat().st_size <= limit
    assert trace.output.stat().st_size % SLOT.size == 0
