"""More files than there are numbers for, and more tasks than are kept in mind."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer.tests.tracing import altered, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

FILES = 5000


@pytest.fixture(scope="module")
def small(can_trace: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tracer with 4,096 numbers for files, of which it uses the last 1,024, and which keeps 16 tasks in mind."""
    changes = {
        "bpf/file.bpf.h": {"FILE_NUMBER_BITS 24": "FILE_NUMBER_BITS 12"},
        "bpf/iotrace.h": {"FILES_USED (1U << 15)": "FILES_USED (1U << 10)"},
        "src/catalog.c": {"MOST_TASKS 65536": "MOST_TASKS 16"},
    }
    return altered(tmp_path_factory.mktemp("small"), changes)


@pytest.fixture
def files(mounted: Path) -> Iterator[list[Path]]:
    directory = mounted / "many"
    directory.mkdir()
    paths = [directory / f"{number:04}" for number in range(FILES)]
    for path in paths:
        path.write_bytes(bytes(4096))
    os.sync()
    yield paths


def read_direct(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as aligned:
        assert os.preadv(descriptor, [aligned], 0) == 4096
    os.close(descriptor)


def test_a_number_that_is_used_again_stands_for_the_new_file_only(
    small: Path, disk: str, files: list[Path], tmp_path: Path
) -> None:
    """One file is read all the time: its number must not become that of another one."""
    often, *once = files
    inode_of = {str(path): path.stat().st_ino for path in files}
    reads: Counter[str | None] = Counter()
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", str(1 << 20), binary=small) as trace:
        for number, path in enumerate(once):
            for each in [path, often] if number % 10 == 0 else [path]:
                read_direct(each)
                reads[str(each)] += 1
        assert trace.stop() == 0
    rows = [r for r in trace.records() if r.pid == os.getpid()]
    assert all(r.inode == inode_of[r.path] for r in rows if r.path)
    seen = Counter(r.path for r in rows)
    assert sum((seen - reads).values()) == seen[None], "rows of another file"
    hidden = trace.device(disk)["excluded"]["completion_not_seen"]
    assert sum((reads - seen).values()) - hidden <= sum(reads.values()) / 100


def test_more_tasks_than_are_kept_in_mind(small: Path, disk: str, tmp_path: Path) -> None:
    threads = ["--thread", "--numjobs=100", "--group_reporting"]
    with tracing(tmp_path / "io.bin", "--device", disk, binary=small) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--direct=1", "--number_ios=50", *threads)
        assert trace.stop() == 0
    rows = Counter(r.tid for r in trace.records() if r.comm == b"fio" and r.tid != r.pid)
    assert len(rows) == 100 and set(rows.values()) <= set(range(51))
    assert sum(rows.values()) >= 5000 - trace.device(disk)["excluded"]["completion_not_seen"]
