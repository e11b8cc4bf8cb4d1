"""Where on the disk a request begins, held against where the program asked for it."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from tracer.tests.conftest import DISK_BYTES
from tracer.tests.test_trace import READ, WRITE, assert_closed
from tracer.tests.tracing import Record, Trace, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

SECTOR = 512


def own(trace: Trace, mode: int) -> list[Record]:
    return [r for r in trace.records() if r.pid == os.getpid() and r.mode == mode and r.size_bytes]


def test_a_write_behind_which_the_disk_flushes(disk: str, tmp_path: Path) -> None:
    """The kernel ends it twice: when the data is written, and when that has been flushed."""
    places = [(4096 * (1 + i * i), 4096 * (1 + i % 4)) for i in range(40)]
    raw = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    try:
        with mmap.mmap(-1, 16384) as memory, tracing(tmp_path / "io.bin", "--device", disk) as trace:
            for offset, size in places:
                assert os.pwrite(raw, memoryview(memory)[:size], offset) == size
            assert trace.stop() == 0
    finally:
        os.close(raw)
    written = sorted((r.sector * SECTOR, r.size_bytes) for r in own(trace, WRITE))
    assert set(written) <= set(places)
    assert len(written) + trace.device(disk)["excluded"]["completion_not_seen"] >= len(places)
    assert_closed(trace, disk)


def test_a_read_that_the_disk_completes_in_parts(disk: str, tmp_path: Path) -> None:
    """A loop device does what its file has, and asks again for the rest, of which there is none."""
    there, size, begin = 16384, 65536, DISK_BYTES // 2
    error: int | None = None
    os.truncate(tmp_path / "disk.img", begin + there)
    raw = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size) as memory, tracing(tmp_path / "io.bin", "--device", disk) as trace:
            try:
                os.preadv(raw, [memory], begin)
            except OSError as failed:
                error = failed.errno
            assert trace.stop() == 0
    finally:
        os.close(raw)
    if not error:
        pytest.skip("the loop device of this kernel makes up what its file has not")
    assert error == errno.EIO
    (row,) = own(trace, READ)
    assert (row.sector * SECTOR, row.size_bytes, row.requeues) == (begin, size, 1)
    assert row.status
    assert_closed(trace, disk)
