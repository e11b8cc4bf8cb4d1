"""Rotation of what is written: older files, those of others, and what cannot be renamed or deleted."""

from __future__ import annotations

import csv
import errno
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer import decode
from tracer.tests.test_control import mixed_load
from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import Trace, altered, open_files, read_records, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def held_open(trace: Trace) -> set[str]:
    """Names of files beside its output that it has open; the space that is set aside has none."""
    files = open_files(trace.process.pid)
    return {file.name for file in files if file.parent == trace.output.parent and file.name[0] != "#"}


def test_rotation_keeps_the_last_files_and_counts_the_others(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "io.bin"
    options = ("--rotate-bytes", str(1 << 20), "--keep-files", "2")
    with tracing(path, "--device", disk, *options) as trace:
        mixed_load(disk, 70_000, "--ioengine=libaio", "--iodepth=16")
        trace.device_now(disk)
        assert held_open(trace) == {"io.bin"}, "nobody else gets the room of those that it has deleted"
        assert trace.stop() == 0
    rotation = trace.status()["rotation"]
    assert rotation["older_files"] >= 3
    assert rotation["deleted_files"] == rotation["older_files"] - 2
    numbers = range(rotation["older_files"] - 1, rotation["older_files"] + 1)
    files = [*(Path(f"{path}.{number}") for number in numbers), path]
    assert sorted(tmp_path.glob("io.bin*")) == sorted([*files, Path(f"{path}.json")])
    rows = sum(len(read_records(file)) for file in files)
    assert rows + rotation["deleted_records"] == trace.device(disk)["emitted"]
    assert all(file.stat().st_size < 2 << 20 for file in files[:-1])
    # Each file stands for itself: disks and tasks are defined in each.
    assert decode.main([*map(str, files), "--csv", str(tmp_path / "io.csv")]) == 0
    assert sum(1 for _ in (tmp_path / "io.csv").open()) == rows + 1


def test_rotation_goes_on_when_somebody_has_taken_an_older_file_away(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io.bin"
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20), "--keep-files", "2") as trace:
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        trace.device_now(disk)
        Path(f"{path}.1").unlink()
        mixed_load(disk, 70_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.stop() == 0
    assert capfd.readouterr().err == "", "nothing is left to be done"
    rotation = trace.status()["rotation"]
    assert rotation["older_files"] >= 4
    assert rotation["deleted_files"] == rotation["older_files"] - 3
    assert len(list(tmp_path.glob("io.bin.[0-9]*"))) == 2


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Nobody can delete the file meanwhile, nor can root: something is mounted on it."""
    subprocess.run(["mount", "--bind", str(path), str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_an_older_file_that_cannot_be_deleted_is_named_and_no_other_one_stays(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io.bin"
    stays = Path(f"{path}.1")
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20), "--keep-files", "2") as trace:
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        trace.device_now(disk)
        with held(stays):
            mixed_load(disk, 100_000, "--ioengine=libaio", "--iodepth=16")
            assert trace.stop() == 0
    status = trace.status()
    rotation = status["rotation"]
    assert (status["state"], status["reason"]) == ("stopped", "")
    assert capfd.readouterr().err == (
        f"strata-iotrace: deleting {stays}: {os.strerror(errno.EBUSY)}: remove it; tracing goes on\n"
    )
    assert rotation["older_files"] >= 4
    latest = [Path(f"{path}.{rotation['older_files'] - back}") for back in (1, 0)]
    assert sorted(tmp_path.glob("io.bin.[0-9]*")) == sorted([stays, *latest])
    assert rotation["deleted_files"] == rotation["older_files"] - 3
    rows = sum(len(read_records(file)) for file in (stays, *latest, path))
    assert rows + rotation["deleted_records"] == trace.device(disk)["emitted"]


def test_an_older_file_that_can_be_deleted_later_is_deleted_then(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io.bin"
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20), "--keep-files", "1") as trace:
        for _ in range(2):
            mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
            trace.device_now(disk)
            latest = trace.status()["rotation"]["older_files"]
            with held(Path(f"{path}.{latest}")):
                mixed_load(disk, 40_000, "--ioengine=libaio", "--iodepth=16")
                trace.device_now(disk)
                assert f"{path}.{latest}: " in capfd.readouterr().err, "each is named"
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        trace.device_now(disk)
        assert trace.stop() == 0
    rotation = trace.status()["rotation"]
    assert rotation["deleted_files"] == rotation["older_files"] - 1
    (older,) = tmp_path.glob("io.bin.[0-9]*")
    rows = len(read_records(older)) + len(trace.records())
    assert rows + rotation["deleted_records"] == trace.device(disk)["emitted"]


def test_rotation_does_not_touch_the_file_of_another_tracer(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whose name is the one that the next file has until it takes the place of this one."""
    path, other = tmp_path / "io.bin", tmp_path / "io.bin.new"
    rotated = tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20))
    with rotated as trace, tracing(other, "--device", disk) as trace_of_other:
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.process.wait(30) == 4
        assert trace_of_other.stop() == 0
    assert capfd.readouterr().err.startswith("strata-iotrace: ")
    assert len(read_records(other)) == trace_of_other.device(disk)["emitted"] > 10_000
    assert len(read_records(path)) == trace.device(disk)["emitted"]


def test_rotation_does_not_write_through_a_link(disk: str, tmp_path: Path) -> None:
    path, precious = tmp_path / "io.bin", tmp_path / "precious"
    precious.write_text("precious")
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20)) as trace:
        Path(f"{path}.new").symlink_to(precious)
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.process.wait(30) == 4
    assert precious.read_text() == "precious"
    assert len(trace.records()) == trace.device(disk)["emitted"] > 10_000


def test_rotation_does_not_write_over_what_comes_meanwhile(disk: str, tmp_path: Path) -> None:
    path, precious = tmp_path / "io.bin", tmp_path / "io.bin.new"
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20)) as trace:
        precious.write_text("precious")
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.process.wait(30) == 4
    assert precious.read_text() == "precious"
    assert len(trace.records()) == trace.device(disk)["emitted"] > 10_000


def test_rotation_on_a_file_system_that_cannot_exchange_names(disk: str, tmp_path: Path) -> None:
    """As NFS; here the kernel is asked for something that none can."""
    changes = {"RENAME_EXCHANGE) == 0)": "1 << 6) == 0)"}
    binary = altered(tmp_path, {"src/claim.c": changes})
    path = tmp_path / "io.bin"
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20), binary=binary) as trace:
        mixed_load(disk, 50_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.stop() == 0
    rotation = trace.status()["rotation"]
    older = [Path(f"{path}.{number}") for number in range(1, rotation["older_files"] + 1)]
    assert rotation["older_files"] >= 2
    assert sorted(tmp_path.glob("io.bin*")) == sorted([path, *older, Path(f"{path}.json")])
    assert all(file.stat().st_nlink == 1 for file in (path, *older))
    assert sum(len(read_records(file)) for file in (*older, path)) == trace.device(disk)["emitted"]


def test_rotation_does_not_take_the_place_of_what_somebody_has_put_there(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io.bin"
    with tracing(path, "--device", disk, "--rotate-bytes", str(1 << 20)) as trace:
        Path(f"{path}.1").write_text("precious")
        mixed_load(disk, 20_000, "--ioengine=libaio", "--iodepth=16")
        assert trace.process.wait(30) == 4
    assert Path(f"{path}.1").read_text() == "precious"
    assert capfd.readouterr().err.startswith(f"strata-iotrace: writing {path}: {os.strerror(errno.EEXIST)}: ")
    assert sorted(tmp_path.glob("io.bin*")) == [path, Path(f"{path}.1"), Path(f"{path}.json")]
    assert len(trace.records()) == trace.device(disk)["emitted"]
    assert_closed(trace, disk)


def echo(end: socket.socket) -> None:
    while received := end.recv(1):
        end.sendall(received)


def test_lines_beside_the_records_rotate_too(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "spans"
    options = ("--device", disk, "--pid", str(os.getpid()), "--spans", str(path), "--span-sample", "1")
    here, there = socket.socketpair()
    answering = threading.Thread(target=echo, args=(there,))
    answering.start()
    with here, there, tracing(tmp_path / "io.bin", *options, "--rotate-bytes", str(1 << 20)) as trace:
        deadline = time.monotonic() + 60
        while not Path(f"{path}.samples.2").exists():
            assert time.monotonic() < deadline
            here.sendall(b".")
            assert here.recv(1) == b"."
        here.shutdown(socket.SHUT_RDWR)
        answering.join()
        assert held_open(trace) == {"io.bin", "spans", "spans.samples"}
        assert trace.stop() == 0
    assert trace.status()["rotation"]["older_files"] == 0, "nothing was read or written"
    older = sorted(tmp_path.glob("spans.samples.*"))
    assert all(file.stat().st_size >= (1 << 20) for file in older)
    rows = []
    for file in (*older, Path(f"{path}.samples")):
        with file.open() as lines:
            rows += list(csv.DictReader(lines))
    begins = [int(row["t_mono_ns"]) for row in rows if row["pid"] == str(os.getpid())]
    with path.open() as lines:
        spans = sum(int(row["spans"]) for row in csv.DictReader(lines))
    assert len(begins) == len(rows) == spans - trace.status()["spans"]["samples_dropped"] > 10_000


@pytest.mark.parametrize("ending", ["7", "new"])
@pytest.mark.parametrize("option", ["output", "context"])
def test_older_files_of_another_trace_are_not_mixed_with_new_ones(
    binary: Path, tmp_path: Path, option: str, ending: str
) -> None:
    """Nor is a file lost that has the name of the next one (FILE.new)."""
    older = tmp_path / f"{option}.{ending}"
    older.write_text("precious")
    names = {name: str(tmp_path / name) for name in ("output", "context")}
    command = [str(binary), "--output", names["output"], "--context", names["context"], "--rotate-bytes", str(1 << 20)]
    command += ["--duration", "0.1"]
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (4, 1)
    assert names[option] in refused.stderr and list(tmp_path.iterdir()) == [older]


@pytest.mark.parametrize(
    ("first", "second"), [("output", "context"), ("context", "peers"), ("peers", "output"), ("spans", "context")]
)
@pytest.mark.parametrize("ending", ["1", "20", "new"])
def test_no_option_has_the_name_of_an_older_file_of_another_one(
    binary: Path, can_trace: None, tmp_path: Path, first: str, second: str, ending: str
) -> None:
    """The trace would end when that one is to be made."""
    names = {"output": "io.bin", first: "file", second: f"file.{ending}"}
    options = [word for option, name in names.items() for word in (f"--{option}", str(tmp_path / name))]
    command = [str(binary), *options, "--rotate-bytes", "1048576", "--duration", "0.1"]
    refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (refused.returncode, refused.stderr.count("\n")) == (4, 1)
    assert str(tmp_path / "file") in refused.stderr and list(tmp_path.iterdir()) == []
