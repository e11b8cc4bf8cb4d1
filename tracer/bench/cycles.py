"""Attaching and detaching many times leaves nothing behind.

    python -m tracer.bench.cycles [--count 1000]

Each cycle starts the tracer on a loop device, notes the ids of its BPF programs and maps once it is ready, does some
I/O, and ends it: in turn with SIGTERM, SIGINT and SIGKILL. Then the kernel must not know one of these ids any more, and
its memory must not have grown. Exit: 0 nothing left, 1 something left, 3 cannot be tried here.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracer.bench.counters import BpfObjects
from tracer.bench.load import LoadError, loop_device
from tracer.bench.tools import GONE_TIMEOUT_S, TRACER

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
READS = 50
DISK_BYTES = 64 << 20
WARM_UP = 3
END_TIMEOUT_S = 30
# What the kernel keeps by chance of caches and of other work here moves by tens of MiB, but to and fro: a leak
# is told by the median of the growth a cycle between any two of them, of which few cycles cannot tell much.
SLACK_BYTES = 16 << 20
LEAK_BYTES_PER_CYCLE = 8 << 10


@dataclass(frozen=True)
class Result:
    """`growth_bytes` is that of the kernel's memory in one cycle (Theil and Sen's slope)."""

    cycles: int
    programs: int
    left: BpfObjects
    growth_bytes: float
    seconds: float

    def wrong(self) -> str:
        """What is left behind, in words; empty when nothing is."""
        if self.left:
            return f"programs {sorted(self.left.programs)} and maps {sorted(self.left.maps)} are still in the kernel"
        allowed = SLACK_BYTES / self.cycles + LEAK_BYTES_PER_CYCLE
        if self.growth_bytes > allowed:
            return f"kernel memory has grown by {self.growth_bytes:,.0f} bytes a cycle, more than {allowed:,.0f}"
        return ""


def kernel_memory_bytes() -> int:
    """Memory of the kernel that BPF programs and maps are made of, and that is not given back when it gets tight."""
    content = Path("/proc/meminfo").read_text()
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", content, re.MULTILINE))
    return sum(int(found[name]) * 1024 for name in ("SUnreclaim", "Percpu", "VmallocUsed", "KernelStack"))


def _cycle(tracer: Path, output: Path, device: Path, how: signal.Signals) -> BpfObjects:
    """Returns what it had loaded."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as ready:
        command = [str(tracer), "--output", str(output), "--device", str(device), "--ready-fd", str(write_end)]
        process = subprocess.Popen(command, pass_fds=[write_end])
        os.close(write_end)
        try:
            if ready.readline() != b"ready\n":
                raise LoadError(f"the tracer ended with {process.wait()} before it was ready")
            objects = BpfObjects.of(process.pid)
            with device.open("rb", buffering=0) as disk:
                for block in range(READS):
                    os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    disk.seek(block << 20)
                    disk.read(4096)
            process.send_signal(how)
            code = process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LoadError(f"after {how.name} the tracer did not end within {END_TIMEOUT_S} s") from None
        finally:
            process.kill()
            process.wait()
    expected = -signal.SIGKILL if how == signal.SIGKILL else 0
    if code != expected:
        raise LoadError(f"after {how.name} the tracer ended with {code}")
    if not objects.programs:
        raise LoadError("the tracer holds no BPF program, so nothing can be told")
    return objects


def _await_gone(objects: BpfObjects) -> BpfObjects:
    """Detaching is deferred in the kernel."""
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while (left := objects.left()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def slope(values: list[int]) -> float:
    """The median of the slopes between any two values, which stand one apart."""
    first, second = np.triu_indices(len(values), 1)
    number = np.array(values)
    return float(np.median((number[second] - number[first]) / (second - first)))


def run(tracer: Path, count: int) -> Result:
    """Runs the cycles; may raise LoadError."""
    begin = time.monotonic()
    programs: frozenset[int] = frozenset()
    maps: frozenset[int] = frozenset()
    memory_bytes: list[int] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="strata-cycles-") as folder:
        file = Path(folder) / "disk"
        with file.open("wb") as disk:
            disk.truncate(DISK_BYTES)
        with loop_device(file) as device:
            for number, how in zip(range(WARM_UP + count), itertools.cycle(SIGNALS), strict=False):
                if number >= WARM_UP:
                    memory_bytes.append(kernel_memory_bytes())
                objects = _cycle(tracer, Path(folder) / "io.bin", device, how)
                programs, maps = programs | objects.programs, maps | objects.maps
            left = _await_gone(BpfObjects(programs, maps))
            memory_bytes.append(kernel_memory_bytes())
    return Result(count, len(programs), left, slope(memory_bytes), time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tracer.bench.cycles", description="Attaches and detaches.")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    try:
        result = run(TRACER, options.count)
    except (LoadError, OSError) as error:
        print(f"cycles: {error}", file=sys.stderr)
        return 3
    wrong = result.wrong()
    grown = f"kernel memory {result.growth_bytes / 1024:+,.1f} KiB a cycle"
    print(f"{result.cycles} cycles in {result.seconds:.0f} s, {result.programs} programs loaded, {grown}: "
          f"{wrong or 'nothing left behind'}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
