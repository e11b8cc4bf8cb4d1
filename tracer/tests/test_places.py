"""Places that a trace cannot be written to, or not whole: what it says of them, and what stays as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.tests.test_lifecycle import assert_one_clear_line
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
