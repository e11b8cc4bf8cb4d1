"""Places that a trace cannot be written to, or not whole: what it says of them, and what stays as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.test_claims import BESIDE
from tracer.tests.test_lifecycle import assert_one_clear_line, run
from tracer.tests.tracing import fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

# More than any file system has: the trace ends with a message.
FULL = ("--min-free-bytes", str(1 << 62))


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


ROTATED = ("--rotate-bytes", str(1 << 20))


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


@pytest.mark.parametrize("taken", [".json", ".json.new"])
def test_what_was_there_stays_when_no_status_can_be_beside_it(binary: Path, tmp_path: Path, taken: str) -> None:
    output = tmp_path / "io.bin"
    output.write_text("precious")
    folder = tmp_path / f"io.bin{taken}"
    folder.mkdir()
    result = run(binary, "--output", str(output), "--duration", "0.1")
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert f"its status {output}.json" in result.stderr
    assert output.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == [output, folder]


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
