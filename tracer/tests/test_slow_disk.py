"""The output lies on a disk that makes whoever writes there wait: a file system that is frozen meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer.tests.conftest import loop_device
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import Trace, altered, fio, read_records, tracing

READS = 40_000
MOST = READS * 9 // 10  # some completions are seen by no program (docs/tracer-limits.md)
#: 4,096 events for each of two CPUs.
SMALL_LOG = ("--ring-bytes", str(1 << 20))


@contextmanager
def frozen(directory: Path) -> Iterator[None]:
    subprocess.run(["fsfreeze", "--freeze", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(directory)], check=True)


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[str]:
    with loop_device(tmp_path / "other.img") as name:
        yield name


def read(disk: str) -> None:
    job = fio(
        f"--filename=/dev/{disk}",
        "--rw=randread",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=32",
        f"--number_ios={READS}",
    )
    assert job["read"]["total_ios"] == READS


def read_while_frozen(trace: Trace, disk: str) -> None:
    """And told to stop before anything could be written."""
    with frozen(trace.output.parent):
        before = trace.output.stat().st_size
        read(disk)
        assert trace.output.stat().st_size == before
        trace.process.terminate()
        assert trace.process.poll() is None
    assert trace.stop() == 0


def test_no_record_is_dropped(mounted: Path, other_disk: str) -> None:
    with tracing(mounted / "io.bin", "--device", other_disk, *SMALL_LOG) as trace:
        read_while_frozen(trace, other_disk)
    device = trace.device(other_disk)
    assert device["dropped"] == 0
    assert device["emitted"] > MOST
    assert_closed(trace, other_disk)


def test_nor_when_the_file_is_to_be_rotated(mounted: Path, other_disk: str) -> None:
    rotation = ("--rotate-bytes", str(1 << 20), "--keep-files", "1")
    with tracing(mounted / "io.bin", "--device", other_disk, *rotation, *SMALL_LOG) as trace:
        read_while_frozen(trace, other_disk)
    device, told = trace.device(other_disk), trace.status()["rotation"]
    files = [path for path in mounted.glob("io.bin*") if path.suffix != ".json"]
    assert told["older_files"] >= 2
    assert len(files) == told["older_files"] - told["deleted_files"] + 1 == 2
    assert sum(len(read_records(path)) for path in files) + told["deleted_records"] == device["emitted"] > MOST
    assert device["dropped"] == 0


def test_what_finds_no_room_is_counted(tmp_path: Path, mounted: Path, other_disk: str) -> None:
    """Only eight blocks of 1,024 records may wait."""
    binary = altered(tmp_path, {"src/writer.c": {"#define MOST_UNFINISHED 128": "#define MOST_UNFINISHED 8"}})
    with tracing(mounted / "io.bin", "--device", other_disk, *SMALL_LOG, binary=binary) as trace:
        read_while_frozen(trace, other_disk)
    device = trace.device(other_disk)
    assert device["dropped"] > 10_000
    assert device["emitted"] > 10_000
    assert_closed(trace, other_disk)
