"""System calls on files, with and without I/O, held against calls that are counted here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.conftest import loop_device
from tracer.tests.test_attribution import JOURNAL, mounted_image
from tracer.tests.test_volumes import has_module
from tracer.tests.tracing import EMPTY, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

BLOCKS = 64


def histogram(cell: dict[str, Any]) -> dict[int, int]:
    return {int(bucket): count for bucket, count in cell["log2_ns"].items()}


def test_cached_and_uncached_calls_are_counted_apart(mounted: Path, disk: str, tmp_path: Path) -> None:
    path = mounted / "file"
    path.write_bytes(os.urandom(BLOCKS << 20))
    os.sync()
    file, write_only = os.open(path, os.O_RDWR), os.open(path, os.O_WRONLY)
    pipe = os.pipe()
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: a request for each first read
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
            for _ in range(5):
                for block in range(BLOCKS):
                    os.pread(file, 4096, block << 20)
            for block in range(30):
                os.pwrite(file, b"x" * 4096, block << 20)
            os.fsync(file)
            for _ in range(40):  # nothing is read, so no cache is hit
                assert os.pread(file, 4096, BLOCKS << 20) == b""
                with pytest.raises(OSError, match="Bad file descriptor"):
                    os.pread(write_only, 4096, 0)
            for _ in range(100):  # no file
                os.write(pipe[1], b"x")
                os.read(pipe[0], 1)
            assert trace.stop() == 0
        vfs = trace.status()["vfs"]
    finally:
        for descriptor in (file, write_only, *pipe):
            os.close(descriptor)
    assert (vfs["read"]["with_io"]["calls"], vfs["read"]["cached"]["calls"]) == (BLOCKS, 4 * BLOCKS)
    assert vfs["read"]["hit_ratio"] == pytest.approx(0.8)
    assert (vfs["write"]["with_io"]["calls"], vfs["write"]["cached"]["calls"]) == (0, 30)
    assert (vfs["sync"]["with_io"]["calls"], vfs["sync"]["cached"]["calls"]) == (1, 0)
    for kind in vfs.values():
        for cell in (kind["cached"], kind["with_io"]):
            buckets = histogram(cell)
            assert sum(buckets.values()) == cell["calls"]
            low, high = (sum(n << (bucket + more) for bucket, n in buckets.items()) for more in (0, 1))
            assert low <= cell["sum_ns"] <= high
    cached, with_io = (min(histogram(vfs["read"][name])) for name in ("cached", "with_io"))
    assert cached < with_io


def test_a_sync_that_writes_the_log_is_not_cached(can_trace: None, tmp_path: Path) -> None:
    """XFS writes it in the thread that asks for it, when nothing but metadata has changed."""
    syncs = 100
    with mounted_image("xfs", tmp_path) as volume, (volume.directory / "file").open("wb") as file:
        os.sync()
        with tracing(tmp_path / "io.bin", "--device", volume.disk, "--vfs", "--pid", str(os.getpid())) as trace:
            for i in range(syncs):
                os.fchmod(file.fileno(), 0o600 + i % 8)
                os.fsync(file)
            assert trace.stop() == 0
    written = sum(r.pid == os.getpid() and r.origin == JOURNAL for r in trace.records())
    counted = trace.status()["vfs"]["sync"]
    if not written:
        pytest.skip("another thread of this kernel writes the log")
    assert (counted["with_io"]["calls"], counted["cached"]["calls"]) == (written, syncs - written)


@contextmanager
def file_system(kind: str, disk: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of such a file system on the disk, if it has one."""
    folder.mkdir()
    with ExitStack() as stack:
        if kind == "proc":
            yield Path("/proc/self")
            return
        if kind == "tmpfs":
            mount = ["-t", "tmpfs", "tmpfs"]
        elif kind == "overlay":
            below = request.getfixturevalue("mounted")
            for name in ("lower", "upper", "work"):
                (below / name).mkdir()
            layers = f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work"
            mount = ["-t", "overlay", "-o", layers, "overlay"]
        else:
            has_module("btrfs")
            try:
                subprocess.run(["mkfs.btrfs", "-q", "-f", f"/dev/{disk}"], check=True)
            except OSError as error:
                pytest.skip(f"no btrfs here: {error}")
            mount = [f"/dev/{disk}"]
        mounted = folder / "mounted"
        mounted.mkdir()
        try:
            subprocess.run(["mount", *mount, str(mounted)], check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no {kind} here: {error.stderr!r}")
        stack.callback(subprocess.run, ["umount", str(mounted)], check=True)
        yield mounted


@pytest.mark.parametrize(("kind", "hits"), [("proc", False), ("tmpfs", False), ("overlay", True), ("btrfs", True)])
def test_hits_are_those_of_files_that_a_disk_may_have(
    kind: str, hits: bool, disk: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with file_system(kind, disk, tmp_path / "folder", request) as directory:
        path = directory / ("stat" if kind == "proc" else "file")
        if kind != "proc":
            path.write_bytes(b"x" * 4096)
        file = os.open(path, os.O_RDONLY)
        try:
            os.pread(file, 64, 0)
            with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
                for _ in range(200):
                    assert os.pread(file, 64, 0)
                assert trace.stop() == 0
        finally:
            os.close(file)
    read = trace.status()["vfs"]["read"]
    assert (read["cached"]["calls"], read["with_io"]["calls"]) == (200 if hits else 0, 0)


def test_what_is_read_from_another_disk_is_neither_hit_nor_miss(mounted: Path, tmp_path: Path) -> None:
    path = mounted / "file"
    path.write_bytes(os.urandom(BLOCKS << 20))
    os.sync()
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    with (
        loop_device(tmp_path / "traced.img") as traced,
        tracing(tmp_path / "io.bin", "--device", traced, "--vfs", "--pid", str(os.getpid())) as trace,
    ):
        for _ in range(3):  # the first time from the disk, then from memory
            for block in range(BLOCKS):
                os.pread(file, 4096, block << 20)
        assert trace.stop() == 0
    os.close(file)
    read = trace.status()["vfs"]["read"]
    assert (read["cached"]["calls"], read["with_io"]["calls"]) == (2 * BLOCKS, 0)


def test_nothing_is_said_of_it_when_not_asked(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        assert trace.stop() == 0
    assert "vfs" not in trace.status()
    assert "sys_exit" not in trace.status()["probes"]


@pytest.mark.parametrize(("engine", "origin"), [("psync", 1), ("libaio", 1), ("io_uring", 4)])
def test_without_the_vfs_layer(disk: str, tmp_path: Path, engine: str, origin: int) -> None:
    """No program sees the calls, so there is no entry; what kind they are is known all the same."""
    with tracing(tmp_path / "io.bin", "--device", disk, "--no-vfs") as trace:
        try:
            fio(f"--filename=/dev/{disk}", "--rw=randread", "--direct=1", f"--ioengine={engine}", "--number_ios=500")
        except subprocess.CalledProcessError:
            if engine == "io_uring":
                pytest.skip("no io_uring here")
            raise
        assert trace.stop() == 0
    own = [record for record in trace.records() if record.comm == b"fio" and record.origin == origin]
    assert len(own) + trace.device(disk)["excluded"]["completion_not_seen"] >= 500
    assert all(record.vfs_ns == EMPTY and record.block_ns != EMPTY for record in own)
    assert "--no-vfs" in trace.device(disk)["layers_missing"]["vfs"]
    assert "sys_enter" not in trace.status()["program_misses"]
