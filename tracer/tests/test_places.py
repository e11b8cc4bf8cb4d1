"""Places that a trace cannot be written to, or not whole: what it says of them, and what stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tracer.tests.test_lifecycle import BESIDE, assert_one_clear_line, run
from tracer.tests.tracing import read_records, tracing

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
    with subprocess.Popen(["sh", "-c", 'sleep 1; exec cat "$0"', str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        arguments = ("--device", disk, "--context", str(pipe), "--duration", "1.5")
        with tracing(tmp_path / "io.bin", *arguments) as trace:
            assert trace.process.wait(10) == 0
        assert reader.stdout
        assert len(reader.stdout.read().splitlines()) == 3, "columns, a second, the rest"
