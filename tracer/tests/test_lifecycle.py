"""Starting, stopping and failing of the tracer."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tracer.tests.tracing import fio, read_records, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def run(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(binary), *arguments], check=False, capture_output=True, text=True, timeout=30)


def assert_one_clear_line(text: str) -> None:
    assert text.startswith("strata-iotrace: ")
    assert text.count("\n") == 1
    assert text.count(": ") >= 3, "what: why: what to do"


def test_unknown_device_is_a_usage_error(binary: Path, tmp_path: Path) -> None:
    wrapped = f"{(1 << 32) + 7}:0"  # 7:0 is loop0
    for name in ("nosuchdisk", "/dev/nosuchdisk", "999:1", "/dev/null", "../loop0", "", wrapped):
        result = run(binary, "--output", str(tmp_path / "io.bin"), "--device", name)
        assert result.returncode == 2
        assert_one_clear_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--nonsense",),
        ("--output", "x", "extra"),
        ("--output", "x", "--pid", "zero"),
        ("--output", "x", "--duration", "-1"),
        ("--output", "x", "--duration", "nan"),
        ("--output", "x", "--duration", "1e-10"),
        ("--output", "x", "--duration", "1e10"),
        ("--output", "x", "--ready-fd", "999"),
        ("--output", "x", "--keep-files", "3"),
        ("--output", "x", "--span-sample", "10"),
        ("--output", ""),
        ("--output", "x", "--without", "tcp"),
        ("--output", "x", "--context", "y", "--without", "all"),
        ("--output", "x", "--spans", ""),
        ("--output", "x", "--span-sample", "0"),
        ("--output", "x", "--pid", "4194305"),
        ("--output", "x", "--comm", "sixteen-letters-"),
        ("--output", "x", "--mode", ""),
        ("--output", "x", "--mode", "RW"),
        ("--output", "x", "--min-latency", "0"),
        ("--output", "x", "--sample", "0"),
        ("--output", "x", "--tracing", "any"),
        ("--output", "x", "--backend", "ebpf"),
        ("--output", "x", "--rotate-bytes", "1048575"),
        ("--output", "x", "--keep-files", "0"),
        ("--output", "x", "--min-free-bytes", "-1"),
        ("--output", "x", "--min-free-bytes", "99999999999999999999"),
        ("--output", "x", "--ring-bytes", "100"),
        ("--output", "x", "--ring-bytes", "2G"),
        ("--output", "x", "--rotate-bytes", "1023K"),
        ("--output", "x", "--rotate-bytes", "1MB"),
        ("--output", "x", "--rotate-bytes", "9999999999G"),
        ("--output", "x", "--duration", "1d"),
        ("--output", "x", "--duration", "s"),
        ("--output", "x", "--duration", "0ms"),
        ("--output", "-"),
        ("--output", "x", "--context", "-"),
        ("--output", "x", "--peers", "-"),
        ("--output", "x", "--spans", "-"),
        ("--output", "x", *("--cgroup", "y") * 17),
    ],
)
def test_wrong_arguments(binary: Path, arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = subprocess.run(
        [str(binary), *arguments], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=30
    )
    assert result.returncode == 2
    assert result.stderr.startswith("strata-iotrace: ") and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("--duration", "3d", "90s"),
        ("--mode", "read", "R, W, D or F"),
        ("--rotate-bytes", "10", "1M"),
        ("--output", "-", "./-"),
    ],
)
def test_a_value_that_is_not_taken_is_told_what_would_be(binary: Path, option: str, value: str, wanted: str) -> None:
    result = run(binary, "--output", "/nowhere/io.bin", option, value)
    assert result.returncode == 2
    assert_one_clear_line(result.stderr)
    assert f"{option} {value}: " in result.stderr and wanted in result.stderr


@pytest.mark.parametrize("duration", ["0.3", "0.3s", "300ms", "0.005m", "0.0000833333333h"])
def test_units_of_time_and_bytes(binary: Path, disk: str, tmp_path: Path, duration: str) -> None:
    output = tmp_path / "io.bin"
    options = ("--rotate-bytes", "1M", "--min-free-bytes", "1k", "--ring-bytes", "16K", "--duration", duration)
    result = run(binary, "--output", str(output), "--device", disk, *options)
    assert result.returncode == 0, result.stderr
    status = json.loads(output.with_name("io.bin.json").read_text())
    assert 0.3e9 <= status["stopped_mono_ns"] - status["started_mono_ns"] < 3e9


def test_its_version_is_that_of_the_status(binary: Path, disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        assert trace.stop() == 0
    result = run(binary, "--version")
    assert (result.returncode, result.stdout) == (0, f"strata-iotrace {trace.status()['tracer_version']}\n")


@pytest.mark.parametrize("other", [("--vfs",), ("--spans", "spans.csv")], ids=lambda option: option[0])
def test_what_contradicts_that_system_calls_are_left_alone(
    binary: Path, other: tuple[str, ...], tmp_path: Path
) -> None:
    command = [str(binary), "--output", "io.bin", *other, "--no-vfs"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert result.returncode == 2
    assert_one_clear_line(result.stderr)
    assert f"{other[0]} --no-vfs" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_check_without_rights_answers_in_json(binary: Path) -> None:
    result = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(binary), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    if "Permission denied" in result.stderr or "failed to execute" in result.stderr:
        pytest.skip("the build directory is closed to other users")
    assert result.returncode == 3
    answer = json.loads(result.stdout)
    assert answer["can_trace"] is False
    assert "root" in answer["reason"]
    assert set(answer["layers_missing"]) == {"vfs", "block", "driver", "device"}


def test_check_names_the_layers(binary: Path, can_trace: None) -> None:
    result = run(binary, "--check")
    assert result.returncode == 0
    answer = json.loads(result.stdout)
    visible = set(answer["tracing_modes"].values()) - {"block"}
    assert answer["layers"] == ["vfs", "block", "device"] + (["driver"] if visible else [])
    assert list(answer["layers_missing"]) == ([] if visible else ["driver"])


def test_stops_by_itself_after_its_duration(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--duration", "0.5") as trace:
        assert trace.process.wait(10) == 0
    status = trace.status()
    assert status["state"] == "stopped"
    assert 0.5e9 <= status["stopped_mono_ns"] - status["started_mono_ns"] < 1.5e9


def test_status_is_renewed_while_running(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        assert trace.status()["state"] == "running"
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        time.sleep(1.3)
        assert trace.device(disk)["emitted"] >= 100
        assert len(trace.records()) >= 100
        assert trace.device(disk)["diskstats_after"] is None
        assert trace.stop(signal.SIGINT) == 0
    assert not list(tmp_path.glob("*.new"))


def test_the_end_of_its_terminal_ends_it(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        assert trace.stop(signal.SIGHUP) == 0
    assert trace.status()["state"] == "stopped"


def test_but_not_under_nohup(disk: str, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with tracing(tmp_path / "io.bin", "--device", disk, "--duration", "2") as trace:
            trace.process.send_signal(signal.SIGHUP)
            assert trace.process.wait(30) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    status = trace.status()
    assert status["stopped_mono_ns"] - status["started_mono_ns"] >= 2e9


def program_ids() -> set[int]:
    listing = subprocess.run(["bpftool", "prog", "show", "-j"], capture_output=True, text=True, check=True)
    return {program["id"] for program in json.loads(listing.stdout)}


def test_a_killed_tracer_leaves_no_program_behind(disk: str, tmp_path: Path) -> None:
    before = program_ids()
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        loaded = program_ids() - before
        assert len(loaded) >= 8
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        time.sleep(1.3)
        assert trace.stop(signal.SIGKILL) == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while loaded & program_ids() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not loaded & program_ids()
    assert len(read_records(tmp_path / "io.bin")) >= 100, "what was flushed stays"


LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # linux/loop.h


@contextmanager
def loop_device(number: int, image: Path) -> Iterator[str]:
    """A loop device that is not there before and after."""
    with Path("/dev/loop-control").open("rb") as control:
        fcntl.ioctl(control, LOOP_CTL_ADD, number)
        try:
            subprocess.run(["losetup", f"/dev/loop{number}", str(image)], check=True)
            yield f"loop{number}"
            subprocess.run(["losetup", "--detach", f"/dev/loop{number}"], check=True)
        finally:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


@pytest.mark.parametrize("named", [True, False], ids=["named", "all disks"])
def test_what_the_kernel_counted_for_a_disk_that_has_gone_is_not_known(
    can_trace: None, named: bool, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    with ExitStack() as disk, ExitStack() as tracer:
        name = disk.enter_context(loop_device(100 + os.getpid() % 100, image))
        trace = tracer.enter_context(tracing(tmp_path / "io.bin", *(["--device", name] if named else [])))
        fio(f"--filename=/dev/{name}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        disk.close()
        assert trace.stop() == 0
    device = trace.device(name)
    number = device["major"] << 20 | device["minor"]
    rows = [r for r in trace.records() if r.device == number and r.comm == b"fio"]
    assert 100 - device["excluded"]["completion_not_seen"] <= len(rows) <= 100
    assert device["diskstats_before"] is not None and device["diskstats_after"] is None
    assert not device["diskstats_settled"]


def test_a_disk_without_requests_is_refused(binary: Path, can_trace: None, tmp_path: Path) -> None:
    # With disks below (volumes, a drive of NVMe multipath) it would stand for those.
    without = [
        disk.name
        for disk in sorted(Path("/sys/block").iterdir())
        if not (disk / "mq").exists() and not any((disk / "slaves").iterdir()) and not disk.name.startswith("nvme")
    ]
    if not without:
        pytest.skip("all disks here take requests")
    result = run(binary, "--output", str(tmp_path / "io.bin"), "--device", without[0])
    assert result.returncode == 3
    assert_one_clear_line(result.stderr)


def test_a_directory_that_is_no_cgroup_is_refused(binary: Path, can_trace: None, tmp_path: Path) -> None:
    trees = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"]
    files = [f"{tree}/cgroup.procs" for tree in trees if Path(tree, "cgroup.procs").exists()]
    for path in (str(tmp_path), *files):
        result = run(binary, "--output", str(tmp_path / "io.bin"), "--cgroup", path)
        assert result.returncode == 2
        assert_one_clear_line(result.stderr)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("question", ["--check", "--help"])
def test_an_answer_that_cannot_be_written_is_a_failure(binary: Path, question: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([str(binary), question], check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)


def test_it_starts_where_ended_children_are_ignored(binary: Path, can_trace: None, tmp_path: Path) -> None:
    """By who starts it. The compiler of the bcc backend ends well here, without any programs."""
    headers = tmp_path / "include" / "generated"
    headers.mkdir(parents=True)
    (headers / "utsrelease.h").write_text(f'#define UTS_RELEASE "{os.uname().release}"\n')
    copy = shutil.copy2(binary, tmp_path)
    compiler = tmp_path / "strata-bcc-compile"
    compiler.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    compiler.chmod(0o755)
    command = [copy, "--backend", "bcc", "--kernel-headers", str(tmp_path), "--output", str(tmp_path / "io.bin")]
    ignoring = ["env", "--ignore-signal=CHLD", *command]
    result = subprocess.run(ignoring, check=False, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert "libbcc made no programs" in result.stderr


def test_resident_memory(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=2000")
        status = Path(f"/proc/{trace.process.pid}/status").read_text()
        assert trace.stop() == 0
    (peak_kb,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    assert peak_kb <= 25_000


def map_ids() -> set[int]:
    listing = subprocess.run(["bpftool", "map", "show", "-j"], capture_output=True, text=True, check=True)
    return {found["id"] for found in json.loads(listing.stdout)}


def of_open_files(pid: int, name: str) -> set[int]:
    """What the kernel says of the programs and maps that it holds; others on this machine may trace, too."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:  # the tracer opens and closes files of its own meanwhile
            continue
        lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        if name in lines and "link_type" not in lines:
            found.add(int(lines[name]))
    return found


def test_the_verifier_has_little_to_do(disk: str, tmp_path: Path) -> None:
    """It refuses a program after 1,000,000 instructions, and 100,000 took it 0.4 s (docs/tracer-cost-programs.md)."""
    everything = ["--vfs", "--spans", str(tmp_path / "spans"), "--context", str(tmp_path / "context")]
    with tracing(tmp_path / "io.bin", "--device", disk, *everything, "--peers", str(tmp_path / "peers")) as trace:
        verified = of_open_files(trace.process.pid, "verified_insns")
        assert trace.stop() == 0
    if not verified:
        pytest.skip("this kernel does not tell how much its verifier looks at; needs Linux 5.16")
    assert len(verified) > 10 and max(verified) < 50_000


def test_many_traces_leave_neither_programs_nor_maps(disk: str, tmp_path: Path) -> None:
    programs: set[int] = set()
    maps: set[int] = set()
    for i in range(8):
        with tracing(tmp_path / f"{i}.bin", "--device", disk) as trace:
            programs |= of_open_files(trace.process.pid, "prog_id")
            maps |= of_open_files(trace.process.pid, "map_id")
            assert trace.stop() == 0
    assert len(programs) >= 8 * 8 and len(maps) >= 8 * 8
    deadline = time.monotonic() + 10
    while (programs & program_ids() or maps & map_ids()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not programs & program_ids()
    assert not maps & map_ids()
