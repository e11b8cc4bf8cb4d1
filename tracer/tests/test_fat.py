"""Direct I/O of a file system that does not use iomap, so by the kernel's fs/direct-io.c."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.tests.test_attribution import (
    IO_URING,
    SHARE,
    SYSCALL,
    WORKLOADS,
    lay_out,
    mounted_image,
    run_fio,
    share,
)
from tracer.tests.tracing import BACKEND, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

MEGABYTES = 16
LEAST_BYTES = 600 * 4096  # what the smallest of the workloads moves


@pytest.mark.parametrize("workload", [name for name, job in WORKLOADS.items() if "--direct=1" in job])
def test_task_and_file(can_trace: None, workload: str, tmp_path: Path) -> None:
    if BACKEND == "bcc":
        pytest.skip("what tells the file of such a request stands in no header of the kernel: trace with CO-RE")
    with mounted_image("vfat", tmp_path) as volume:
        path = volume.directory / "file"
        lay_out(path, MEGABYTES)
        with tracing(tmp_path / "io.bin", "--device", volume.disk, "--vfs") as trace:
            pid = run_fio(path, f"--size={MEGABYTES}m", *WORKLOADS[workload])
            assert trace.stop() == 0
        inode = path.stat().st_ino
    # filefrag tells no extents of FAT; with the file in place no other data is read or written.
    moved = [r for r in trace.records() if r.size_bytes and r.size_bytes % 4096 == 0]
    assert sum(r.size_bytes for r in moved) >= LEAST_BYTES
    assert share(moved, pid, inode, path) >= SHARE
    origin = IO_URING if workload == "io_uring" else SYSCALL
    assert sum(r.origin == origin for r in moved) >= SHARE * len(moved)
