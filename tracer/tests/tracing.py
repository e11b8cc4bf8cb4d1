"""What the tests share: running the tracer and fio, and the kernel's own counters."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRACER = Path(__file__).resolve().parents[1] / "build" / "strata-iotrace"

# Written down here once more, so that the tests do not believe the decoder.
RECORD = struct.Struct("<9Q4I16s4B2H")
EMPTY = 2**64 - 1
READY_TIMEOUT_S = 30


@dataclass
class Record:
    start_ns: int
    vfs_ns: int
    block_ns: int
    driver_ns: int
    device_ns: int
    scheduler_ns: int
    sector: int
    cgroup_id: int
    inode: int
    size_bytes: int
    device: int
    pid: int
    tid: int
    comm: bytes
    mode: int
    origin: int
    flags: int
    status: int
    bios: int
    requeues: int

    def pack(self) -> bytes:
        return RECORD.pack(*vars(self).values())


def read_records(path: Path) -> list[Record]:
    content = path.read_bytes()
    (header_bytes,) = struct.unpack_from("<I", content, 12)
    end = header_bytes + (len(content) - header_bytes) // RECORD.size * RECORD.size
    return [Record(*fields) for fields in RECORD.iter_unpack(content[header_bytes:end])]


class Trace:
    """A running tracer."""

    def __init__(self, output: Path, process: subprocess.Popen[bytes]) -> None:
        self.output = output
        self.process = process

    def stop(self, with_signal: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(timeout=30)

    def status(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(Path(f"{self.output}.json").read_text())
        return content

    def device(self, name: str) -> dict[str, Any]:
        (device,) = [device for device in self.status()["devices"] if device["device"] == name]
        return dict(device)

    def records(self) -> list[Record]:
        return read_records(self.output)


@contextmanager
def tracing(output: Path, *arguments: str) -> Iterator[Trace]:
    """The tracer, from "ready" on; stopped in any case."""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [str(TRACER), "--output", str(output), "--ready-fd", str(write_end), *arguments], pass_fds=[write_end]
    )
    os.close(write_end)
    trace = Trace(output, process)
    try:
        with os.fdopen(read_end, "rb") as ready:
            assert ready.readline() == b"ready\n", f"exit code {process.wait(READY_TIMEOUT_S)}"
        yield trace
    finally:
        trace.stop(signal.SIGTERM)


def fio(*arguments: str) -> dict[str, Any]:
    """Runs one fio job; returns what fio says about it."""
    result = subprocess.run(
        ["fio", "--name=test", "--output-format=json", "--randseed=7", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    job: dict[str, Any] = json.loads(result.stdout[result.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0
    return job


@dataclass(frozen=True)
class Counted:
    """One line of /proc/diskstats, or the difference of two."""

    reads: int
    read_sectors: int
    writes: int
    written_sectors: int
    discards: int
    discarded_sectors: int
    flushes: int

    @property
    def requests(self) -> int:
        return self.reads + self.writes + self.discards + self.flushes

    def __sub__(self, other: Counted) -> Counted:
        return Counted(*(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def diskstats(name: str) -> Counted:
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == name:
            return Counted(*(int(fields[i]) for i in (3, 5, 7, 9, 14, 16, 18)))
    raise LookupError(name)


def counted_while_tracing(device: dict[str, Any]) -> Counted:
    return Counted(**device["diskstats_after"]) - Counted(**device["diskstats_before"])


def counted_in_records(records: list[Record]) -> Counted:
    """The same counters, from our rows."""
    requests = [sum(r.mode == mode for r in records) for mode in range(4)]
    sectors = [sum(r.size_bytes for r in records if r.mode == mode) // 512 for mode in range(4)]
    return Counted(requests[0], sectors[0], requests[1], sectors[1], requests[2], sectors[2], flushes=requests[3])
