"""Memory that is taken from a process and brought back, against the kernel's own count of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer import decode
from tracer.tests.cgroups import limited, start_in
from tracer.tests.tracing import tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

PAGE = 4096
LIMIT_BYTES, USED_BYTES = 32 << 20, 48 << 20
#: Uses more memory than its cgroup may, twice.
VICTIM = f"""
import mmap, os
memory = mmap.mmap(-1, {USED_BYTES}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(os.urandom({USED_BYTES}))
print(sum(memory[at] for at in range(0, {USED_BYTES}, {PAGE})))
"""


def in_use() -> bool:
    return len(Path("/proc/swaps").read_text().splitlines()) > 1


def swapped() -> tuple[int, int]:
    """Bytes in and out of all disks since the machine was started."""
    lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    counts = {name: int(count) for name, count in lines}
    return counts["pswpin"] * PAGE, counts["pswpout"] * PAGE


@pytest.fixture
def swap(disk: str) -> Iterator[str]:
    """The disk, and nothing else, takes memory of processes."""
    if not Path("/proc/swaps").exists() or in_use():
        pytest.skip("this kernel cannot swap, or does so already: swapoff -a")
    subprocess.run(["mkswap", "-q", f"/dev/{disk}"], check=True)
    subprocess.run(["swapon", f"/dev/{disk}"], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["swapoff", f"/dev/{disk}"], check=True)


def test_each_byte_is_of_the_component_swap(swap: str, tmp_path: Path) -> None:
    limit = str(LIMIT_BYTES)
    before = swapped()
    with tracing(tmp_path / "io.bin", "--device", swap) as trace:
        with limited(("memory", "memory"), v1={"memory.limit_in_bytes": limit}, v2={"memory.max": limit}) as group:
            victim = start_in(group, sys.executable, "-c", VICTIM)
            assert victim.communicate(timeout=60)[0].strip().isdecimal()
        wait_until_quiet(swap)
        read, written = (after - first for after, first in zip(swapped(), before, strict=True))
        assert trace.stop() == 0
    rows = decode.read_table(trace.output).to_pylist()
    assert min(read, written) >= USED_BYTES - LIMIT_BYTES
    assert bytes_of(rows, "W") == written
    assert bytes_of(rows, "R") == read
    assert {(row["component"], row["path"], row["inode"]) for row in rows} == {("swap", None, None)}
    assert sum(row["pid"] == victim.pid for row in rows) >= 0.99 * len(rows)


def wait_until_quiet(disk: str) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/sys/block/{disk}/inflight").read_text().split() != ["0", "0"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def bytes_of(rows: list[dict[str, Any]], mode: str) -> int:
    return sum(row["size_bytes"] for row in rows if row["mode"] == mode)
