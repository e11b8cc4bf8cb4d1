"""Places that a trace cannot be written to, or not whole: what it says of them, and what stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.test_lifecycle import BESIDE, assert_one_clear_line, run
from tracer.tests.tracing import fio, read_records, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

# More than any file system has: the trace ends with a message.
FULL = ("--min-free-bytes", str(1 << 62))


def test_messages_do_not_get_into_the_trace(binary: Path, disk: str, tmp_path: Path) -> None:
    """Where standard error is closed the output would get its number."""
    output = tmp_path / "io.bin"
    command = ["sh", "-c", 'exec "$0" "$@" 2>&-', str(binary), "--output", str(output), "--device", disk]
    assert subprocess.run([*command, *FULL], check=False, timeout=30).returncode == 4
    read_records(output)
    assert output.read_bytes().startswith(b"STRATAIO")


def test_messages_come_also_where_ready_was_told(binary: Path, disk: str, tmp_path: Path) -> None:
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--device", disk, "--ready-fd", "2", *FULL]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 4
    ready, _, rest = ended.stderr.partition("\n")
    assert ready == "ready"
    assert_one_clear_line(rest)


@pytest.mark.parametrize("option", ["output", *BESIDE])
def test_a_disk_is_no_place(binary: Path, disk: str, tmp_path: Path, option: str) -> None:
    device = f"/dev/{disk}"
    before = Path(device).read_bytes()
    places = ("--output", str(tmp_path / "io.bin"), f"--{option}", device)
    result = run(binary, *places, "--device", disk, "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert f"--{option} {device}" in result.stderr
    assert Path(device).read_bytes() == before
    assert not (tmp_path / "io.bin").exists()


def test_records_do_not_go_into_a_pipe(binary: Path, disk: str, tmp_path: Path) -> None:
    """Opening it would wait for a reader."""
    os.mkfifo(tmp_path / "pipe")
    result = run(binary, "--output", str(tmp_path / "pipe"), "--device", disk)
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert "regular file" in result.stderr


def test_a_signal_ends_waiting_for_who_reads_a_pipe(binary: Path, disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--device", disk, "--context", str(pipe)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        try:
            time.sleep(1)
            assert waiting.poll() is None
            waiting.send_signal(signal.SIGTERM)
            assert waiting.wait(10) == 4
        finally:
            waiting.kill()
        assert waiting.stderr
        assert_one_clear_line(waiting.stderr.read())
    assert list(tmp_path.glob("io.bin*")) == []


def test_a_pipe_that_somebody_reads_later(disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        ["sh", "-c", 'sleep 1; exec cat "$0"', str(pipe)], stdout=subprocess.PIPE, text=True
    ) as reader:
        arguments = ("--device", disk, "--context", str(pipe), "--duration", "1.5")
        with tracing(tmp_path / "io.bin", *arguments) as trace:
            assert trace.process.wait(10) == 0
        assert reader.stdout
        assert len(reader.stdout.read().splitlines()) == 3, "columns, a second, the rest"


@pytest.mark.parametrize("option", BESIDE)
@pytest.mark.parametrize("behind", [".json.new", ".new"])
def test_no_option_has_a_name_that_the_tracer_uses(binary: Path, tmp_path: Path, option: str, behind: str) -> None:
    """A status comes as FILE.json.new, a file that follows another one as FILE.new."""
    output = tmp_path / "io.bin"
    command = ("--output", str(output), "--duration", "0.1", f"--{option}", f"{output}{behind}")
    result = run(binary, *command)
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert f"--{option} {output}{behind}" in result.stderr
    assert list(tmp_path.iterdir()) == []


ROTATED = ("--rotate-bytes", str(1 << 20))


def test_rotation_does_not_take_the_file_of_another_tracer(disk: str, tmp_path: Path) -> None:
    output = tmp_path / "io.bin"
    with tracing(Path(f"{output}.new"), "--device", disk) as other:
        content = other.output.read_bytes()
        with tracing(output, "--device", disk, *ROTATED) as trace:
            fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=20000")
            assert trace.process.wait(10) == 4
        assert other.output.read_bytes().startswith(content)
        assert other.stop() == 0
    assert len(other.records()) == other.device(disk)["emitted"] >= 20000 - _not_seen(other.device(disk))


def _not_seen(device: dict[str, Any]) -> int:
    return int(device["excluded"]["completion_not_seen"])


@pytest.mark.parametrize("option", ["output", "context"])
def test_a_link_is_not_rotated(binary: Path, tmp_path: Path, option: str) -> None:
    """It would itself become FILE.1, and what is written then not be where it leads to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    result = run(binary, "--output", str(tmp_path / "io.bin"), f"--{option}", str(link), *ROTATED, "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert elsewhere.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == [elsewhere, link]


@pytest.mark.parametrize("name", ["n" * 255, "n" * 247, "folder"])
def test_what_was_there_stays_when_no_status_can_be_beside_it(binary: Path, tmp_path: Path, name: str) -> None:
    """A name that gets too long, or is a folder's."""
    output = tmp_path / name
    output.write_text("precious")
    (tmp_path / "folder.json").mkdir()
    result = run(binary, "--output", str(output), "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert "status" in result.stderr
    assert output.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == sorted([output, tmp_path / "folder.json"])


@pytest.mark.parametrize("length", [4087, 4091, 4095])
def test_a_path_that_is_too_long_for_the_status(binary: Path, tmp_path: Path, length: int) -> None:
    """Cut off, that of the status would be the output's own."""
    folder = tmp_path
    while length - len(str(folder)) - 1 > 255:
        folder /= "d" * 200
    folder.mkdir(parents=True)
    output = folder / ("n" * (length - len(str(folder)) - 1))
    output.write_text("precious")
    result = run(binary, "--output", str(output), "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert output.read_text() == "precious"


@pytest.mark.parametrize("option", ["context", "peers"])
def test_the_file_that_cannot_be_written_is_named(binary: Path, disk: str, tmp_path: Path, option: str) -> None:
    place = ("--output", str(tmp_path / "io.bin"), "--device", disk)
    result = run(binary, *place, f"--{option}", "/dev/full", "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert "writing /dev/full: No space" in result.stderr


@pytest.mark.parametrize("option", ["--check", "--help"])
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_written(binary: Path, option: str, where: str) -> None:
    result = run(Path("/bin/sh"), "-c", f'exec "$0" {option} {where}', str(binary))
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)


def test_a_file_of_the_cgroup_tree_is_no_cgroup(binary: Path, tmp_path: Path) -> None:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    trees = [where for _, where, kind, *_ in mounts if kind == "cgroup2"]
    if not trees:
        pytest.skip("no cgroups of version 2")
    result = run(binary, "--output", str(tmp_path / "io.bin"), "--cgroup", f"{trees[0]}/cgroup.procs")
    assert result.returncode == 2
    assert_one_clear_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["output", "context"])
@pytest.mark.parametrize("how", ["removed", "moved"])
def test_a_file_that_is_taken_away_is_told(disk: str, tmp_path: Path, how: str, option: str) -> None:
    """What is in it then may be gone, and who comes later would not find it."""
    place = tmp_path / option
    output = place if option == "output" else tmp_path / "io.bin"
    arguments = ("--device", disk) if option == "output" else ("--device", disk, "--context", str(place))
    with tracing(output, *arguments) as trace:
        if how == "removed":
            place.unlink()
        else:
            place.rename(tmp_path / "elsewhere")
        assert trace.stop() == 4
    status = trace.status()
    assert (status["state"], "moved or removed" in status["reason"]) == ("failed", True)


def test_rotation_leaves_alone_what_has_come_in_its_place(disk: str, tmp_path: Path) -> None:
    output = tmp_path / "io.bin"
    with tracing(output, "--device", disk, *ROTATED) as trace:
        output.rename(tmp_path / "elsewhere")
        output.write_text("precious")
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=20000")
        assert trace.process.wait(10) == 4
    assert output.read_text() == "precious"
    assert not list(tmp_path.glob("io.bin.[0-9n]*"))
