"""What file systems read and write for themselves: component and task, held against what was done, and by whom."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tracer.tests.test_attribution import JOURNAL, SHARE, WRITE, mounted_image, rows_of
from tracer.tests.tracing import tracing
from tracer.tests.uring import FSYNC, Request, Ring

pytestmark = [pytest.mark.bpf, pytest.mark.root]


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_metadata_and_journal(can_trace: None, kind: str, tmp_path: Path) -> None:
    with mounted_image(kind, tmp_path) as volume:
        os.sync()
        with tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
            for i in range(200):
                (volume.directory / f"empty{i}").touch()
            os.sync()
            assert trace.stop() == 0
    rows = [row for row in rows_of(trace) if row["mode"] == "W" and row["size_bytes"]]
    journal = [row for row in rows if row["origin"] == "journal"]
    assert journal and all(row["component"] == "journal" and row["inode"] is None for row in journal)
    named = sum(row["component"] in ("journal", "metadata") for row in rows)
    assert named >= SHARE * len(rows)


def test_the_log_that_io_uring_writes_is_the_journal(can_trace: None, tmp_path: Path) -> None:
    """XFS writes its log in the thread that asks for it; of a sync by io_uring that is one of io_uring's."""
    with mounted_image("xfs", tmp_path) as volume, (volume.directory / "file").open("wb") as file:
        os.sync()
        with closing(Ring()) as ring, tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
            for i in range(50):
                os.fchmod(file.fileno(), 0o600 + i % 8)
                assert ring.run([Request(FSYNC, file.fileno())])[0].result == 0
            assert trace.stop() == 0
    written = [row for row in rows_of(trace) if row["mode"] == "W" and row["pid"] == os.getpid()]
    if not written:
        pytest.skip("another thread of this kernel writes the log")
    assert {(row["origin"], row["component"]) for row in written} == {("journal", "journal")}


def threads_of_kernel(comm: str) -> set[int]:
    """Process numbers by /proc."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().strip() == comm:
                found.add(int(path.parent.name))
    return found


def test_the_journal_is_its_threads(can_trace: None, tmp_path: Path) -> None:
    """Of ext4, which has a thread for it."""
    with mounted_image("ext4", tmp_path) as volume:
        (thread,) = threads_of_kernel(f"jbd2/{volume.disk}-8")
        with tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
            for i in range(60):
                descriptor = os.open(volume.directory / f"new{i}", os.O_WRONLY | os.O_CREAT)
                os.fsync(descriptor)
                os.close(descriptor)
            assert trace.stop() == 0
        places = journal_places(volume.disk)
    written = [r for r in trace.records() if r.size_bytes and any(a <= r.sector < b for a, b in places)]
    assert len(written) >= 60
    right = [r for r in written if (r.pid, r.inode, r.origin, r.mode) == (thread, 0, JOURNAL, WRITE)]
    assert len(right) >= SHARE * len(written)
    components = [row["component"] for row in rows_of(trace) if row["origin"] == "journal" and row["pid"] == thread]
    assert components == ["journal"] * len(components) and len(components) >= len(right)


def journal_places(disk: str) -> list[tuple[int, int]]:
    """First sector and the one behind the last of the journal's extents, by the file system's own tool."""
    blocks = subprocess.run(["debugfs", "-R", "ex <8>", f"/dev/{disk}"], check=True, capture_output=True, text=True)
    lines = re.findall(r"^ *(\d+)/ *(\d+) .*?(\d+) - +(\d+) +\d+ *(?:Uninit)?$", blocks.stdout, re.MULTILINE)
    size = int(re.findall(r"Block size: +(\d+)", superblock(disk))[0]) // 512
    return [(int(a) * size, (int(b) + 1) * size) for level, depth, a, b in lines if level == depth]


def superblock(disk: str) -> str:
    command = ["dumpe2fs", "-h", f"/dev/{disk}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", ["ext4", "xfs", "vfat"])
def test_metadata_is_of_the_process_that_reads_it(can_trace: None, kind: str, tmp_path: Path) -> None:
    """Mounted anew, so that nothing is cached; held against what the kernel says the process has read.

    What ext4 reads ahead, and all that FAT reads, the kernel does not mark (REQ_META).
    """
    with mounted_image(kind, tmp_path) as volume:
        for i in range(40):
            folder = volume.directory / f"{i}"
            folder.mkdir()
            for j in range(60):
                (folder / f"{j}-{'x' * 60}").touch()
        # Once before, so that its own files are in memory.
        for _ in range(2):
            subprocess.run(["umount", str(volume.directory)], check=True)
            subprocess.run(["mount", f"/dev/{volume.disk}", str(volume.directory)], check=True)
            with tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
                process = subprocess.Popen(["ls", "-lR", str(volume.directory)], stdout=subprocess.DEVNULL)
                _, code, usage = os.wait4(process.pid, 0)
                process.returncode = code
                assert (code, trace.stop()) == (0, 0)
    rows = [row for row in rows_of(trace) if row["mode"] == "R"]
    right = [row for row in rows if (row["pid"], row["comm"], row["inode"]) == (process.pid, "ls", None)]
    others = [row for row in rows if row["comm"] != "ext4lazyinit"]  # which reads bitmaps after mounting
    assert len(right) >= SHARE * len(others) and len(right) >= 20
    if usage.ru_majflt == 0:  # else it has read pages of its program, too
        assert sum(int(str(row["size_bytes"])) for row in right) == usage.ru_inblock * 512
    assert sum(row["component"] == "metadata" for row in rows) >= SHARE * len(rows)


def test_superblock(can_trace: None, tmp_path: Path) -> None:
    """Written by itself, and unmarked, when a file system is mounted and when it goes."""
    with mounted_image("ext4", tmp_path) as volume, tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
        subprocess.run(["umount", str(volume.directory)], check=True)
        subprocess.run(["mount", f"/dev/{volume.disk}", str(volume.directory)], check=True)
        assert trace.stop() == 0
    written = [row for row in rows_of(trace) if row["mode"] == "W" and row["size_bytes"] and row["sector"] in (0, 2)]
    assert written and {row["component"] for row in written} == {"metadata"}


def test_programs_that_use_the_disk_itself(disk: str, tmp_path: Path) -> None:
    """No file system is there, so nothing is metadata: not even a block that is read to be written in part."""
    raw = os.open(f"/dev/{disk}", os.O_RDWR)
    try:
        with tracing(tmp_path / "io.bin", "--device", disk) as trace:
            for i in range(20):
                assert os.pwrite(raw, b"x" * 512, (40 + i) * 65536 + 1024) == 512
                assert len(os.pread(raw, 4096, (100 + i) * 65536)) == 4096
            os.fsync(raw)
            assert trace.stop() == 0
    finally:
        os.close(raw)
    rows = rows_of(trace)
    in_part = {row["sector"] for row in rows if row["mode"] == "R" and row["size_bytes"] == 4096}
    assert len(in_part & {(40 + i) * 128 for i in range(20)}) == 20
    assert sum(row["mode"] == "W" for row in rows) >= 20
    assert {(row["component"], row["inode"], row["path"]) for row in rows} == {(None, None, None)}


def test_programs_that_read_a_mounted_disk(can_trace: None, tmp_path: Path) -> None:
    """A backup of the disk, which is no work of the file system on it."""
    with mounted_image("ext4", tmp_path) as volume:
        os.sync()
        raw = os.open(f"/dev/{volume.disk}", os.O_RDONLY)
        try:
            os.posix_fadvise(raw, 0, 0, os.POSIX_FADV_DONTNEED)
            with tracing(tmp_path / "io.bin", "--device", volume.disk) as trace:
                for _ in range(16):
                    assert len(os.read(raw, 1 << 20)) == 1 << 20
                assert trace.stop() == 0
        finally:
            os.close(raw)
    rows = [row for row in rows_of(trace) if row["pid"] == os.getpid()]
    assert sum(int(str(row["size_bytes"])) for row in rows) >= 15 << 20
    assert {row["component"] for row in rows} == {None}
