"""Disks that come and go while the tracer starts and traces; each sum held against the kernel's own count."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.test_many_disks import remove
from tracer.tests.test_names import read_direct
from tracer.tests.tracing import TRACER, altered, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

LOOP_CTL_ADD = 0x4C80  # uapi/linux/loop.h
NUMBER = 1 << 19  # of minors that nobody has
WAIT_S = 60.0


@contextmanager
def new_disk(image: Path, number: int = NUMBER) -> Iterator[Path]:
    if not Path("/dev/loop-control").exists():
        pytest.skip("no loop device: no /dev/loop-control")
    image.touch()
    os.truncate(image, 1 << 20)
    control = os.open("/dev/loop-control", os.O_RDWR)
    device = Path(f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_ADD, number)}")
    try:
        subprocess.run(["losetup", str(device), str(image)], check=True)
        yield device
        subprocess.run(["losetup", "-d", str(device)], check=True)
    finally:
        remove(control, device)
        os.close(control)


def counted(device: Path) -> int:
    """Requests by the kernel (Documentation/block/stat.rst)."""
    fields = Path(f"/sys/block/{device.name}/stat").read_text().split()
    return sum(int(fields[i]) for i in (0, 4, 11, 15))


def entry(status: dict[str, Any], device: Path) -> dict[str, Any]:
    (found,) = [one for one in status["devices"] if one["device"] == device.name]
    return dict(found)


def growth(device: dict[str, Any]) -> int:
    before, after = (device[f"diskstats_{when}"] for when in ("before", "after"))
    return sum(after[name] - before[name] for name in ("reads", "writes", "discards", "flushes"))


def test_a_disk_that_comes_while_the_programs_are_loaded(can_trace: None, tmp_path: Path) -> None:
    output, (read_end, write_end) = tmp_path / "io.bin", os.pipe()
    command = [str(TRACER), "--output", str(output), "--ready-fd", str(write_end), "--no-vfs"]
    tracer = subprocess.Popen(command, pass_fds=[write_end])
    os.close(write_end)
    deadline = time.monotonic() + WAIT_S
    while not output.exists():  # it has its list of disks then, and no program
        assert time.monotonic() < deadline
    with new_disk(tmp_path / "disk.img") as device:
        for _ in range(20):
            read_direct(device)
        assert counted(device) >= 20
        with os.fdopen(read_end) as ready:
            assert ready.readline() == "ready\n"
        for _ in range(50):
            read_direct(device)
        tracer.terminate()
        assert tracer.wait(timeout=WAIT_S) == 0
        seen = entry(json.loads(Path(f"{output}.json").read_text()), device)
        assert seen["diskstats_settled"] and seen["diskstats_before"]["reads"] >= 20
        assert growth(seen) == seen["completions"] + sum(seen["excluded"].values()) >= 50


def test_a_disk_that_comes_while_tracing(can_trace: None, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--no-vfs") as trace, new_disk(tmp_path / "disk.img") as device:
        for _ in range(50):
            read_direct(device)
        assert trace.stop() == 0
        seen = entry(trace.status(), device)
        assert seen["diskstats_settled"] and growth(seen) == counted(device)
        assert growth(seen) == seen["completions"] + sum(seen["excluded"].values()) >= 50


@pytest.mark.parametrize("named", [False, True])
def test_another_disk_under_the_same_number(can_trace: None, named: bool, tmp_path: Path) -> None:
    """Its count began anew, so it is told as one that has gone: there is nothing to hold against."""
    with ExitStack() as stack:
        with new_disk(tmp_path / "disk.img") as device:
            for _ in range(200):
                read_direct(device)
            filters = ["--device", device.name] if named else []
            trace = stack.enter_context(tracing(tmp_path / "io.bin", "--no-vfs", *filters))
            for _ in range(60):
                read_direct(device)
        with new_disk(tmp_path / "disk.img") as again:
            assert again == device
            for _ in range(30):
                read_direct(device)
            assert trace.stop() == 0
    seen = entry(trace.status(), device)
    assert seen["completions"] + seen["excluded"]["completion_not_seen"] >= 90
    assert seen["diskstats_after"] is None and seen["diskstats_settled"] is False


def test_no_room_for_those_that_come(can_trace: None, tmp_path: Path) -> None:
    present = len([disk for disk in Path("/sys/block").iterdir() if (disk / "mq").exists()])
    bits = (present + 2).bit_length()
    binary = altered(tmp_path, {"bpf/iotrace.h": {"IOTRACE_DEVICE_BITS 9": f"IOTRACE_DEVICE_BITS {bits}"}})
    with tracing(tmp_path / "io.bin", "--no-vfs", binary=binary) as trace:
        for i in range((1 << bits) + 1):
            with new_disk(tmp_path / f"{i}.img", NUMBER + i) as device:
                read_direct(device)
        assert trace.stop() == 0
    (limit,) = [limit for limit in trace.status()["limits"] if "disks" in limit]
    assert f"{1 << bits} disks" in limit and "--device" in limit
