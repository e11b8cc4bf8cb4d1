"""The files that a tracer writes: whose they are, what they may be called, and what was in them before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tracer.tests.test_lifecycle import assert_one_clear_line, run
from tracer.tests.tracing import altered, fio, tracing
from tracer.tracefile import TraceFile

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def test_one_output_has_one_tracer(binary: Path, disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        second = run(binary, "--output", str(tmp_path / "io.bin"), "--device", disk)
        assert second.returncode == 4
        assert_one_clear_line(second.stderr)
        assert trace.stop() == 0
    assert len(trace.records()) == trace.device(disk)["emitted"] >= 100


def test_a_file_that_another_tracer_rotates_meanwhile_is_not_taken(binary: Path, disk: str, tmp_path: Path) -> None:
    """Between opening and locking, where this build stops once."""
    stops = "static int stopped;\n\t\tif (!stopped++)\n\t\t\traise(SIGSTOP);\n\t\tcode = lock(claim);"
    stopping = altered(tmp_path / "stopping", {"src/claim.c": {"code = lock(claim);": stops}})
    path, older = tmp_path / "io.bin", tmp_path / "io.bin.1"
    path.write_text("precious")
    process = subprocess.Popen([str(stopping), "--output", str(path), "--device", disk, "--duration", "0.1"])
    try:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        path.rename(older)
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0
    finally:
        process.kill()
    assert older.read_text() == "precious"
    assert TraceFile(path).header.started_mono_ns > 0


def test_what_somebody_reads_is_not_emptied(binary: Path, disk: str, tmp_path: Path) -> None:
    """Who has it mapped would be killed (SIGBUS)."""
    path = tmp_path / "io.bin"
    command = ("--output", str(path), "--device", disk, "--duration", "0.1")
    with tracing(path, "--device", disk) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        assert trace.stop() == 0
    file = TraceFile(path)
    second = run(binary, *command)
    assert second.returncode == 4
    assert_one_clear_line(second.stderr)
    assert sum(len(slots) for slots, _ in file.requests()) == trace.device(disk)["emitted"] >= 100
    del file
    assert run(binary, *command).returncode == 0


def test_what_it_complains_of_is_not_written_into_its_records(binary: Path, disk: str, tmp_path: Path) -> None:
    """With standard error closed the next file that is opened would get its number."""
    path = tmp_path / "io.bin"
    gone, write_end = os.pipe()
    os.close(gone)
    command = [str(binary), "--output", str(path), "--device", disk, "--duration", "0.1", "--ready-fd", str(write_end)]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    try:
        assert subprocess.run(closed, check=False, pass_fds=[write_end], timeout=30).returncode == 0
    finally:
        os.close(write_end)
    assert TraceFile(path).header.started_mono_ns > 0


@pytest.mark.parametrize("longer", [0, 1], ids=["fits", "too long"])
@pytest.mark.parametrize("of", ["path", "name"])
def test_its_name_leaves_room_for_that_of_the_status(
    binary: Path, can_trace: None, of: str, longer: int, tmp_path: Path
) -> None:
    """The longest one is FILE.json.new. A path of 4095 bytes was that of the status, too, which took its place."""
    most = 255 if of == "name" else 4095 - len(f"{tmp_path}/")
    length = most - len(".json.new") + longer
    directories = 0 if of == "name" else (length - 100) // 2
    path = f"{tmp_path}/{'./' * directories}{'x' * (length - 2 * directories)}"
    Path(path).write_text("precious")
    result = run(binary, "--output", path, "--duration", "0.1")
    if longer:
        assert result.returncode == 4
        assert_one_clear_line(result.stderr)
        assert [file.read_text() for file in tmp_path.iterdir()] == ["precious"]
    else:
        assert result.returncode == 0, result.stderr
        assert TraceFile(Path(path)).header.started_mono_ns > 0
        assert json.loads(Path(f"{path}.json").read_text())["state"] == "stopped"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_the_new_status_is_not_written_through_a_link(binary: Path, disk: str, tmp_path: Path, kind: str) -> None:
    """Made by somebody else where everybody may write; or left there by a tracer that was killed."""
    precious, temporary = tmp_path / "precious", tmp_path / "io.bin.json.new"
    precious.write_text("precious")
    temporary.symlink_to(precious) if kind == "link" else temporary.write_text("{")
    result = run(binary, "--output", str(tmp_path / "io.bin"), "--device", disk, "--duration", "0.1")
    assert result.returncode == 0, result.stderr
    status = tmp_path / "io.bin.json"
    assert json.loads(status.read_text())["state"] == "stopped" and not status.is_symlink()
    assert precious.read_text() == "precious" and not temporary.exists()


BESIDE = ("context", "peers", "spans")


@pytest.mark.parametrize("option", BESIDE)
def test_files_beside_it_have_one_tracer_too(binary: Path, disk: str, tmp_path: Path, option: str) -> None:
    beside = tmp_path / "beside"
    with tracing(tmp_path / "io.bin", "--device", disk, f"--{option}", str(beside)) as trace:
        inode, header = beside.stat().st_ino, beside.read_bytes()
        for output in ("io.bin", "other.bin"):
            second = run(binary, "--output", str(tmp_path / output), "--device", disk, f"--{option}", str(beside))
            assert second.returncode == 4
            assert_one_clear_line(second.stderr)
        assert not (tmp_path / "other.bin").exists()
        assert trace.stop() == 0
    content = beside.read_bytes()
    assert beside.stat().st_ino == inode and content.startswith(header) and b"\0" not in content


def test_two_options_do_not_share_a_file(binary: Path, can_trace: None, tmp_path: Path) -> None:
    beside = str(tmp_path / "beside")
    result = run(binary, "--output", str(tmp_path / "io.bin"), "--context", beside, "--peers", beside)
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", BESIDE)
@pytest.mark.parametrize("ending", [".json", ".json.new", ".new"])
def test_no_option_shares_the_file_of_the_status(
    binary: Path, can_trace: None, tmp_path: Path, option: str, ending: str
) -> None:
    """It would take the place of what is written there, each second."""
    folder = tmp_path / "folder"
    folder.mkdir()
    status = f"{folder}/../io.bin{ending}"
    command = ("--output", str(tmp_path / "io.bin"), "--duration", "0.1", f"--{option}", status)
    result = run(binary, *command)
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)
    assert f"--{option} {status}" in result.stderr
    assert list(tmp_path.iterdir()) == [folder]


def test_what_was_there_stays_when_it_cannot_trace(binary: Path, tmp_path: Path) -> None:
    before = {tmp_path / name: name for name in ("io.bin", "io.bin.json", *BESIDE)}
    for path, content in before.items():
        path.write_text(content)
    options = [word for name in BESIDE for word in (f"--{name}", str(tmp_path / name))]
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", str(binary)]
    command = [*without_rights, "--backend", "core", "--output", str(tmp_path / "io.bin"), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 3
    assert_one_clear_line(result.stderr)
    assert {path: path.read_text() for path in tmp_path.iterdir() if path.stat().st_size} == before


def test_output_in_a_directory_that_is_not_there(binary: Path, can_trace: None, tmp_path: Path) -> None:
    result = run(binary, "--output", str(tmp_path / "missing" / "io.bin"))
    assert result.returncode == 4
    assert_one_clear_line(result.stderr)


def test_it_can_be_ended_while_nobody_reads_a_pipe(binary: Path, disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "context"
    os.mkfifo(pipe)
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--device", disk, "--context", str(pipe)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "io.bin").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.terminate()
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 4
    assert_one_clear_line(said)
    assert f"--context {pipe}: " in said and not (tmp_path / "io.bin").exists()


def test_a_pipe_may_be_read_later(binary: Path, disk: str, tmp_path: Path) -> None:
    pipe = tmp_path / "context"
    os.mkfifo(pipe)
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--device", disk, "--context", str(pipe)]
    process = subprocess.Popen([*command, "--duration", "1.5"])
    try:
        time.sleep(0.5)
        lines = pipe.read_text().splitlines()
        assert process.wait(30) == 0
    finally:
        process.kill()
    assert lines[0].startswith("t_unix_ns,") and len(lines) >= 2
