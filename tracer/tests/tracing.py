"""What the tests share: running the tracer and fio, and the kernel's own counters."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRACER = Path(__file__).resolve().parents[1] / "build" / "strata-iotrace"

# Which of the tracer's backends is tested.
BACKEND = os.environ.get("STRATA_TEST_BACKEND", "core")

# The format written down here once more, so that the tests do not believe the decoder.
SLOT = struct.Struct("<2Q5I3I5BBH4B2H")
RETURN_SLOT = struct.Struct("<4Q4IB4xB10x")
RETURN_MODE = 16
EMPTY = 2**64 - 1
EMPTY_40_BITS = 2**40 - 1
READY_TIMEOUT_S = 30
FTRACE_KB = "16384"  # of each CPU: room for 200,000 events


class HiddenEventsError(Exception):
    """A test failed while the kernel showed some events to no program (docs/tracer-limits.md)."""


@dataclass
class Record:
    """One request, its definitions looked up; EMPTY, 0, b"" and None where they are not known."""

    start_ns: int
    vfs_ns: int
    block_ns: int
    driver_ns: int
    device_ns: int
    scheduler_ns: int
    sector: int
    cgroup_id: int
    inode: int
    path: str | None
    size_bytes: int
    device: int
    pid: int
    tid: int
    comm: bytes
    mode: int
    origin: int
    flags: int
    status: int
    tracing: int
    bios: int
    requeues: int

    @property
    def durations(self) -> list[int]:
        return [self.vfs_ns, self.block_ns, self.driver_ns, self.device_ns, self.scheduler_ns]


@dataclass(frozen=True)
class Return:
    """One system call that had requests; `waited_ns` is EMPTY when it did not wait for all of them."""

    start_ns: int
    duration_ns: int
    waited_ns: int
    bytes: int
    bios: int
    requests: int
    tid: int
    kind: int


def text_slots(definition: dict[str, Any]) -> bytes:
    text = json.dumps(definition).encode()
    return text.ljust((len(text) // 64 + 1) * 64 - 1) + b"\n"


def pack(records: list[Record], names: dict[int, str]) -> bytes:
    """Slots for these records, definitions before their first use."""
    numbers: dict[object, int] = {}
    content = bytearray()

    def number(key: tuple[object, ...], definition: dict[str, Any], kind: str, first: int) -> int:
        if (kind, key) not in numbers:
            numbers[kind, key] = first + sum(k[0] == kind for k in numbers if isinstance(k, tuple))
            content.extend(text_slots({kind: numbers[kind, key], **definition}))
        return numbers[kind, key]

    for r in records:
        device = number((r.device,), {"name": names.get(r.device, str(r.device))}, "device", 0)
        task = file = 0
        if r.flags & 2:
            task = number(
                (r.pid, r.tid, r.comm, r.cgroup_id),
                {"pid": r.pid, "tid": r.tid, "comm": r.comm.decode("latin-1"), "cgroup_id": r.cgroup_id},
                "task",
                1,
            )
        if r.inode:
            path = None if r.path is None else r.path.encode("utf-8", "surrogateescape").decode("latin-1")
            file = number((r.inode, r.path), {"inode": r.inode, "path": path}, "file", 1)
        durations = [min(value, EMPTY_40_BITS) for value in r.durations]
        content.extend(
            SLOT.pack(
                r.start_ns,
                r.sector,
                *(value & 0xFFFFFFFF for value in durations),
                r.size_bytes,
                task,
                file,
                *(value >> 32 for value in durations),
                r.mode,
                device,
                r.origin,
                r.flags,
                r.status,
                r.tracing,
                r.bios,
                r.requeues,
            )
        )
    return bytes(content)


class Slots:
    """A trace file, read slot by slot."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        (header_bytes,) = struct.unpack_from("<I", content, 12)
        self.definitions: dict[str, dict[int, dict[str, Any]]] = {"device": {}, "task": {}, "file": {}}
        self.records: list[Record] = []
        self.returns: list[Return] = []
        text = b""
        for at in range(header_bytes, len(content) - 63, 64):
            slot = content[at : at + 64]
            if 0x20 <= slot[53] <= 0x7E:
                text += slot
                if slot.endswith(b"\n"):
                    self._define(json.loads(text))
                    text = b""
            elif slot[53] == RETURN_MODE:
                self.returns.append(self._return(slot))
            else:
                self.records.append(self._record(slot))

    def _define(self, definition: dict[str, Any]) -> None:
        (kind,) = set(definition) & set(self.definitions)
        self.definitions[kind][definition[kind]] = definition

    def _return(self, slot: bytes) -> Return:
        start, duration, waited, size, bios, requests, task, _, kind, _ = RETURN_SLOT.unpack(slot)
        tid = self.definitions["task"][task]["tid"]
        return Return(start, duration, waited, size, bios, requests, tid, kind)

    def _record(self, slot: bytes) -> Record:
        start, sector, *rest = SLOT.unpack(slot)
        low, (size, task, file), high = rest[:5], rest[5:8], rest[8:13]
        mode, device, origin, flags, status, tracing, bios, requeues = rest[13:]
        durations = [lo | hi << 32 for lo, hi in zip(low, high, strict=True)]
        disk = self.definitions["device"][device]
        nobody: dict[str, Any] = {"pid": 0, "tid": 0, "comm": "", "cgroup_id": 0}
        owner = self.definitions["task"][task] if task else nobody
        assert bool(task) == bool(flags & 2)
        nothing: dict[str, Any] = {"inode": 0, "path": None}
        named = self.definitions["file"][file] if file else nothing
        path = named["path"]
        vfs, block, driver, in_device, scheduler = (EMPTY if d == EMPTY_40_BITS else d for d in durations)
        return Record(
            start_ns=start,
            vfs_ns=vfs,
            block_ns=block,
            driver_ns=driver,
            device_ns=in_device,
            scheduler_ns=scheduler,
            sector=sector,
            cgroup_id=owner["cgroup_id"],
            inode=named["inode"],
            path=None if path is None else path.encode("latin-1").decode(),
            size_bytes=size,
            device=disk["major"] << 20 | disk["minor"],
            pid=owner["pid"],
            tid=owner["tid"],
            comm=owner["comm"].encode("latin-1"),
            mode=mode,
            origin=origin,
            flags=flags,
            status=status,
            tracing=tracing,
            bios=bios,
            requeues=requeues,
        )


def read_records(path: Path) -> list[Record]:
    return Slots(path).records


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

    def device_now(self, name: str) -> dict[str, Any]:
        """By a status that was begun after this call, in time: it is renewed each second."""
        file, deadline = Path(f"{self.output}.json"), time.monotonic() + 30
        for _ in range(2):
            seen = file.stat().st_mtime_ns
            while file.stat().st_mtime_ns == seen:
                assert time.monotonic() < deadline, "the status is not renewed"
                time.sleep(0.05)
        return self.device(name)

    def records(self) -> list[Record]:
        return read_records(self.output)

    def returns(self) -> list[Return]:
        return Slots(self.output).returns


@contextmanager
def tracing(output: Path, *arguments: str, binary: Path = TRACER) -> Iterator[Trace]:
    """The tracer, from "ready" on; stopped in any case."""
    read_end, write_end = os.pipe()
    command = [str(binary), "--backend", BACKEND, "--output", str(output), "--ready-fd", str(write_end), *arguments]
    process = subprocess.Popen(command, pass_fds=[write_end])
    os.close(write_end)
    trace = Trace(output, process)
    try:
        with os.fdopen(read_end, "rb") as ready:
            assert ready.readline() == b"ready\n", f"exit code {process.wait(READY_TIMEOUT_S)}"
        yield trace
    finally:
        trace.stop(signal.SIGTERM)


def altered(folder: Path, changes: Mapping[str, Mapping[str, str]]) -> Path:
    """Another build of the tracer, with these changes to files of it."""
    if shutil.which("clang") is None:
        raise unittest.SkipTest("no compiler here")
    copy = folder / "tracer"
    shutil.copytree(TRACER.parents[1], copy, ignore=shutil.ignore_patterns("build", "tests", "guests", "bench"))
    for name, changes_there in changes.items():
        text = (copy / name).read_text()
        for before, after in changes_there.items():
            assert text.count(before) == 1
            text = text.replace(before, after)
        (copy / name).write_text(text)
    subprocess.run(["make", "-s", "-C", str(copy)], check=True)
    return copy / "build" / TRACER.name


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
        fields = [*line.split(), "0", "0"]  # before 5.5 the kernel counts no flushes
        if fields[2] == name:
            return Counted(*(int(fields[i]) for i in (3, 5, 7, 9, 14, 16, 18)))
    raise LookupError(name)


def wait_for_requests(load: subprocess.Popen[bytes], name: str, count: int) -> None:
    begin = diskstats(name).requests
    while diskstats(name).requests < begin + count:
        assert load.poll() is None
        time.sleep(0.01)


def counted_while_tracing(device: dict[str, Any]) -> Counted:
    return Counted(**device["diskstats_after"]) - Counted(**device["diskstats_before"])


def counted_in_records(records: list[Record]) -> Counted:
    """The same counters, from our rows."""
    requests = [sum(r.mode == mode for r in records) for mode in range(4)]
    sectors = [sum(r.size_bytes for r in records if r.mode == mode) // 512 for mode in range(4)]
    return Counted(requests[0], sectors[0], requests[1], sectors[1], requests[2], sectors[2], flushes=requests[3])


@contextmanager
def ftrace(directory: Path, *events: str) -> Iterator[Path]:
    """The kernel's own log of these events while inside, without BPF."""
    tracefs = directory / "tracefs"
    tracefs.mkdir()
    subprocess.run(["mount", "-t", "tracefs", "tracefs", str(tracefs)], check=True)
    instance = tracefs / "instances" / "strata-tests"
    try:
        instance.mkdir()
        (instance / "buffer_size_kb").write_text(FTRACE_KB)
        (instance / "trace_clock").write_text("mono")  # the same on all CPUs
        for event in events:
            (instance / "events" / event / "enable").write_text("1")
        yield instance / "trace"
    finally:
        (instance / "events" / "enable").write_text("0")
        instance.rmdir()
        subprocess.run(["umount", str(tracefs)], check=True)


def open_files(pid: int) -> set[Path]:
    """Those that are closed meanwhile may be missing."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(descriptor.readlink())
    return found


def threads_of(pid: int) -> set[str]:
    return {path.name for path in Path(f"/proc/{pid}/task").iterdir()}


@contextmanager
def unless_hidden(event: str, directory: Path) -> Iterator[None]:
    """A failure inside is HiddenEventsError when ftrace's log has events that interrupted threads of process 1."""
    with ftrace(directory, event) as log:
        try:
            yield
        except AssertionError as error:
            first = threads_of(1)
            interrupted = re.findall(r"-(\d+) +\[\d+\]", log.read_text())
            if hidden := sum(thread in first for thread in interrupted):
                raise HiddenEventsError(f"{hidden} of {len(interrupted)}; {error}") from error
            raise
