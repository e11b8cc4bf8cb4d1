"""Paths of files whose file system is mounted in several places, in parts, or no longer."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tracer.tests.test_names import read_direct
from tracer.tests.tracing import Trace, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

NAMES = ("a", "ab", "with a space")


@contextmanager
def bound(what: Path, where: Path) -> Iterator[None]:
    where.mkdir()
    subprocess.run(["mount", "--bind", str(what), str(where)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(where)], check=True)


@pytest.fixture
def whole(mounted: Path) -> Path:
    """A file system with a file of the same name in each of its directories."""
    for name in NAMES:
        (mounted / name).mkdir()
        (mounted / name / "file").write_bytes(bytes(4096))
    os.sync()
    return mounted


def paths_of(trace: Trace, disk: str) -> set[str]:
    """Those read by this process, unless the kernel has hidden a completion."""
    assert not trace.device(disk)["excluded"]["completion_not_seen"]
    return {r.path for r in trace.records() if r.pid == os.getpid() and r.path and r.path.endswith("/file")}


def test_of_several_places_it_is_that_of_the_whole(whole: Path, disk: str, tmp_path: Path) -> None:
    with bound(whole / "a", tmp_path / "part"), tracing(tmp_path / "io.bin", "--device", disk) as trace:
        read_direct(tmp_path / "part" / "file")
        assert trace.stop() == 0
    assert paths_of(trace, disk) == {str(whole / "a" / "file")}


@pytest.fixture
def parts(disk: str, tmp_path: Path) -> Iterator[list[Path]]:
    """Directories of a file system that is not mounted as a whole; names of two begin alike."""
    whole = tmp_path / "whole"
    whole.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", f"/dev/{disk}"], check=True)
    subprocess.run(["mount", f"/dev/{disk}", str(whole)], check=True)
    with ExitStack() as stack:
        try:
            for name in NAMES:
                (whole / name).mkdir()
                (whole / name / "file").write_bytes(bytes(4096))
                stack.enter_context(bound(whole / name, tmp_path / f"{name} is here"))
            os.sync()
        finally:
            subprocess.run(["umount", str(whole)], check=True)
        yield [tmp_path / f"{name} is here" for name in NAMES]


def test_of_parts_it_is_that_of_its_own(parts: list[Path], disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        for part in parts:
            read_direct(part / "file")
        assert trace.stop() == 0
    assert paths_of(trace, disk) == {str(part / "file") for part in parts}


def test_what_was_mounted_just_now_has_its_path(whole: Path, disk: str, tmp_path: Path) -> None:
    """The place is gone when the tracer hears of the file."""
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        read_direct(whole / "a" / "file")
        trace.device_now(disk)
        trace.process.send_signal(signal.SIGSTOP)
        read_direct(whole / "ab" / "file")
        subprocess.run(["umount", str(whole)], check=True)
        try:
            trace.process.send_signal(signal.SIGCONT)
            assert trace.stop() == 0
        finally:
            subprocess.run(["mount", f"/dev/{disk}", str(whole)], check=True)  # as it was found
    assert paths_of(trace, disk) == {str(whole / name / "file") for name in ("a", "ab")}
