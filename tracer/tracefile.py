"""The tracer's file: header, slots of 64 bytes, and the definitions among them (tracer/src/record.h)."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MAGIC = b"STRATAIO"
VERSION = 3
PREAMBLE = struct.Struct("<8sII")
HEADER_ALIGNMENT = 64
BLOCK_SLOTS = 1 << 14

RECORD = np.dtype(
    [
        ("start_ns", "<i8"),
        ("sector", "<i8"),
        ("low", "<u4", (5,)),
        ("size_bytes", "<u4"),
        ("task", "<u4"),
        ("file", "<u4"),
        ("high", "u1", (5,)),
        ("mode", "u1"),
        ("device", "<u2"),
        ("origin", "u1"),
        ("flags", "u1"),
        ("status", "u1"),
        ("tracing", "u1"),
        ("bios", "<u2"),
        ("requeues", "<u2"),
    ]
)
#: The slot of a system call that has returned: byte 53 is RETURN.
RETURN_RECORD = np.dtype(
    [
        ("start_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("waited_ns", "<i8"),
        ("bytes", "<i8"),
        ("bios", "<u4"),
        ("requests", "<u4"),
        ("task", "<u4"),
        ("unused", "<u4"),
        ("kind", "u1"),
        ("unused_too", "u1", (4,)),
        ("mode", "u1"),
        ("padding", "u1", (10,)),
    ]
)
RETURN = 16
NOT_WAITED = -1
NO_SECTOR = -1
#: Order of `low` and `high`.
DURATIONS = ("vfs_ns", "block_ns", "driver_ns", "device_ns", "scheduler_ns")
DURATION_EMPTY = (1 << 40) - 1
FIRST_TEXT, LAST_TEXT = 0x20, 0x7E
#: No trace has more; a higher number is damage, and must not take the memory of so many.
MOST_DEFINITIONS = 1 << 24
MOST_DEVICES = 1 << 16
#: Of unix times and of differences between clocks, so that two of them can be added: until the year 2116.
MOST_NS = 1 << 62

Slots = np.ndarray[Any, np.dtype[np.void]]
Places = np.ndarray[Any, np.dtype[np.int32]]


class TraceFileError(ValueError):
    """The file is no trace, is of another version, damaged, ends within its header, or is no regular file."""


@dataclass(frozen=True)
class Header:
    """What stands before the slots. `returns`: there may be records of calls that have returned."""

    header_bytes: int
    anchor_unix_ns: int
    anchor_mono_ns: int
    started_mono_ns: int
    returns: bool

    @property
    def shift_ns(self) -> int:
        """From the times in records to unix time."""
        return self.anchor_unix_ns - self.anchor_mono_ns

    @property
    def started_unix_ns(self) -> int:
        return self.started_mono_ns + self.shift_ns


def status_path(file: Path) -> Path:
    """Where the tracer's status is beside its output; a run keeps it as trace.json."""
    path = file.with_name(file.name + ".json")
    if file.name == "io.bin" and not path.exists():
        return file.with_name("trace.json")
    return path


def named_twice(files: Sequence[Path]) -> Path | None:
    """One that stands there more than once, also by another name: its records would count as often."""
    seen: set[tuple[int, int]] = set()
    for file in files:
        with suppress(OSError):  # it is told when it is to be read
            status = file.stat()
            if (status.st_dev, status.st_ino) in seen:
                return file
            seen.add((status.st_dev, status.st_ino))
    return None


def read_header(path: Path) -> Header:
    """Reads and checks the header; raises TraceFileError with the reason in one line."""
    with path.open("rb") as file:
        return _read_header(path, file)


def _read_header(path: Path, file: BinaryIO) -> Header:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        # A pipe would seem to end behind its header: how long it is nobody knows, and records are read twice.
        raise TraceFileError(f"{path}: not a regular file; keep the trace in one")
    preamble = file.read(PREAMBLE.size)
    if preamble[: len(MAGIC)] != MAGIC[: len(preamble)] or not preamble:
        if path.suffix == ".json":
            raise TraceFileError(f"{path}: not a trace but the status of one; name {path.with_suffix('')}")
        raise TraceFileError(f"{path}: not a trace of block I/O (magic {preamble[:8]!r})")
    if len(preamble) < PREAMBLE.size:
        raise TraceFileError(f"{path}: ends within its header")
    _, version, header_bytes = PREAMBLE.unpack(preamble)
    if version != VERSION:
        raise TraceFileError(f"{path}: version {version}, this decoder reads version {VERSION}")
    if header_bytes % HEADER_ALIGNMENT or header_bytes <= PREAMBLE.size:
        raise TraceFileError(f"{path}: header of {header_bytes} bytes, no multiple of {HEADER_ALIGNMENT}")
    text = file.read(header_bytes - PREAMBLE.size)
    if len(text) < header_bytes - PREAMBLE.size:
        raise TraceFileError(f"{path}: ends within its header")
    return _parse_header(path, header_bytes, text)


def _parse_header(path: Path, header_bytes: int, text: bytes) -> Header:
    try:
        content = json.loads(text.decode("utf-8"))
        header = Header(
            header_bytes=header_bytes,
            anchor_unix_ns=_whole(content["anchor_unix_ns"]),
            anchor_mono_ns=_whole(content["anchor_mono_ns"]),
            started_mono_ns=_whole(content["started_mono_ns"]),
            returns=content.get("returns") is not False,
        )
        record_bytes = _whole(content["record_bytes"])
    except KeyError as error:
        raise TraceFileError(f"{path}: header without {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TraceFileError(f"{path}: header is not the expected JSON: {error}") from None
    if max(abs(header.shift_ns), abs(header.started_unix_ns)) >= MOST_NS:
        raise TraceFileError(f"{path}: header with impossible clocks")
    if record_bytes != RECORD.itemsize:
        raise TraceFileError(f"{path}: records of {record_bytes} bytes, this decoder reads {RECORD.itemsize}")
    return header


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError(f"{value!r} is not a 64-bit number")
    return value


def _unsigned(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r} is not an unsigned 64-bit number")
    return value


class Numbers:
    """The place of each number that is defined: 1 and on, in their order. All else is kept by place, for then memory
    grows with the definitions that there are, not with the highest number among them.
    """

    def __init__(self, most: int) -> None:
        # What is never written takes no memory. The last one is never defined: it stands for all beyond.
        self._places = np.zeros(most + 1, np.int32)
        self._count = 0

    def place(self, number: int) -> int:
        """Of a number that is defined, perhaps not for the first time."""
        if not 0 <= number < len(self._places) - 1:
            raise ValueError(f"number {number}")
        if not self._places[number]:
            self._count += 1
            self._places[number] = self._count
        return int(self._places[number])

    def places(self, numbers: np.ndarray[Any, Any]) -> Places:
        """0: not defined."""
        return self._places.take(numbers, mode="clip")


class Column:
    """Values by their place."""

    def __init__(self, kind: type[np.generic]) -> None:
        self.values: np.ndarray[Any, Any] = np.zeros(64, kind)

    def __setitem__(self, place: int, value: int) -> None:
        if place >= len(self.values):
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
        self.values[place] = value


class Texts:
    """Texts by their code, each once."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.list))
        if code == len(self.list):
            self.list.append(text)
        return code


#: A code in a Column of codes: the text is not known.
NO_TEXT = -1


class Definitions:
    """What the numbers in records stand for; grows while the file is read. Number 0 = unknown, for tasks and files."""

    def __init__(self) -> None:
        self.tasks = Numbers(MOST_DEFINITIONS)
        self.task_pid, self.task_cgroup, self.task_comm = Column(np.int64), Column(np.uint64), Column(np.int32)
        self.comms = Texts()
        self.files = Numbers(MOST_DEFINITIONS)
        self.file_inode, self.file_path = Column(np.uint64), Column(np.int32)
        self.paths = Texts()
        self.devices = Numbers(MOST_DEVICES)
        self.device_name = Column(np.int32)
        self.device_names = Texts()
        self.task_comm[self.tasks.place(0)] = NO_TEXT
        self.file_path[self.files.place(0)] = NO_TEXT

    def add(self, line: bytes) -> None:
        """One definition; raises ValueError, KeyError or TypeError when it is none."""
        content = json.loads(line)
        if "task" in content:
            place = self.tasks.place(_whole(content["task"]))
            self.task_pid[place] = _whole(content["pid"])
            self.task_cgroup[place] = _unsigned(content["cgroup_id"])
            self.task_comm[place] = self.comms.code(_text(content["comm"]))
        elif "file" in content:
            place = self.files.place(_whole(content["file"]))
            self.file_inode[place] = _unsigned(content["inode"])
            path = content["path"]
            self.file_path[place] = NO_TEXT if path is None else self.paths.code(_text(path))
        elif "device" in content:
            place = self.devices.place(_whole(content["device"]))
            self.device_name[place] = self.device_names.code(_text(content["name"]))


def _text(value: str) -> str:
    """The kernel's names are bytes, and stand in the file as Latin-1."""
    return value.encode("latin-1").decode("utf-8", "replace")


class TraceFile:
    """One file, opened once: it stays that one, and as long as it was, whatever the tracer does to its path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            # As long as the map is there no other tracer empties the file, which would end who reads it with SIGBUS.
            with suppress(OSError):  # the one that writes it has it, or it cannot be locked
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self.header = _read_header(path, file)
            first = self.header.header_bytes
            #: A last partial one is ignored.
            self.slot_count = max(0, os.fstat(file.fileno()).st_size - first) // RECORD.itemsize
            self._slots: Slots = np.empty(0, RECORD)
            if self.slot_count:
                self._slots = np.asarray(np.memmap(file, RECORD, "r", first, (self.slot_count,)))

    def requests(self) -> Iterator[tuple[Slots, Definitions]]:
        """Yields the records of requests in blocks, each with the definitions known by its end."""
        definitions = Definitions()
        rest = b""
        for slots in self._blocks():
            mode = np.ascontiguousarray(slots["mode"])
            text = (mode >= FIRST_TEXT) & (mode <= LAST_TEXT)
            if text.any():
                *lines, rest = (rest + slots[text].tobytes()).split(b"\n")
                _define(self.path, definitions, lines)
            other = text | (mode == RETURN)
            block = _chosen(slots, ~other) if other.any() else slots
            if not block["start_ns"].all():
                self._refuse_zeros(slots)
            if len(block):
                yield block, definitions

    def _refuse_zeros(self, slots: Slots) -> None:
        """A file system that went down may leave zeros where it had not written yet; no record is like that."""
        zeros = np.flatnonzero(~slots.view("<u8").reshape(len(slots), -1).any(axis=1))
        if not len(zeros):
            return
        before = slots.ctypes.data - self._slots.ctypes.data
        offset = self.header.header_bytes + before + int(zeros[0]) * RECORD.itemsize
        raise TraceFileError(
            f"{self.path}: damaged: zeros at byte {offset}, where a record should be; of a copy that is cut off there "
            f"(truncate -s {offset}) the rest can be read"
        )

    def returns(self) -> Iterator[Slots]:
        """Yields the records of calls that have returned, of type RETURN_RECORD, in blocks."""
        if not self.header.returns:
            return
        for block in self._blocks():
            chosen = block["mode"] == RETURN
            if chosen.any():
                yield _chosen(block, chosen).view(RETURN_RECORD)

    def _blocks(self) -> Iterator[Slots]:
        for first in range(0, self.slot_count, BLOCK_SLOTS):
            yield self._slots[first : first + BLOCK_SLOTS]


def _chosen(block: Slots, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Slots:
    """The slots that are chosen. As plain numbers they are copied five times as fast as records."""
    words = block.view("<u8").reshape(len(block), -1)
    return words.take(np.flatnonzero(chosen), axis=0).view(block.dtype).reshape(-1)


def _define(path: Path, definitions: Definitions, lines: list[bytes]) -> None:
    for line in lines:
        try:
            definitions.add(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TraceFileError(f"{path}: damaged definition {line[:80]!r}: {error!r}") from None
