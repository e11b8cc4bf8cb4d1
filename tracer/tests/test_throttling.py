"""Requests that a limit of their cgroup holds back: whose they are, and that the wait is time of the block layer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.cgroups import limited, start_in
from tracer.tests.test_attribution import IO_URING, OTHER, SYSCALL, WRITEBACK, lay_out
from tracer.tests.test_control import total_ns
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import BACKEND, EMPTY, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

THROTTLED = 64
PER_SECOND = 20
BLOCKS = 60
DIRECT = ["--direct=1", "--rw=randrw", "--bs=4k"]
JOBS = {
    "psync": ["--ioengine=psync", *DIRECT],
    "libaio": ["--ioengine=libaio", "--iodepth=8", *DIRECT],
    "io_uring": ["--ioengine=io_uring", "--iodepth=8", *DIRECT],
    "split": ["--ioengine=libaio", "--direct=1", "--rw=write", "--bs=4m", "--iodepth=2", "--io_size=64m"],
    "fsync": ["--ioengine=psync", "--rw=randwrite", "--bs=4k", "--fsync=1"],
}


def limited_to(per_second: int, disk: str) -> AbstractContextManager[Path]:
    """What a process writes itself to, to be limited on this disk."""
    number = Path(f"/sys/block/{disk}/dev").read_text().strip()
    v1 = {f"blkio.throttle.{way}_iops_device": f"{number} {per_second}" for way in ("read", "write")}
    v2 = {"io.max": f"{number} riops={per_second} wiops={per_second}"}
    return limited(("blkio", "io"), v1=v1, v2=v2)


@pytest.fixture
def group(disk: str) -> Iterator[Path]:
    with limited_to(PER_SECOND, disk) as procs:
        yield procs


def run_in(group: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The process of fio, and what it says about its job."""
    process = start_in(group, "fio", "--name=job", "--output-format=json", "--randseed=7", "--thread", *arguments)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    job: dict[str, Any] = json.loads(said[said.index("{") :])["jobs"][0]
    return process.pid, job


@pytest.mark.parametrize("workload", list(JOBS))
def test_whose_they_are_and_how_long_they_wait(
    mounted: Path, disk: str, group: Path, workload: str, tmp_path: Path
) -> None:
    path = mounted / "file"
    lay_out(path, 8)
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs") as trace:
        pid, job = run_in(group, f"--filename={path}", "--size=8m", f"--number_ios={BLOCKS}", *JOBS[workload])
        assert trace.stop() == 0
    assert_closed(trace, disk)
    own = [r for r in trace.records() if r.path == str(path)]
    held = [r for r in own if r.flags & THROTTLED]
    if BACKEND == "bcc":
        assert trace.device(disk)["throttled"] is None
        return
    assert trace.device(disk)["throttled"] == sum(bool(r.flags & THROTTLED) for r in trace.records()) >= len(held) > 0
    if "throttled" not in trace.status()["probes"]:
        whose = (pid, WRITEBACK) if workload == "fsync" else (0, OTHER)  # the file tells who made its pages dirty
        assert {(r.pid, r.origin, r.vfs_ns, r.block_ns) for r in held} == {(*whose, EMPTY, EMPTY)}
        return
    origin = IO_URING if workload == "io_uring" else SYSCALL
    assert {(r.pid, r.origin) for r in own} == {(pid, origin)}
    assert sum(r.block_ns for r in held) >= 0.9 * sum(map(total_ns, held))
    if workload == "psync":
        waited_ns = sum(job[way]["clat_ns"]["mean"] * job[way]["total_ios"] for way in ("read", "write"))
        assert sum(map(total_ns, own)) == pytest.approx(waited_ns, rel=0.03)


def test_hundreds_that_wait_at_a_time(disk: str, tmp_path: Path) -> None:
    """Some are not in the first place of their bucket, which is free by the time that they are queued."""
    arguments = ["--ioengine=libaio", "--iodepth=512", "--direct=1", "--rw=randread", "--bs=4k", "--size=16m"]
    with limited_to(1000, disk) as group, tracing(tmp_path / "io.bin", "--device", disk) as trace:
        pid, _ = run_in(group, f"--filename=/dev/{disk}", "--number_ios=3000", *arguments)
        assert trace.stop() == 0
    assert_closed(trace, disk)
    if "throttled" not in trace.status()["probes"]:
        pytest.skip("here no function may be attached to: what is held back has no task (use another kernel)")
    own = [r for r in trace.records() if r.pid == pid or r.flags & THROTTLED]
    assert {(r.pid, r.origin) for r in own} == {(pid, SYSCALL)}
    assert sum(r.size_bytes for r in own) == 3000 * 4096
    assert sum(r.size_bytes for r in own if r.flags & THROTTLED) > 2000 * 4096
