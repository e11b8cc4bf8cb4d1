"""The load under which a tracer's cost is measured: one fio that never pauses, on a shared disk or on TCP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tracer.bench.block_trace import traced_disks

BLOCK_BYTES = 4096
START_TIMEOUT_S = 60
LONGEST_S = 24 * 3600  # fio is ended before


class LoadError(Exception):
    """The load cannot be made here; the text says why."""


@dataclass(frozen=True)
class Workload:
    """One row of the table. `medium`: `memory` (loop device over tmpfs), `disk` (file in a directory) or `network`."""

    name: str
    title: str
    medium: str
    file_bytes: int
    fio: tuple[str, ...]
    writes: bool = False


READS = ("--rw=randread", "--direct=1")
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("loop32", "loop device on tmpfs, 4 KiB reads, depth 32", "memory", 512 << 20,
                 (*READS, "--ioengine=libaio", "--iodepth=32")),
        Workload("uring32", "loop device on tmpfs, 4 KiB reads of io_uring, depth 32", "memory", 512 << 20,
                 (*READS, "--ioengine=io_uring", "--iodepth=32")),
        Workload("disk32", "disk, 4 KiB reads, depth 32", "disk", 1 << 30,
                 (*READS, "--ioengine=libaio", "--iodepth=32")),
        Workload("disk1", "disk, 4 KiB reads, depth 1", "disk", 1 << 30, (*READS, "--ioengine=psync")),
        Workload("fsync", "disk, 4 KiB write + fsync", "disk", 64 << 20,
                 ("--rw=randwrite", "--ioengine=psync", "--fsync=1"), writes=True),
        Workload("tcp", "TCP over loopback, requests and responses of 64 bytes, one at a time", "network", 0,
                 ("--ioengine=net", "--protocol=tcp", "--pingpong=1", "--bs=64")),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Load:
    """A running load: the process whose I/O counts, and the disk that it is on (`loop0`)."""

    workload: Workload
    pid: int
    device: str

    def ios(self) -> int:
        """4 KiB blocks moved since its start, by the kernel's account of fio's job thread: others' I/O is not in it.

        Neither is what fio's first thread reads: its own program and libraries, tens of MB where they are not cached.
        On TCP: requests and responses, by the segments that the machine has received, two for each.
        """
        if self.workload.medium == "network":
            return _segments_received() // 2
        name = "write_bytes" if self.workload.writes else "read_bytes"
        moved_bytes = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            if task.name != str(self.pid):
                with suppress(FileNotFoundError, ProcessLookupError):  # a helper thread that ended meanwhile
                    moved_bytes += _counter(task / "io", name)
        return moved_bytes // BLOCK_BYTES


def _counter(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(": ")
        if key == name:
            return int(value)
    raise LoadError(f"the kernel does not count {name} of a thread")


def _segments_received() -> int:
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("InSegs")])


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, and SIGINT even below nohup, end what is within as an error does: LoadError, and nothing is left."""

    def end(_number: int, _frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # one is enough, and must not interrupt the cleaning up
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise LoadError("interrupted") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def running(workload: Workload, directory: Path) -> Iterator[Load]:
    """fio under way; all that it needed is gone afterwards. `directory` is where the file of a `disk` workload lies."""
    if traced := traced_disks():
        raise LoadError(f"blktrace is on for {', '.join(traced)} and slows all down: end it (blktrace -d DISK -k)")
    with ExitStack() as stack:
        if workload.medium == "network":
            process = stack.enter_context(_fio(_connection(workload)))
            load = Load(workload, process.pid, device_of(directory))
            _await_io(load, process)
            yield load
            return
        home = Path("/dev/shm") if workload.medium == "memory" else directory  # noqa: S108
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=home, prefix="strata-bench-")))
        file = scratch / "file"
        lay_out(file, workload.file_bytes)
        if workload.medium == "memory":
            target = stack.enter_context(loop_device(file))
            device = target.name
        else:
            target, device = file, device_of(file)
        process = stack.enter_context(_fio(_reads_or_writes(workload, target)))
        load = Load(workload, process.pid, device)
        _await_io(load, process)
        yield load


def lay_out(file: Path, size_bytes: int) -> None:
    """Written, so that no block is a hole that costs nothing to read."""
    chunk = os.urandom(1 << 20)
    with file.open("wb") as out:
        for _ in range(size_bytes >> 20):
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())


@contextmanager
def loop_device(file: Path) -> Iterator[Path]:
    """A disk made of the file, with no I/O scheduler: a loop device keeps the last one. May raise LoadError."""
    made = subprocess.run(["losetup", "--show", "-f", str(file)], check=False, capture_output=True, text=True)
    if made.returncode:
        raise LoadError(f"no loop device: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    try:
        Path(f"/sys/block/{device.name}/queue/scheduler").write_text("none")
        yield device
    finally:
        subprocess.run(["losetup", "-d", str(device)], check=True)


def device_of(file: Path) -> str:
    """The whole disk under a file, as the tracer names it."""
    number = file.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not entry.exists():
        raise LoadError(f"{file} is on no disk (tmpfs, overlay or network); name another with --directory")
    entry = entry.resolve()
    whole = entry.parent if (entry / "partition").exists() else entry
    if not (whole / "mq").exists():
        raise LoadError(f"{file} is on {whole.name}, which hands requests on to other disks; use --directory")
    return whole.name


def _reads_or_writes(workload: Workload, target: Path) -> list[str]:
    return ["--name=load", f"--filename={target}", f"--size={workload.file_bytes}", f"--bs={BLOCK_BYTES}",
            "--norandommap", "--randrepeat=0", "--overwrite=1", *workload.fio]  # fmt: skip


def _connection(workload: Workload) -> list[str]:
    """Two threads; fio offers nothing to ask whether the first one listens, so the second one begins a second later."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        both = [*workload.fio, "--size=1t", f"--port={server.getsockname()[1]}"]
    return ["--name=server", *both, "--listen", "--rw=read",
            "--name=client", *both, "--hostname=127.0.0.1", "--rw=write", "--startdelay=1"]  # fmt: skip


@contextmanager
def _fio(jobs: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = ["fio", "--output=/dev/null", "--thread", "--time_based", f"--runtime={LONGEST_S}", *jobs]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, process_group=0
        )
        try:
            yield process
            if process.poll() is not None:
                errors.seek(0)
                raise LoadError(f"fio ended with {process.returncode}: {errors.read().decode().strip()}")
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_io(load: Load, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    first = load.ios()
    while load.ios() < first + 1000:
        if process.poll() is not None:
            raise LoadError(f"fio ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise LoadError(f"fio moved nothing within {START_TIMEOUT_S} s")
        time.sleep(0.05)
