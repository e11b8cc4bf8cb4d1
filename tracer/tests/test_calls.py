"""Each system call that docs/tracer.md says is timed: as often as it was made, by whom, on which file, its requests."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tracer.tests.test_return import READ, SYNC, WRITE, Timed, timed
from tracer.tests.tracing import EMPTY, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

OTHER = 1
CLASSES = {READ: "read", WRITE: "write", SYNC: "sync"}
TIMES = 8
BLOCK = 4096
#: Of each call, so that no request is read ahead for another one.
APART = 1 << 20
DOCS = Path(__file__).parents[2] / "docs"

LIBC = ctypes.CDLL(None, use_errno=True)
#: sync_file_range: wait before, write, wait after.
WRITE_AND_WAIT = 7
KEEP_SIZE, PUNCH_HOLE = 1, 2
HIGH_PRIORITY = 1


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass
class Files:
    """A file of which nothing is cached, and what calls take beside it."""

    path: Path
    direct: int
    buffered: int
    memory: mmap.mmap
    mapped: mmap.mmap
    pipe: tuple[int, int]
    sink: int

    @property
    def address(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def vector(self) -> object:
        return ctypes.byref(Vector(self.address, BLOCK))

    def dirty(self, at: int) -> None:
        os.pwrite(self.buffered, os.urandom(BLOCK), at)


Call = Callable[[Files, int], None]


def libc(name: str, *arguments: object, returns: int = BLOCK) -> None:
    """By the C library, which makes the system call of this name."""
    function = getattr(LIBC, name)
    function.restype = ctypes.c_ssize_t if returns else ctypes.c_int
    result = function(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result != returns:
        raise OSError(ctypes.get_errno(), f"{name}: {result}")


def at_place(name: str, *last: int, by_vector: bool = False) -> Call:
    def call(files: Files, at: int) -> None:
        where = (files.vector(), 1) if by_vector else (files.address, BLOCK)
        libc(name, files.direct, *where, at, *last)

    return call


def in_turn(name: str, *, by_vector: bool = False) -> Call:
    """Without a place of its own: from where the one before ended."""

    def call(files: Files, at: int) -> None:
        where = (files.vector(), 1) if by_vector else (files.address, BLOCK)
        libc(name, files.direct, *where)

    return call


def on_dirty(name: str, *last: int) -> Call:
    return lambda files, at: libc(name, files.buffered, *(word if word >= 0 else at for word in last), returns=0)


def copy(files: Files, at: int) -> None:
    libc("copy_file_range", files.buffered, ctypes.byref(ctypes.c_int64(at)), files.sink, None, BLOCK, 0)


def send(files: Files, at: int) -> None:
    libc("sendfile64", files.sink, files.buffered, ctypes.byref(ctypes.c_int64(at)), BLOCK)


def splice(files: Files, at: int) -> None:
    libc("splice", files.buffered, ctypes.byref(ctypes.c_int64(at)), files.pipe[1], None, BLOCK, 0)


def punch(files: Files, at: int) -> None:
    """Within a block, of which the rest has to be read."""
    libc("fallocate64", files.buffered, PUNCH_HOLE | KEEP_SIZE, at + 100, 200, returns=0)


def sync_mapped(files: Files, at: int) -> None:
    files.mapped.flush(at, BLOCK)


#: Name -> its kind, whether it finds something dirty, and how it is made.
CALLS: dict[str, tuple[int, bool, Call]] = {
    "read": (READ, False, in_turn("read")),
    "pread64": (READ, False, at_place("pread64")),
    "readv": (READ, False, in_turn("readv", by_vector=True)),
    "preadv": (READ, False, at_place("preadv64", by_vector=True)),
    "preadv2": (READ, False, at_place("preadv64v2", HIGH_PRIORITY, by_vector=True)),
    "write": (WRITE, False, in_turn("write")),
    "pwrite64": (WRITE, False, at_place("pwrite64")),
    "writev": (WRITE, False, in_turn("writev", by_vector=True)),
    "pwritev": (WRITE, False, at_place("pwritev64", by_vector=True)),
    "pwritev2": (WRITE, False, at_place("pwritev64v2", HIGH_PRIORITY, by_vector=True)),
    "fsync": (SYNC, True, on_dirty("fsync")),
    "fdatasync": (SYNC, True, on_dirty("fdatasync")),
    "msync": (OTHER, True, sync_mapped),
    "sync_file_range": (SYNC, True, on_dirty("sync_file_range", -1, BLOCK, WRITE_AND_WAIT)),
    "syncfs": (OTHER, False, on_dirty("syncfs")),
    "sync": (OTHER, False, lambda files, at: LIBC.sync()),
    "sendfile": (OTHER, False, send),
    "copy_file_range": (OTHER, False, copy),
    "splice": (OTHER, False, splice),
    "fallocate": (OTHER, False, punch),
}
#: They flush the disk, and may write metadata; data is written by threads of the kernel.
OF_NO_FILE = ("syncfs", "sync")


@pytest.fixture
def files(mounted: Path) -> Iterator[Files]:
    path = mounted / "file"
    path.write_bytes(os.urandom(TIMES * APART))
    (mounted / "sink").write_bytes(bytes(TIMES * BLOCK))
    os.sync()
    direct, buffered = os.open(path, os.O_RDWR | os.O_DIRECT), os.open(path, os.O_RDWR)
    sink = os.open(mounted / "sink", os.O_RDWR)
    pipe = os.pipe()
    os.posix_fadvise(buffered, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(buffered, 0, 0, os.POSIX_FADV_RANDOM)
    memory, mapped = mmap.mmap(-1, BLOCK), mmap.mmap(buffered, TIMES * APART)
    try:
        yield Files(path, direct, buffered, memory, mapped, pipe, sink)
    finally:
        mapped.close()
        for descriptor in (direct, buffered, sink, *pipe):
            os.close(descriptor)


def test_these_are_all_that_are_documented() -> None:
    line = re.search(
        r"^- `vfs_ns` begins at (.*?); for io_uring", (DOCS / "tracer.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert line
    assert re.findall(r"\w+", line[1]) == list(CALLS)


@pytest.mark.parametrize("name", list(CALLS))
def test_a_timed_call(name: str, files: Files, disk: str, tmp_path: Path) -> None:
    kind, is_dirty, call = CALLS[name]
    calls: list[Timed] = []
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
        for at in range(0, TIMES * APART, APART):
            if is_dirty:
                files.dirty(at)
            calls.append(timed(lambda: call(files, at)))  # noqa: B023
        assert trace.stop() == 0
    returns = sorted(trace.returns(), key=lambda one: one.start_ns)
    assert [(one.kind, one.tid) for one in returns] == [(kind, threading.get_native_id())] * TIMES
    for made, seen in zip(calls, returns, strict=True):
        assert made.begin_ns <= seen.start_ns <= seen.start_ns + seen.duration_ns <= made.end_ns
        assert seen.requests == seen.bios >= 1
    assert trace.status()["returns"] == {"returned": TIMES, "emitted": TIMES, "dropped": 0}
    vfs = trace.status()["vfs"]
    prepared = TIMES if is_dirty else 0
    assert {of: (vfs[of]["with_io"]["calls"], vfs[of]["cached"]["calls"]) for of in CLASSES.values()} == {
        of: (TIMES if CLASSES.get(kind) == of else 0, prepared if of == "write" else 0) for of in CLASSES.values()
    }
    own = [r for r in trace.records() if r.vfs_ns != EMPTY]
    assert {r.pid for r in own} == {os.getpid()}
    assert {r.start_ns for r in own} == {one.start_ns for one in returns}
    if name in OF_NO_FILE:
        assert {(r.mode, r.inode) for r in own} == {(1, 0)}
        assert any(not r.size_bytes for r in own)
        return
    on_file = [r for r in own if r.inode == files.path.stat().st_ino and r.path == str(files.path)]
    assert len(on_file) == TIMES
    assert {r.start_ns for r in on_file} == {one.start_ns for one in returns}
    size = os.statvfs(files.path).f_bsize if name == "fallocate" else BLOCK
    assert {(r.size_bytes, r.mode) for r in on_file} == {(size, 1 if is_dirty or kind == WRITE else 0)}
