"""More disks than most servers have: 300, and more than there is room for."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tracer.tests.test_names import read_direct
from tracer.tests.tracing import BACKEND, altered, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

DISKS = 300
LOOP_CTL_REMOVE = 0x4C81  # uapi/linux/loop.h
CLOSED_WITHIN_S = 10.0  # where udev runs it may still look at the device


def remove(control: int, device: Path) -> None:
    deadline = time.monotonic() + CLOSED_WITHIN_S
    while True:
        try:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, int(device.name.removeprefix("loop")))
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@contextmanager
def loop_devices(image: Path, count: int) -> Iterator[list[Path]]:
    """On one image; those that were not there before are taken away again."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("no loop device: no /dev/loop-control")
    before = set(Path("/dev").glob("loop*"))
    with image.open("wb") as file, ExitStack() as stack:
        file.truncate(1 << 20)
        control = os.open("/dev/loop-control", os.O_RDWR)
        stack.callback(os.close, control)
        devices = []
        for _ in range(count):
            command = ["losetup", "--show", "-f", str(image)]
            device = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
            if device not in before:
                stack.callback(remove, control, device)
            stack.callback(subprocess.run, ["losetup", "-d", str(device)], check=True)
            devices.append(device)
        yield devices


def test_none_of_many_disks_is_left_out(can_trace: None, tmp_path: Path) -> None:
    with loop_devices(tmp_path / "disk.img", DISKS) as devices:
        with tracing(tmp_path / "io.bin", "--no-vfs") as trace:
            for device in devices:
                read_direct(device)
        traced = {device["device"]: device for device in trace.status()["devices"]}
    missing = [
        device.name
        for device in devices
        if not (seen := traced.get(device.name)) or not seen["completions"] + seen["excluded"]["completion_not_seen"]
    ]
    assert not missing


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    """Where those of this kernel seem to be; they are not read before the disks are."""
    file = tmp_path / "headers" / "include" / "generated" / "utsrelease.h"
    file.parent.mkdir(parents=True)
    file.write_text(f'#define UTS_RELEASE "{os.uname().release}"\n')
    return tmp_path / "headers"


def test_too_many_are_told(can_trace: None, headers: Path, tmp_path: Path) -> None:
    binary = altered(tmp_path, {"bpf/iotrace.h": {"IOTRACE_DEVICE_BITS 9": "IOTRACE_DEVICE_BITS 2"}})
    with loop_devices(tmp_path / "disk.img", 8):
        for backend in ([BACKEND], ["bcc", "--kernel-headers", str(headers)]):
            command = [str(binary), "--output", str(tmp_path / "io.bin"), "--backend", *backend]
            refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
            assert refused.returncode == 3
            assert "more disks than the 4" in refused.stderr and "--device" in refused.stderr
