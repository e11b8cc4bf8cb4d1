"""io_uring by its raw system calls, and what the clock of the caller says about each request."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
import unittest
from collections.abc import Sequence
from dataclasses import dataclass

SETUP, ENTER, REGISTER = 425, 426, 427  # the same on all architectures
NOP, READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, READ, WRITE = 0, 1, 2, 3, 4, 5, 22, 23
READV_FIXED, WRITEV_FIXED = 60, 61  # since Linux 6.15
FIXED_FILE, LINK, ASYNC = 1, 4, 16  # flags of an entry
GETEVENTS = 1
REGISTER_BUFFERS, REGISTER_FILES, UNREGISTER_FILES = 0, 2, 3
RINGS_AT, ENTRIES_AT = 0, 0x10000000
ENTRY = struct.Struct("<BBHiQQIIQHHi16x")
COMPLETION = struct.Struct("<QiI")
# struct io_uring_params: sizes, flags, features; then where things are in the memory that is shared
PARAMETERS = struct.Struct("<7I12x" + 2 * "7I3I")
DEPTH = 64

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Request:
    """What is asked for. `address` is that of the buffer (READV, WRITEV: of an iovec)."""

    opcode: int
    file: int = -1
    offset: int = 0
    address: int = 0
    size: int = 0
    flags: int = 0


@dataclass(frozen=True)
class Seen:
    """A request by its caller's clock: before io_uring_enter, and with its completion entry at hand."""

    request: Request
    begin_ns: int
    end_ns: int
    result: int


def _call(number: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> int:
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def address_of(buffer: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Ring:
    """Room for DEPTH requests at a time."""

    def __init__(self) -> None:
        parameters = ctypes.create_string_buffer(PARAMETERS.size)
        try:
            self.fd = _call(SETUP, DEPTH, parameters)
        except OSError as error:
            raise unittest.SkipTest(f"no io_uring here: {error}") from error
        numbers = PARAMETERS.unpack(parameters.raw)
        head, tail, mask, entries, _, _, array = numbers[7:14]
        self.sq = {"head": head, "tail": tail, "mask": mask, "entries": entries, "array": array}
        head, tail, mask, entries, _, self.completions = numbers[17:23]
        self.cq = {"head": head, "tail": tail, "mask": mask, "entries": entries}
        size = max(self.sq["array"] + 4 * numbers[0], self.completions + COMPLETION.size * numbers[1])
        self.rings = mmap.mmap(self.fd, size, offset=RINGS_AT)
        self.entries = mmap.mmap(self.fd, ENTRY.size * numbers[0], offset=ENTRIES_AT)

    def close(self) -> None:
        self.rings.close()
        self.entries.close()
        os.close(self.fd)

    def register(self, what: int, content: bytes = b"", count: int = 0) -> None:
        _call(REGISTER, self.fd, what, ctypes.create_string_buffer(content, len(content)) if count else 0, count)

    def _number(self, place: int) -> int:
        number: int = struct.unpack_from("<I", self.rings, place)[0]
        return number

    def _set(self, place: int, number: int) -> None:
        struct.pack_into("<I", self.rings, place, number & 0xFFFFFFFF)

    def run(self, requests: Sequence[Request], *, elsewhere: bool = False) -> list[Seen]:
        """All at once; returns when the last one is complete. It waits for them in io_uring_enter, or `elsewhere`."""
        tail, mask = self._number(self.sq["tail"]), self._number(self.sq["mask"])
        for number, r in enumerate(requests):
            place = (tail + number) & mask
            entry = (r.opcode, r.flags, 0, r.file, r.offset, r.address, r.size, 0, number, 0, 0, 0)
            ENTRY.pack_into(self.entries, place * ENTRY.size, *entry)
            self._set(self.sq["array"] + 4 * place, place)
        self._set(self.sq["tail"], tail + len(requests))
        seen: dict[int, Seen] = {}
        submit, begin_ns = len(requests), time.monotonic_ns()
        while len(seen) < len(requests):
            if submit or not elsewhere:
                _call(ENTER, self.fd, submit, 0 if elsewhere else 1, 0 if elsewhere else GETEVENTS, 0, 0)
            else:
                time.sleep(0.0002)
            submit = 0
            for number, result in self._reap():
                seen[number] = Seen(requests[number], begin_ns, time.monotonic_ns(), result)
        return [seen[number] for number in range(len(requests))]

    def _reap(self) -> list[tuple[int, int]]:
        head, tail, mask = (self._number(self.cq[name]) for name in ("head", "tail", "mask"))
        found = []
        while head != tail:
            number, result, _ = COMPLETION.unpack_from(self.rings, self.completions + (head & mask) * COMPLETION.size)
            found.append((number, result))
            head = (head + 1) & 0xFFFFFFFF
        self._set(self.cq["head"], head)
        return found
