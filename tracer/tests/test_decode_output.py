"""The files that the decoder writes: what is in them when it fails, and what it refuses to write to."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pa_parquet
import pytest

from tracer import decode, summary
from tracer.tests.test_decode import PLAIN, file_of

OLD = "what was there, and is longer than any output of the decoder here\n" * 1000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([PLAIN, replace(PLAIN, sector=5)]))
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    path.write_text(OLD)
    return path


def refused(*arguments: object) -> bool:
    with pytest.raises(SystemExit) as exit_:
        decode.main([str(argument) for argument in arguments])
    return exit_.value.code == 2


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
def test_an_input_is_never_overwritten(option: str, trace: Path, tmp_path: Path) -> None:
    content, other, rules = trace.read_bytes(), tmp_path / "io.bin.1", tmp_path / "my.rules"
    other.write_bytes(content)
    rules.write_text("wal path=/**\n")
    (tmp_path / "link").symlink_to(trace)
    os.link(trace, tmp_path / "hard")
    for output in (trace, tmp_path / "link", tmp_path / "hard", tmp_path / "." / ".." / tmp_path.name / "io.bin"):
        assert refused(other, trace, option, output)
    assert refused(trace, "--rules", rules, option, rules)
    assert (trace.read_bytes(), rules.read_text()) == (content, "wal path=/**\n")


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
@pytest.mark.parametrize("name", ["io.bin.json", "trace.json"])
def test_the_status_of_an_input_is_never_overwritten(option: str, name: str, trace: Path, tmp_path: Path) -> None:
    """Nor made: the summary would take the rows for it."""
    status, other = tmp_path / name, tmp_path / "io.bin.1"
    other.write_bytes(trace.read_bytes())
    if name == "io.bin.json":
        assert refused(trace, option, tmp_path / "." / name) and not status.exists()
    status.write_text("{}")
    os.link(status, tmp_path / "hard")
    for output in (status, tmp_path / "hard"):
        assert refused(other, trace, option, output)
    assert status.read_text() == "{}"


@pytest.mark.parametrize("program", [decode.main, summary.main])
def test_a_trace_is_not_counted_twice(
    program: Callable[[list[str]], int], trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.link(trace, tmp_path / "hard")
    (tmp_path / "link").symlink_to(trace)
    for other in (str(trace), f"{tmp_path}/./io.bin", str(tmp_path / "hard"), str(tmp_path / "link")):
        with pytest.raises(SystemExit) as exit_:
            program([str(trace), other])
        assert exit_.value.code == 2
        assert f"{Path(other)} is named twice" in capsys.readouterr().err
    (tmp_path / "io.bin.1").write_bytes(trace.read_bytes())
    assert program([str(tmp_path / "io.bin.1"), str(trace)]) == 0


def test_two_outputs_are_two_files(trace: Path, old: Path) -> None:
    for output in (old, old.with_name("new")):
        assert refused(trace, "--csv", output, "--parquet", output.parent / "." / output.name)
    os.link(old, old.with_name("hard"))
    assert refused(trace, "--csv", old, "--parquet", old.with_name("hard"))
    assert old.read_text() == OLD


def test_a_node_that_is_no_text(trace: Path) -> None:
    assert refused(trace, "--node", os.fsdecode(b"n\xff"))


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
def test_what_was_there_stays_until_there_are_rows(option: str, trace: Path, old: Path, tmp_path: Path) -> None:
    damaged, bad_rules, no_text = (tmp_path / name for name in ("damaged.bin", "bad.rules", "no_text.rules"))
    damaged.write_bytes(trace.read_bytes()[:1024] + trace.read_bytes()[-64:])
    bad_rules.write_text("wal\n")
    no_text.write_bytes(b"wal path=/\xff\n")
    output = [option, str(old)]
    assert decode.main([str(tmp_path / "missing.bin"), *output]) == 5
    assert decode.main([str(damaged), *output]) == 5
    # All headers are looked at before the first file is decoded.
    assert decode.main([str(trace), str(tmp_path / "missing.bin"), *output]) == 5
    assert decode.main([str(trace), str(bad_rules), *output]) == 5
    for rules in (bad_rules, no_text):
        assert decode.main([str(trace), "--rules", str(rules), *output]) == 2
    other = "--parquet" if option == "--csv" else "--csv"
    assert decode.main([str(trace), *output, other, str(tmp_path / "missing" / "out")]) == 4
    assert old.read_text() == OLD


def test_what_was_there_is_replaced(trace: Path, old: Path, tmp_path: Path) -> None:
    for records in ([PLAIN], []):
        trace.write_bytes(file_of(records))
        assert decode.main([str(trace), "--csv", str(old), "--parquet", str(tmp_path / "io.parquet")]) == 0
        with old.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == pa_parquet.read_table(tmp_path / "io.parquet").num_rows == len(records)
        old.write_text(OLD)


def test_a_new_file_has_the_rights_that_the_umask_leaves(trace: Path, tmp_path: Path) -> None:
    new = tmp_path / "io.csv", tmp_path / "io.parquet"
    umask = os.umask(0o026)
    try:
        assert decode.main([str(trace), "--csv", str(new[0]), "--parquet", str(new[1])]) == 0
    finally:
        os.umask(umask)
    assert [file.stat().st_mode & 0o777 for file in new] == [0o640, 0o640]


def test_a_trace_is_not_read_from_a_pipe(trace: Path) -> None:
    """It would be gone after the first look at it."""
    command = [sys.executable, "-m", "tracer.decode", "/dev/stdin", "--csv", "/dev/null"]
    done = subprocess.run(command, check=False, input=trace.read_bytes(), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.count(b"\n")) == (5, 1)
    assert b"/dev/stdin: not a regular file" in done.stderr


@pytest.mark.parametrize("where", ["pipe", "file", "appended"])
@pytest.mark.parametrize("name", ["/dev/stdout", "-"])
def test_rows_on_stdout_are_rows_only(name: str, where: str, trace: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracer.decode", str(trace), "--csv", name]
    before = "what was there\n" if where == "appended" else ""
    (tmp_path / "out").write_text(before)
    with (tmp_path / "out").open("a" if before else "w") as file:
        stdout = subprocess.PIPE if where == "pipe" else file
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=True)
    text = done.stdout or (tmp_path / "out").read_text()
    assert text.startswith(before)
    rows = list(csv.DictReader(text.removeprefix(before).splitlines()))
    assert [row["sector"] for row in rows] == ["2048", "5"]
    assert done.stderr == "2 records\n"


def test_a_reader_that_has_seen_enough_ends_it(trace: Path) -> None:
    trace.write_bytes(file_of([replace(PLAIN, sector=sector) for sector in range(20_000)]))
    command = [sys.executable, "-m", "tracer.decode", str(trace), "--csv", "/dev/stdout"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoding:
        assert decoding.stdout and decoding.stderr
        assert decoding.stdout.readline().startswith(b'"t_us"')
        decoding.stdout.close()
        assert (decoding.stderr.read(), decoding.wait(60)) == (b"", -signal.SIGPIPE)


def test_ctrl_c_ends_it_without_a_traceback(trace: Path) -> None:
    """While it waits for a reader: a pipe has room for 64 KiB."""
    trace.write_bytes(file_of([replace(PLAIN, sector=sector) for sector in range(20_000)]))
    command = [sys.executable, "-m", "tracer.decode", str(trace), "--csv", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoding:
        assert decoding.stdout and decoding.stderr
        assert decoding.stdout.read(1) == b'"'
        decoding.send_signal(signal.SIGINT)
        assert (decoding.stderr.read(), decoding.wait(60)) == (b"", -signal.SIGINT)


@pytest.mark.parametrize("rows", [2, 20_000])
@pytest.mark.parametrize("option", ["--csv", "--parquet"])
def test_the_file_that_has_no_room_is_named(
    option: str, rows: int, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether that shows while it is written or when it is closed, and whichever was opened first."""
    trace.write_bytes(file_of([replace(PLAIN, sector=sector) for sector in range(rows)]))
    other = "--parquet" if option == "--csv" else "--csv"
    assert decode.main([str(trace), option, "/dev/full", other, str(tmp_path / "other")]) == 4
    said = capsys.readouterr().err
    assert "'/dev/full'" in said and said.count("\n") == 1
