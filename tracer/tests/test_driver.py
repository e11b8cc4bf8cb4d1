"""The driver layer, on the disks of this machine (read only), and where it cannot be seen."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tracer import decode
from tracer.tests.test_trace import assert_closed, numbers
from tracer.tests.tracing import BACKEND, EMPTY, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

MODES = ["block", "irq", "nvme", "scsi", "fentry", "kprobe"]
BEST = "best"
# Of the requests, so many are split in their disk's mode; the kernel leaves out programs at kprobes that interrupt one
# another, which is likely where they are emulated.
SHARE = {"kprobe": 0.8}
REQUESTS = 200


def disks_with_driver_layer(binary: Path, *options: str) -> dict[str, str]:
    command = [str(binary), "--backend", BACKEND, "--check", *options]
    check = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {disk: mode for disk, mode in check["tracing_modes"].items() if mode != "block"}


def test_modes_fit_the_disks(binary: Path, can_trace: None) -> None:
    for disk, mode in disks_with_driver_layer(binary).items():
        allowed = {"nvme": {"nvme", "kprobe", "irq"}, "vd": {"fentry", "kprobe", "irq"}, "sd": {"scsi"}, "sr": {"scsi"}}
        (fitting,) = [modes for prefix, modes in allowed.items() if disk.startswith(prefix)]
        assert mode in fitting


def something_to_read(disk: str, tmp_path: Path) -> Path | None:
    """The disk itself, else a file on it, else nothing."""
    device = tmp_path.stat().st_dev
    here = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if here.exists() and disk in (here.resolve().name, here.resolve().parent.name):
        path = tmp_path / "file"  # by its name our requests are told from those of others
        path.write_bytes(os.urandom(16 << 20))
        os.sync()
        return path
    try:
        with Path(f"/dev/{disk}").open("rb"):
            return Path(f"/dev/{disk}")
    except OSError:
        return None


@pytest.mark.parametrize(("tracing_mode", "depth"), [(BEST, 1), *((mode, 16) for mode in MODES[1:])])
def test_driver_and_device_share_the_time_after_the_block_layer(
    binary: Path, can_trace: None, tracing_mode: str, depth: int, tmp_path: Path
) -> None:
    wanted = [] if tracing_mode == BEST else ["--tracing", tracing_mode]
    modes = disks_with_driver_layer(binary, *wanted)
    disks = {d: m for d, m in modes.items() if int(Path(f"/sys/block/{d}/size").read_text())}
    if not disks:
        pytest.skip("no disk here shows its driver in this way")
    for disk, mode in disks.items():
        path = something_to_read(disk, tmp_path)
        if path is None:
            continue
        with tracing(tmp_path / "io.bin", "--device", disk, "--comm", "fio", *wanted) as trace:
            job = fio(
                f"--filename={path}",
                "--readonly",
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--ioengine=libaio",
                f"--iodepth={depth}",
                f"--iodepth_batch={(depth + 1) // 2}",  # more than two at once go to the driver at once
                f"--number_ios={REQUESTS}",
            )
            assert trace.stop() == 0
        assert trace.device(disk)["tracing_mode"] == mode
        own = [r for r in trace.records() if r.size_bytes == 4096 and (path.is_block_device() or r.path == str(path))]
        unseen = trace.device(disk)["excluded"]["completion_not_seen"]
        assert len(own) + unseen >= 0.99 * REQUESTS and len(own) <= REQUESTS
        split = [r for r in own if MODES[r.tracing] == mode]
        assert len(split) >= SHARE.get(mode, 0.99) * len(own)
        # seen < complete and issue < device done, on every record.
        assert all(0 < r.driver_ns < EMPTY and 0 < r.device_ns < EMPTY and r.block_ns != EMPTY for r in split)
        assert all(r.driver_ns == EMPTY for r in own if r not in split)
        totals = sorted(r.block_ns + r.driver_ns + r.device_ns for r in split)
        assert sum(totals) / len(totals) <= job["read"]["lat_ns"]["mean"]
        rows = decode.read_table(trace.output).to_pylist()
        assert {row["tracing_mode"] for row in rows} <= {mode, "block"}
        for row in rows:
            layers = [row[name] for name in ("vfs_ns", "block_ns", "driver_ns", "device_ns")]
            assert row["total_ns"] == sum(value for value in layers if value is not None)


@pytest.fixture
def multipath(can_trace: None) -> tuple[str, list[str]]:
    """A disk of NVMe multipath, and those through which its requests go."""
    hidden = [path.name for path in Path("/sys/block").glob("nvme*c*n*")]
    if not hidden:
        pytest.skip("no drive with NVMe multipath here")
    head = re.sub(r"c\d+", "", hidden[0])
    return head, sorted(path for path in hidden if re.sub(r"c\d+", "", path) == head)


@pytest.mark.parametrize("named", [True, False], ids=["named", "all disks"])
def test_the_paths_of_nvme_multipath(multipath: tuple[str, list[str]], named: bool, tmp_path: Path) -> None:
    head, paths = multipath
    with tracing(tmp_path / "io.bin", *(["--device", head] if named else [])) as trace:
        for engine in ("psync", "libaio"):
            job = ("--rw=randread", f"--ioengine={engine}", "--iodepth=16", f"--number_ios={REQUESTS}")
            fio(f"--filename=/dev/{head}", "--readonly", "--bs=4k", "--direct=1", *job)
        assert trace.stop() == 0
    devices = {device["device"]: device for device in trace.status()["devices"] if device["device"] in paths}
    if named:
        assert sorted(trace.status()["filters"]["devices"]) == sorted(devices) == paths
    used = {numbers(path) for path in devices}
    own = [r for r in trace.records() if r.comm == b"fio" and f"{r.device >> 20}:{r.device & 0xFFFFF}" in used]
    unseen = sum(device["excluded"]["completion_not_seen"] for device in devices.values())
    assert 2 * REQUESTS - unseen <= len(own) <= 2 * REQUESTS
    assert all(r.size_bytes == 4096 and r.block_ns != EMPTY for r in own)
    assert {MODES[r.tracing] for r in own} == {device["tracing_mode"] for device in devices.values()} != {"block"}
    for path in devices:
        assert_closed(trace, path)


def test_a_mode_that_a_named_disk_does_not_have_is_refused(binary: Path, disk: str, tmp_path: Path) -> None:
    for mode, code, said in (("kprobe", 3, "does not have it"), ("fast", 2, "not a valid value")):
        command = [str(binary), "--backend", BACKEND, "--output", str(tmp_path / "io.bin"), "--device", disk]
        result = subprocess.run([*command, "--tracing", mode], check=False, capture_output=True, text=True, timeout=60)
        assert (result.returncode, said in result.stderr) == (code, True)
        assert not (tmp_path / "io.bin").exists()


def test_a_driver_is_left_alone_when_asked_to(binary: Path, can_trace: None, tmp_path: Path) -> None:
    assert disks_with_driver_layer(binary, "--tracing", "block") == {}


def test_a_loop_device_has_no_driver_layer(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=50")
        assert trace.stop() == 0
    device = trace.device(disk)
    assert (device["tracing_mode"], list(device["layers_missing"]), device["layers_partial"]) == (
        "block",
        ["driver"],
        {},
    )
    assert all(r.driver_ns == EMPTY and r.device_ns != EMPTY for r in trace.records())
