"""Names of many files and tasks, and of file systems that come and go."""

from __future__ import annotations

import csv
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tracer import decode, tracefile
from tracer.tests.conftest import DISK_BYTES
from tracer.tests.tracing import Slots, altered, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

READ = 0
FILES = 5000
NUMBERS = 12_000  # half of them are more definitions than a block of the decoder has room for
FIBMAP = 1


@pytest.fixture(scope="module")
def small(can_trace: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its programs have 4,096 numbers for files and use the last 1,024; its output has NUMBERS, 16 tasks in mind."""
    changes = {
        "bpf/file.bpf.h": {"FILE_NUMBER_BITS 24": "FILE_NUMBER_BITS 12"},
        "bpf/iotrace.h": {"FILES_USED (3U << 12)": "FILES_USED (1U << 10)"},
        "src/catalog.c": {
            "MOST_TASKS 16384": "MOST_TASKS 16",
            "MOST_NUMBERS ((1U << 24) - 1)": f"MOST_NUMBERS {NUMBERS}",
        },
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


def read_direct(path: Path, size_bytes: int = 4096, at: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size_bytes) as aligned:
            assert os.preadv(descriptor, [aligned], at) == size_bytes
    finally:
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


def test_names_of_all_lengths_are_told(disk: str, mounted: Path, tmp_path: Path) -> None:
    """A definition may end with its slot: then its end stands in one more.

    Twice as many lengths as a slot has, for where the number of the file or inode has one digit more one is left out.
    """
    paths = [mounted / ("x" * length) for length in range(1, 130)]
    for path in paths:
        path.write_bytes(bytes(4096))
    os.sync()
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        for path in paths:
            read_direct(path)
        assert trace.stop() == 0
    content = trace.output.read_bytes()
    assert b"}" + b" " * 63 + b"\n" in content, "one of them ended with its slot"
    told = {r.path for r in trace.records() if r.pid == os.getpid() and r.mode == READ}
    hidden = trace.device(disk)["excluded"]["completion_not_seen"]
    assert len(told & set(map(str, paths))) >= len(paths) - hidden


def sectors_of(path: Path) -> list[int]:
    """The first one of each block: a small file, too, may lie in two places."""
    block_bytes = os.statvfs(path).f_bsize
    blocks = [struct.pack("i", number) for number in range(-(-path.stat().st_size // block_bytes))]
    with path.open("rb") as file:
        places = [struct.unpack("i", fcntl.ioctl(file, FIBMAP, block))[0] for block in blocks]
    return [place * block_bytes // 512 for place in places]


def definitions(trace: Path, kind: str) -> int:
    return sum(b'{"%s": ' % kind.encode() in line for line in trace.read_bytes().split(b"\n"))


def test_a_file_that_is_read_all_the_time_does_not_keep_its_number(
    small: Path, disk: str, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes first in the trace, so a round later its number is the first to be another file's. Sectors tell them."""
    often, *others = files[:4000]  # fewer than there are numbers
    file_at = {sector: (str(path), path.stat().st_ino) for path in files for sector in sectors_of(path)}
    reads = 0
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", str(1 << 20), binary=small) as trace:
        while reads < 2.4 * NUMBERS:
            for path in others:
                for each in [often, path] if reads % 10 == 0 else [path]:
                    read_direct(each)
                    reads += 1
        assert trace.stop() == 0
    monkeypatch.setattr(tracefile, "MOST_DEFINITIONS", NUMBERS + 1)
    table = decode.read_table(tmp_path / "io.bin").filter(pc.field("pid") == os.getpid())
    rows = table.filter(pc.is_valid(table["path"])).select(["sector", "path", "inode"]).to_pylist()
    wrong = [row for row in rows if file_at.get(row["sector"]) != (row["path"], row["inode"])]
    assert not wrong, f"{len(wrong)} rows of another file"
    assert definitions(tmp_path / "io.bin", "file") > 2 * NUMBERS + 1000
    assert len(rows) + trace.device(disk)["excluded"]["completion_not_seen"] >= 0.99 * reads


def test_files_that_are_not_read_any_more_are_forgotten(
    small: Path, disk: str, files: list[Path], tmp_path: Path
) -> None:
    """Else the tracer's memory grows with all files that were ever read. One that is read again is the same file."""
    first, others = files[0], files[1:3500]  # fewer than there are numbers
    read_every = 100
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", str(1 << 20), binary=small) as trace:
        read_direct(first)
        for number, path in enumerate(others):
            read_direct(path)
            if number % read_every == 0:
                read_direct(others[0])
        read_direct(first)
        assert trace.stop() == 0
    defined = Counter(file["path"] for file in Slots(tmp_path / "io.bin").definitions["file"].values())
    assert (defined[str(first)], defined[str(others[0])]) == (2, 1), "the latter was read all the time"
    rows = [r for r in trace.records() if r.pid == os.getpid() and r.path == str(first)]
    assert {r.inode for r in rows} == {first.stat().st_ino}


def test_memory_does_not_grow_with_the_files_that_were_read(disk: str, tmp_path: Path) -> None:
    """More files than are known at a time, with paths as long as those of databases."""
    count = 45_000
    with file_system(disk, tmp_path / "many", "-b", "1024", "-i", "4096") as some:
        directory = some.parent / ("d" * 40)
        directory.mkdir()
        paths = [directory / f"{number:032x}" for number in range(count)]
        for path in paths:
            path.write_bytes(bytes(1024))
        os.sync()
        with tracing(tmp_path / "io.bin", "--device", disk) as trace:
            for path in paths:
                read_direct(path, 1024)
            status = Path(f"/proc/{trace.process.pid}/status").read_text()
            assert trace.stop() == 0
    (peak_kb,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    assert definitions(tmp_path / "io.bin", "file") >= 0.98 * count
    assert peak_kb <= 25_000


def test_names_that_are_told_again(small: Path, mounted: Path, disk: str, files: list[Path], tmp_path: Path) -> None:
    """A file with three names in turn, each told again because others were: they are defined once, in any order."""
    orders = [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)]
    names = [mounted / name for name in ("one", "other", "third")]
    between = iter(files)
    path = mounted / "first"
    path.write_bytes(bytes(4096 * 12))
    os.sync()
    sectors = iter(sectors_of(path)[:: 4096 // os.statvfs(path).f_bsize])
    name_at: dict[int, str] = {}
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", str(1 << 20), binary=small) as trace:
        for order in orders:
            for other in islice(between, 1100):
                read_direct(other)
            for number in order:
                path = path.rename(names[number])
                read_direct(path, at=4096 * len(name_at))
                name_at[next(sectors)] = str(path)
        assert trace.stop() == 0
    of_file = [r for r in trace.records() if r.pid == os.getpid() and r.sector in name_at]
    assert len(of_file) >= len(name_at) - trace.device(disk)["excluded"]["completion_not_seen"]
    assert {r.sector: r.path for r in of_file}.items() <= name_at.items()
    defined = Counter(file["path"] for file in Slots(tmp_path / "io.bin").definitions["file"].values())
    assert [defined[str(name)] for name in names] == [1, 1, 1]


def test_numbers_of_tasks_are_used_again(
    small: Path, disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process reads from its own part of the disk, so that the sector tells whose the read was."""
    jobs, reads = 64, 700
    part = DISK_BYTES // jobs
    processes = [f"--numjobs={jobs}", f"--offset_increment={part}", f"--size={part}", "--group_reporting"]
    with tracing(tmp_path / "io.bin", "--device", disk, binary=small) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--norandommap", "--direct=1", f"--number_ios={reads}",
            *processes)  # fmt: skip
        assert trace.stop() == 0
    monkeypatch.setattr(tracefile, "MOST_DEFINITIONS", NUMBERS + 1)
    table = decode.read_table(tmp_path / "io.bin").filter(pc.field("comm") == "fio")
    whose = {
        (sector * 512 // part, pid)
        for sector, pid in zip(table["sector"].to_pylist(), table["pid"].to_pylist(), strict=True)
    }
    assert definitions(tmp_path / "io.bin", "task") > NUMBERS + 1000
    assert len(whose) == len({pid for _, pid in whose}) == jobs
    assert len(table) + trace.device(disk)["excluded"]["completion_not_seen"] >= jobs * reads


def test_more_tasks_than_are_kept_in_mind(small: Path, disk: str, tmp_path: Path) -> None:
    threads = ["--thread", "--numjobs=100", "--group_reporting"]
    with tracing(tmp_path / "io.bin", "--device", disk, binary=small) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--direct=1", "--number_ios=50", *threads)
        assert trace.stop() == 0
    rows = Counter(r.tid for r in trace.records() if r.comm == b"fio" and r.tid != r.pid)
    assert len(rows) == 100 and set(rows.values()) <= set(range(51))
    assert sum(rows.values()) >= 5000 - trace.device(disk)["excluded"]["completion_not_seen"]


@contextmanager
def file_system(disk: str, point: Path, *options: str) -> Iterator[Path]:
    """A new one at `point`, with a file."""
    point.mkdir()
    subprocess.run(["mkfs.ext4", "-q", *options, f"/dev/{disk}"], check=True)
    subprocess.run(["mount", f"/dev/{disk}", str(point)], check=True)
    try:
        (point / "file").write_bytes(bytes(4096))
        os.sync()
        yield point / "file"
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_a_file_system_in_the_place_of_another_one(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        for name in ("first", "second"):
            with file_system(disk, tmp_path / name) as file:
                for _ in range(20):  # the kernel may hide the end of one
                    read_direct(file)
                trace.device_now(disk)  # by now its name has been read
        assert trace.stop() == 0
    paths = {r.path for r in trace.records() if r.size_bytes == 4096 and r.mode == READ and r.path}
    assert paths == {str(tmp_path / name / "file") for name in ("first", "second")}


READ_ALL = """
import mmap, os, pathlib, sys
with mmap.mmap(-1, 4096) as aligned:
    for path in pathlib.Path(sys.argv[1]).iterdir():
        if path.is_file():
            os.preadv(os.open(path, os.O_RDONLY | os.O_DIRECT), [aligned], 0)
"""


def bytes_read_by(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def test_a_file_system_that_only_others_see(disk: str, tmp_path: Path) -> None:
    """Its files have their paths within it, and the list of mounts is not read for each."""
    with file_system(disk, tmp_path / "point") as file:
        for number in range(1000):
            file.with_name(f"{number}").write_bytes(bytes(4096))
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        before = bytes_read_by(trace.process.pid)
        namespace = ["unshare", "--mount", "sh", "-c", f'mount /dev/{disk} $0 && exec {sys.executable} -c "$1" $0']
        subprocess.run([*namespace, str(tmp_path / "point"), READ_ALL], check=True)
        read_bytes = bytes_read_by(trace.process.pid) - before
        assert trace.stop() == 0
    paths = {r.path for r in trace.records() if r.comm.startswith(b"python") and r.size_bytes == 4096 and r.path}
    expected = {"/file", *(f"/{number}" for number in range(1000))}
    hidden = trace.device(disk)["excluded"]["completion_not_seen"]
    assert len(expected & paths) >= len(expected) - hidden and not {p for p in paths if p.startswith(str(tmp_path))}
    assert read_bytes < 100 * len(Path("/proc/self/mountinfo").read_text())


@pytest.mark.parametrize(
    ("names", "is_known"),
    [
        (["d"] * 30 + ["file"], True),
        (["d"] * 31 + ["file"], False),
        (["d" * 200] * 5 + ["f" * 17], True),  # 1,023 bytes, counting one more for each
        (["d" * 200] * 5 + ["f" * 18], False),
        (["f" * 255], True),
        (['line\nbreak, "quotes" and \\', "\x7f\x1b[31m\t\u00e9"], True),
    ],
    ids=["31 names", "32 names", "1023 bytes", "1024 bytes", "a long name", "odd names"],
)
def test_how_long_a_path_may_be(mounted: Path, disk: str, tmp_path: Path, names: list[str], is_known: bool) -> None:
    path = mounted.joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(4096))
    os.sync()
    with tracing(tmp_path / "io.bin", "--device", disk, "--pid", str(os.getpid()), "--mode", "R") as trace:
        read_direct(path)
        assert trace.stop() == 0
    rows = [r for r in trace.records() if r.inode == path.stat().st_ino]
    assert [r.path for r in rows] == [str(path) if is_known else None]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b'a,"b"\n c', 'a,"b"\n c'),
        ("データベース".encode()[:15], "データベー"),
        (b"x" + "データベース".encode()[:14], "xデータベ\ufffd\ufffd"),  # the kernel keeps 15 bytes
        (b"\xff\xed\xa0\x80", "\ufffd" * 4),
        ("𝄞é".encode(), "𝄞é"),
        (b"\xff\xc3\xa4\x80!\xc1\x81\xf5", "\ufffdä\ufffd!\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\x80\xed\x9f\xbf \xe0\x9f\xbf", "\ufffd\ufffd\ufffd\ud7ff \ufffd\ufffd\ufffd"),
        (b"\xf4\x90\x80\x80\xf4\x8f\xbf\xbf\xf0\x8f\x80\x80", "\ufffd" * 4 + "\U0010ffff" + "\ufffd" * 4),
    ],
    ids=["quotes", "whole", "cut", "no text", "long characters", "stray bytes", "first and last", "beyond the last"],
)
def test_names_in_lines_of_spans(disk: str, tmp_path: Path, name: bytes, text: str) -> None:
    path, own = tmp_path / "spans", Path("/proc/self/comm")
    options = ("--device", disk, "--pid", str(os.getpid()), "--spans", str(path), "--span-sample", "1")
    before = own.read_bytes()
    here, there = socket.socketpair()
    with here, there, tracing(tmp_path / "io.bin", *options) as trace:
        own.write_bytes(name)
        try:
            here.sendall(b"?")
            there.sendall(there.recv(1))
            assert trace.stop() == 0
        finally:
            own.write_bytes(before.rstrip(b"\n"))
    for file in (path, Path(f"{path}.samples")):
        with file.open(newline="", encoding="utf-8") as lines:
            assert [row["comm"] for row in csv.DictReader(lines) if row["pid"] == str(os.getpid())] == [text]
