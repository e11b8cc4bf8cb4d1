"""Files on btrfs, whose pages do not tell whose bio it is for direct I/O and for what is compressed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tracer.tests.conftest import loop_device
from tracer.tests.test_attribution import (
    IO_URING,
    SHARE,
    SYSCALL,
    WORKLOADS,
    WRITE,
    extents,
    lay_out,
    of_file,
    run_fio,
    share,
)
from tracer.tests.test_trace import assert_closed
from tracer.tests.test_volumes import device_mapper, has_module, identity, sectors_of
from tracer.tests.tracing import BACKEND, EMPTY, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

#: Data are written where they are, and past the page cache when a program asks for that.
IN_PLACE = "nodatacow"
MEGABYTES = 16

Mount = Callable[[Sequence[str], str], AbstractContextManager[Path]]


@pytest.fixture
def disks(can_trace: None, tmp_path: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(loop_device(tmp_path / f"{i}.img")) for i in range(2)]


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    directory = tmp_path / "mounted"
    directory.mkdir()

    @contextmanager
    def mounted(devices: Sequence[str], options: str) -> Iterator[Path]:
        profile = "raid1" if len(devices) > 1 else "single"
        also = ",".join([options, *(f"device={device}" for device in devices)])
        has_module("btrfs")
        try:
            subprocess.run(["mkfs.btrfs", "-q", "-f", "-m", profile, "-d", profile, *devices], check=True)
            subprocess.run(["mount", "-o", also, devices[0], str(directory)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no btrfs here: {error}")
        try:
            yield directory
        finally:
            subprocess.run(["umount", str(directory)], check=True)

    return mounted


def skip_unless_bios_name_files() -> None:
    """As the kernel's do since 6.3, and the BCC backend does not look at them."""
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    if BACKEND == "bcc" or release < (6, 3):
        pytest.skip("by its pages only: no file for direct I/O and what is compressed")


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_task_and_file(disks: list[str], mount: Mount, workload: str, tmp_path: Path) -> None:
    if "--direct=1" in WORKLOADS[workload]:
        skip_unless_bios_name_files()
    with mount([f"/dev/{disks[0]}"], IN_PLACE) as directory:
        path = directory / "file"
        lay_out(path, MEGABYTES)
        with tracing(tmp_path / "io.bin", "--device", disks[0]) as trace:
            pid = run_fio(path, f"--size={MEGABYTES}m", *WORKLOADS[workload])
            os.sync()
            assert trace.stop() == 0
        touched = of_file(trace.records(), path)
        assert len(touched) >= 10
        assert share(touched, pid, path.stat().st_ino, path) >= SHARE
    if "--direct=1" in WORKLOADS[workload]:
        origin = IO_URING if workload == "io_uring" else SYSCALL
        assert sum(r.origin == origin for r in touched) >= SHARE * len(touched)
    if workload == "io_uring":
        assert sum(r.vfs_ns != EMPTY for r in touched) >= SHARE * len(touched)
    assert_closed(trace, disks[0])


def test_below_the_device_mapper(disks: list[str], mount: Mount, tmp_path: Path) -> None:
    skip_unless_bios_name_files()
    if not has_module("dm_mod"):
        pytest.skip("no device mapper")
    with ExitStack() as stack:
        table = f"linear /dev/{disks[0]} 0"
        device = stack.enter_context(device_mapper("linear", sectors_of(f"/dev/{disks[0]}"), table))
        path = stack.enter_context(mount([device], IN_PLACE)) / "file"
        lay_out(path, MEGABYTES)
        with tracing(tmp_path / "io.bin", "--device", disks[0]) as trace:
            pid = run_fio(path, f"--size={MEGABYTES}m", *WORKLOADS["psync"])
            assert trace.stop() == 0
        touched = of_file(trace.records(), path)
        assert len(touched) >= SHARE * 600
        assert share(touched, pid, path.stat().st_ino, path) >= SHARE


@pytest.mark.parametrize("copies", [1, 2])
def test_what_is_compressed(disks: list[str], mount: Mount, copies: int, tmp_path: Path) -> None:
    """From pages of its own, a block for each extent, by threads of btrfs; of the task that wrote to the file."""
    skip_unless_bios_name_files()
    with mount([f"/dev/{disk}" for disk in disks[:copies]], "compress-force=zlib") as directory:
        path = directory / "file"
        with tracing(tmp_path / "io.bin", *(word for disk in disks for word in ("--device", disk))) as trace:
            path.write_bytes(bytes(MEGABYTES << 20))
            subprocess.run(["sync"], check=True)
            assert trace.stop() == 0
        blocks, inode = len(extents(path)), path.stat().st_ino
    assert blocks >= MEGABYTES << 20 >> 17, "extents of what is compressed have 128 KiB at most"
    for disk in disks[:copies]:
        written = [r for r in trace.records() if r.device == identity(disk) and r.mode == WRITE and r.inode == inode]
        assert sum(r.size_bytes for r in written) == blocks * 4096
        assert sum(r.pid == os.getpid() and r.path == str(path) for r in written) >= SHARE * len(written) > 0
        assert_closed(trace, disk)
