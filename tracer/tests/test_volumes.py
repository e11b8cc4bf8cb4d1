"""Whose I/O it is below volumes of the device mapper and arrays of md, which give the disks clones of bios."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tracer.tests.conftest import loop_device
from tracer.tests.test_attribution import IO_URING, OTHER, READ, SHARE, SYSCALL, WORKLOADS, lay_out, of_file, run_fio
from tracer.tests.test_names import read_direct
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import BACKEND, EMPTY, Record, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

FROM = 2048
CHUNK = 128
TOOLS = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
WITHOUT_UDEV = {**os.environ, "DM_DISABLE_UDEV": "1", "MDADM_NO_UDEV": "1"}

#: Target and arguments of the device mapper. The cipher changes nothing, but all goes the way of others.
TARGETS = {"linear": "linear {disk} {begin}", "crypt": "crypt cipher_null-ecb - 0 {disk} {begin}"}
NEEDED = {"linear": ("dmsetup", "dm_mod"), "crypt": ("dmsetup", "dm_crypt")}
#: From the disks upwards.
LAYERS = ("linear", "crypt", "raid0", "raid1", "raid10", "raid1-linear-crypt")


@dataclass(frozen=True)
class Volume:
    """`place`: where on the volume a sector of the disk with this number is."""

    device: str
    disks: list[str]
    place: Callable[[int, int], int]

    def on_volume(self, records: list[Record]) -> list[Record]:
        number = {identity(disk): i for i, disk in enumerate(self.disks)}
        return [replace(r, sector=self.place(number[r.device], r.sector)) for r in records]


def identity(disk: str) -> int:
    major, minor = Path(f"/sys/block/{disk}/dev").read_text().split(":")
    return int(major) << 20 | int(minor)


def administer(*command: str) -> None:
    subprocess.run(command, check=True, env=WITHOUT_UDEV, stdin=subprocess.DEVNULL)


@contextmanager
def device_mapper(target: str, sectors: int, table: str) -> Iterator[str]:
    name = f"strata-test-{os.getpid()}-{target}"
    administer("dmsetup", "create", name, "--table", f"0 {sectors} {table}")
    try:
        # Links below /dev/mapper are made by udev, which may not be there.
        (named,) = (at for at in Path("/sys/class/block").glob("dm-*/dm/name") if at.read_text().strip() == name)
        yield f"/dev/{named.parents[1].name}"
    finally:
        administer("dmsetup", "remove", name)


def sectors_of(device: str) -> int:
    return int(Path(f"/sys/class/block/{Path(device).name}/size").read_text())


@contextmanager
def mapped(target: str, below: Volume) -> Iterator[Volume]:
    table = TARGETS[target].format(disk=below.device, begin=FROM)
    with device_mapper(target, sectors_of(below.device) - FROM, table) as device:
        yield Volume(device, below.disks, lambda disk, sector: below.place(disk, sector) - FROM)


@contextmanager
def array(level: str, disks: list[str]) -> Iterator[Volume]:
    """Of disks whose description stands at their ends: both halves of a mirror begin with the volume's data."""
    device = f"/dev/md{os.getpid() % 100 + 100}"
    options = [f"--level={level}", f"--raid-devices={len(disks)}", "--metadata=1.0", "--run"]
    options += [f"--chunk={CHUNK // 2}"] if level == "raid0" else ["--assume-clean", "--bitmap=none"]
    administer("mdadm", "--quiet", "--create", device, *options, *(f"/dev/{disk}" for disk in disks))
    try:
        yield Volume(device, disks, striped if level == "raid0" else lambda _disk, sector: sector)
    finally:
        administer("mdadm", "--quiet", "--stop", device)


def striped(disk: int, sector: int) -> int:
    return (sector // CHUNK * 2 + disk) * CHUNK + sector % CHUNK


@contextmanager
def mounted(volume: Volume, directory: Path) -> Iterator[Path]:
    administer("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", volume.device)
    directory.mkdir()
    administer("mount", volume.device, str(directory))
    try:
        yield directory
    finally:
        administer("umount", str(directory))


def has_module(name: str) -> bool:
    with suppress(OSError):
        subprocess.run(["modprobe", "--quiet", name], check=False)
    return Path(f"/sys/module/{name}").exists()


@pytest.fixture(params=LAYERS)
def layers(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split("-")


@pytest.fixture
def volume(layers: list[str], can_trace: None, tmp_path: Path) -> Iterator[Volume]:
    for layer in layers:
        tool, module = NEEDED.get(layer, ("mdadm", layer))
        if not shutil.which(tool, path=TOOLS) or not has_module(module):
            pytest.skip(f"no {tool}, or no module {module} of the kernel")
    first, *others = layers
    with ExitStack() as stack:
        disks = [stack.enter_context(loop_device(tmp_path / f"{i}.img")) for i in range(1 if first in TARGETS else 2)]
        alone = Volume(f"/dev/{disks[0]}", disks, lambda _disk, sector: sector)
        made = stack.enter_context(mapped(first, alone) if first in TARGETS else array(first, disks))
        for target in others:
            made = stack.enter_context(mapped(target, made))
        yield made


@pytest.mark.parametrize("workload", ["psync", "libaio", "split", "buffered"])
def test_file_and_task(layers: list[str], volume: Volume, workload: str, tmp_path: Path) -> None:
    """Both are those of the original bios."""
    with mounted(volume, tmp_path / "mounted") as directory:
        path = directory / "file"
        lay_out(path, 16)
        with tracing(tmp_path / "io.bin", "--device", volume.device) as trace:
            pid = run_fio(path, "--size=16m", *WORKLOADS[workload])
            os.sync()
            assert trace.stop() == 0
        touched = of_file(volume.on_volume(trace.records()), path)
        inode = path.stat().st_ino
    assert len(touched) >= 10
    assert {r.device for r in touched} == {identity(disk) for disk in volume.disks}
    direct = "--direct=1" in WORKLOADS[workload]
    # dm-crypt writes in a thread of its own, and only a file tells who made a page dirty.
    written_elsewhere = "crypt" in layers and (direct or BACKEND == "bcc")
    issued = [r for r in touched if r.mode == READ or not written_elsewhere]
    assert sum(r.pid == pid for r in issued) >= SHARE * len(issued)
    named = sum(r.inode == inode and r.path == str(path) for r in touched)
    if BACKEND == "bcc":  # knows no clones: the pages tell the file, where they are not the program's or dm-crypt's
        assert named == 0 if direct else named >= SHARE * len(issued)
    else:
        assert named >= SHARE * len(touched)
    assert sorted(trace.status()["filters"]["devices"]) == sorted(volume.disks)
    for disk in volume.disks:
        assert_closed(trace, disk)


@pytest.mark.parametrize("on_file", [False, True])
def test_requests_of_io_uring(layers: list[str], volume: Volume, on_file: bool, tmp_path: Path) -> None:
    """Their VFS layer, from the original bios: what is read comes to the disk in the task that asks for it."""
    with ExitStack() as stack:
        path = Path(volume.device)
        if on_file:
            path = stack.enter_context(mounted(volume, tmp_path / "mounted")) / "file"
            lay_out(path, 16)
        with tracing(tmp_path / "io.bin", "--device", volume.device) as trace:
            arguments = (
                "--ioengine=io_uring",
                "--direct=1",
                "--rw=randread",
                "--bs=4k",
                "--number_ios=200",
                "--size=16m",
            )
            fio(f"--filename={path}", *arguments)
            assert trace.stop() == 0
    own = [record for record in trace.records() if record.origin == IO_URING]
    assert len(own) >= 200
    assert all((record.vfs_ns == EMPTY) == (BACKEND == "bcc") for record in own)


def test_returns_when_no_disk_is_named(volume: Volume, tmp_path: Path) -> None:
    """The volume's own bio and those of its disks come in one call; the call waits for the latter."""
    raw = os.open(volume.device, os.O_RDONLY | os.O_DIRECT)
    try:
        with (
            mmap.mmap(-1, 4096) as aligned,
            tracing(tmp_path / "io.bin", "--vfs", "--pid", str(os.getpid())) as trace,
        ):
            for block in range(200):
                assert os.preadv(raw, [aligned], block << 12) == 4096
            assert trace.stop() == 0
    finally:
        os.close(raw)
    returns = trace.returns()
    assert len(returns) >= SHARE * 200
    assert {(call.bytes, call.bios, call.requests) for call in returns} == {(4096, 1, 1)}
    assert all(call.waited_ns != EMPTY for call in returns)


def test_reads_from_raid5(can_trace: None, tmp_path: Path) -> None:
    """They are clones; what is written, and read for that, is of a thread of md, in pages of its own."""
    if not shutil.which("mdadm", path=TOOLS) or not has_module("raid456"):
        pytest.skip("no mdadm, or no module raid456 of the kernel")
    with ExitStack() as stack:
        disks = [stack.enter_context(loop_device(tmp_path / f"{i}.img")) for i in range(3)]
        path = stack.enter_context(mounted(stack.enter_context(array("raid5", disks)), tmp_path / "mounted")) / "file"
        lay_out(path, 16)
        with tracing(tmp_path / "io.bin") as trace:
            fio(f"--filename={path}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=400", "--size=16m")
            assert trace.stop() == 0
        inode = path.stat().st_ino
    for disk in disks:
        assert_closed(trace, disk)
    below = [r for r in trace.records() if r.device in map(identity, disks) and r.comm == b"fio"]
    hidden = sum(trace.device(disk)["excluded"]["completion_not_seen"] for disk in disks)
    assert len(below) + hidden >= SHARE * 400 and {r.origin for r in below} == {SYSCALL}
    if BACKEND != "bcc":  # which knows no clones
        assert sum((r.inode, r.path) == (inode, str(path)) for r in below) >= SHARE * len(below)


#: Those that put blocks elsewhere or keep some of them on another disk.
MOVING = {
    "snapshot": ("dm_snapshot", "snapshot /dev/{0} /dev/{1} P 16"),
    "cache": ("dm_cache_smq", "cache /dev/{0} /dev/{1} /dev/{2} 128 1 writeback smq 0"),
    "writecache": ("dm_writecache", "writecache s /dev/{0} /dev/{1} 4096 0"),
    "thin": ("dm_thin_pool", "thin-pool /dev/{0} /dev/{1} 128 0 1 skip_block_zeroing"),
}


@contextmanager
def thin(pool: str) -> Iterator[str]:
    name = Path(f"/sys/block/{Path(pool).name}/dm/name").read_text().strip()
    administer("dmsetup", "message", name, "0", "create_thin 0")
    with device_mapper("in-the-pool", sectors_of(pool) - (1 << 15), f"thin {pool} 0") as device:
        yield device


@pytest.mark.parametrize("kind", list(MOVING))
def test_volumes_that_move_blocks(can_trace: None, kind: str, tmp_path: Path) -> None:
    """Each byte that a program reads or writes passes one disk, in a clone; what is copied besides is of others."""
    module, table = MOVING[kind]
    if not shutil.which("dmsetup", path=TOOLS) or not has_module(module):
        pytest.skip(f"no dmsetup, or no module {module} of the kernel")
    with ExitStack() as stack:
        disks = [stack.enter_context(loop_device(tmp_path / f"{i}.img")) for i in range(3)]
        device = stack.enter_context(device_mapper(kind, sectors_of(f"/dev/{disks[0]}"), table.format(*disks)))
        if kind == "thin":
            device = stack.enter_context(thin(device))
        volume = Volume(device, disks, lambda _disk, sector: sector)
        path = stack.enter_context(mounted(volume, tmp_path / "mounted")) / "file"
        lay_out(path, 16)
        with tracing(tmp_path / "io.bin", *(word for disk in disks for word in ("--device", disk))) as trace:
            pid = run_fio(path, "--size=16m", *WORKLOADS["psync"])
            assert trace.stop() == 0
        inode = path.stat().st_ino
    for disk in disks:
        assert_closed(trace, disk)
    if BACKEND == "bcc":  # which knows no clones
        return
    own = [r for r in trace.records() if (r.inode, r.path) == (inode, str(path))]
    assert sum(r.size_bytes for r in own) == 600 * 4096
    # What waits in dm-cache until a block has been moved is issued by a worker of the kernel's (process_deferred_bios).
    by_worker = [r for r in own if kind == "cache" and r.origin == OTHER and r.comm.startswith(b"kworker")]
    assert {(r.pid, r.origin) for r in own if r not in by_worker} == {(pid, SYSCALL)}


@pytest.fixture
def paths(can_trace: None, tmp_path: Path) -> Iterator[Volume]:
    """Two paths of equal content below multipath, which has requests of its own, and clones them."""
    for tool, module in (("dmsetup", "dm_multipath"), ("dmsetup", "dm_round_robin")):
        if not shutil.which(tool, path=TOOLS) or not has_module(module):
            pytest.skip(f"no {tool}, or no module {module} of the kernel")
    with ExitStack() as stack:
        disks = [stack.enter_context(loop_device(tmp_path / f"{i}.img")) for i in range(2)]
        table = "multipath 0 0 1 1 round-robin 0 2 1 " + " ".join(f"/dev/{disk} 1" for disk in disks)
        device = stack.enter_context(device_mapper("multipath", sectors_of(disks[0]), table))
        yield Volume(device, disks, lambda _disk, sector: sector)


def test_multipath_of_the_device_mapper(paths: Volume, tmp_path: Path) -> None:
    """Each request once above and once on a path, with the same task; those of a path that fails go the other way."""
    above, reads = Path(paths.device).name, 400
    everywhere = [word for disk in (above, *paths.disks) for word in ("--device", disk)]
    job = [f"--filename={paths.device}", "--rw=randread", "--bs=4k", "--direct=1", f"--number_ios={reads}"]
    with tracing(tmp_path / "io.bin", *everywhere) as trace:
        fio(*job, "--ioengine=libaio", "--iodepth=8")
        os.truncate(tmp_path / "0.img", 0)
        has_errors = reading_fails(f"/dev/{paths.disks[0]}")  # else it is read as zeros (6.1)
        fio(*job)
        assert trace.stop() == 0
    for disk in (above, *paths.disks):
        assert_closed(trace, disk)
    excluded = [trace.device(disk)["excluded"] for disk in (above, *paths.disks)]
    hidden = sum(each["completion_not_seen"] for each in excluded)
    upper, *lower = (
        [r for r in trace.records() if r.device == identity(disk) and r.mode == READ and r.pid != os.getpid()]
        for disk in (above, *paths.disks)
    )
    assert 2 * reads >= sum(r.status == 0 for r in upper) >= 2 * reads - hidden
    good = [sum(r.status == 0 for r in rows) for rows in lower]
    assert 2 * reads >= sum(good) >= 2 * reads - hidden
    failed = sum(r.status != 0 for rows in lower for r in rows)
    assert (failed > 0) == has_errors and failed <= sum(r.requeues for r in upper)
    assert good[0] <= reads if has_errors else good[0] > reads / 2
    whose = {(r.origin, r.comm) for r in upper}
    assert whose == {(SYSCALL, b"fio")}
    if BACKEND != "bcc":  # which knows no clones
        assert {(r.origin, r.comm) for rows in lower for r in rows} == whose


def reading_fails(device: str) -> bool:
    try:
        read_direct(Path(device))
    except OSError:
        return True
    return False
