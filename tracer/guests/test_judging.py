"""What the matrix must not take for right; without any guest."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tracer import decode
from tracer.guests import matrix
from tracer.guests.__main__ import _report
from tracer.guests.judge import _fio_counts, _layers
from tracer.guests.matrix import GuestResult


@pytest.mark.parametrize(
    ("ran", "left_out", "wanted", "right"),
    [(0, 0, 20, False), (19, 0, 20, False), (20, 0, 20, True), (6, 300, 20, True), (0, 0, 0, True)],
)
def test_a_guest_whose_tests_were_skipped_is_not_right(
    ran: int, left_out: int, wanted: int, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "judge", lambda *_: [])
    result = GuestResult("6.1", "6.1.0", tmp_path, tests_run=ran, tests_left_out=left_out)
    assert _report(result, tests_wanted=wanted) is right


def test_a_guest_whose_tests_were_skipped_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "judge", lambda *_: [])
    _report(GuestResult("6.1", "6.1.0", tmp_path), tests_wanted=20)
    assert "0 ran, 0 failed  WRONG fewer than 20" in capsys.readouterr().out


@pytest.mark.parametrize(("origin", "vfs_ns", "wrong"), [("io_uring", 1, 0), ("io_uring", None, 1), ("other", None, 1)])
def test_rows_of_io_uring_are_there_and_have_their_time(origin: str, vfs_ns: int | None, wrong: int) -> None:
    row = {"mode": "R", "size_bytes": 4096, "origin": origin, "comm": "fio", "vfs_ns": vfs_ns}
    layers = {"block_ns": 2, "driver_ns": 3, "device_ns": 4, "total_ns": 9 + (vfs_ns or 0)}
    rows = pa.Table.from_pylist([row | layers], schema=decode.SCHEMA)
    assert len(list(_layers("6.1", "io_uring", "nvme0n1", rows))) == wrong


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_workload_that_has_done_nothing_is_not_exact(jobs: int) -> None:
    nothing = {"total_ios": 0, "io_bytes": 0}
    seen = {"inode": 0, "fio": [{"read": nothing, "write": nothing}] * jobs}
    rows = pa.Table.from_pylist([], schema=decode.SCHEMA)
    assert list(_fio_counts("direct", seen, rows)) == ["fio has done nothing"]


def test_one_that_has_is() -> None:
    done, nothing = {"total_ios": 1, "io_bytes": 4096}, {"total_ios": 0, "io_bytes": 0}
    row = {"mode": "R", "size_bytes": 4096, "comm": "fio"}
    rows = pa.Table.from_pylist([row], schema=decode.SCHEMA)
    assert list(_fio_counts("direct", {"inode": 0, "fio": [{"read": done, "write": nothing}]}, rows)) == []
