"""The summary of a trace against the same numbers, added up one by one; and a real trace against fio."""

from __future__ import annotations

import errno
import itertools
import json
import math
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer import decode, groups, summary
from tracer.components import DEFAULT_RULES
from tracer.tests.test_decode import PLAIN, STARTED_UNIX_NS, anywhere, file_of
from tracer.tests.tracing import EMPTY, Record, fio, tracing

#: Numbers worked out by hand from the three requests and the status.
SCREEN = Path(__file__).with_name("summary.txt")


def status(**changes: Any) -> dict[str, Any]:
    loop0 = {
        "device": "loop0",
        "layers_missing": {"driver": "nothing tells"},
        "excluded": {"filtered": 2, "untracked": 0},
    }
    vda = {"device": "vda", "layers_missing": {}, "excluded": {"filtered": 1_000, "untracked": 0}}
    return {
        "kernel": "6.18.0",
        "state": "stopped",
        "reason": "",
        "started_unix_ns": 1_700_000_001_234_567_890,
        "started_mono_ns": 6_000_000_000,
        "stopped_mono_ns": 10_000_000_000,
        "limits": ["no names of direct I/O"],
        "rotation": {"older_files": 0, "deleted_files": 0, "deleted_records": 0},
        "devices": [loop0, vda],
        "emitted": 5,
        "dropped": 0,
        **changes,
    }


def trace(folder: Path, records: Sequence[Record], beside: dict[str, Any] | None = None) -> Path:
    path = folder / "io.bin"
    path.write_bytes(file_of(list(records)))
    if beside:
        path.with_name("io.bin.json").write_text(json.dumps(beside))
    return path


FAST = replace(PLAIN, driver_ns=EMPTY)
SLOW = replace(PLAIN, vfs_ns=EMPTY, block_ns=EMPTY, device_ns=2_000_000)
NOT_TIMED = replace(PLAIN, vfs_ns=EMPTY, block_ns=EMPTY, device_ns=EMPTY, device=254 << 20, mode=0, inode=0, path=None)


def test_what_people_see(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = {"hit_ratio": 0.75, "cached": {"calls": 3, "sum_ns": 6000}, "with_io": {"calls": 1, "sum_ns": 40_000}}
    none = {"calls": 0, "sum_ns": 0}
    calls = {"read": read, "write": {"hit_ratio": None, "cached": none, "with_io": none}}
    large = replace(SLOW, start_ns=8_500_000_000, size_bytes=3 << 20, status=3)
    path = trace(tmp_path, [FAST, large, replace(NOT_TIMED, status=10)], status(vfs=calls))
    assert summary.main([str(path), "--slowest", "1", "--top", "1"]) == 0
    assert capsys.readouterr().out == SCREEN.read_text(encoding="utf-8").replace("FILE", str(path))


CHOSEN = "chosen by --comm a b --mode R --min-latency 7 --sample 10: "
NONE = {
    **{name: [] for name in ("cgroups", "pids", "comms", "modes")},
    "devices": ["loop0"],
    "min_latency_us": 0,
    "sample_every": 1,
}


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (NONE, ""),
        ({**NONE, "sample_every": 2}, "chosen by --sample 2: "),
        ({**NONE, "comms": ["a b"], "modes": ["R"], "min_latency_us": 7, "sample_every": 10}, CHOSEN),
        ({**NONE, "pids": [5], "cgroups": ["/x"]}, "chosen by --cgroup /x --pid 5: "),
    ],
)
def test_what_was_chosen_is_not_called_the_disk_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], filters: dict[str, Any], told: str
) -> None:
    """Rates of a sample look like those of the disk, and are a tenth of them."""
    path = trace(tmp_path, [FAST, SLOW], status(filters=filters))
    assert summary.main([str(path)]) == 0
    said = capsys.readouterr().out
    assert ("chosen by " in said) == bool(told) and told in said
    assert f"loop0 W: 2 {'chosen ' if told else ''}requests, 0.5 a second" in said


def test_a_group_whose_times_are_not_known_has_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside others, and alone."""
    timed, not_timed = ["W", "1", "0.0", "100.0%"], ["R", "1", "0.0"]  # requests, MiB, of the time
    for records, lines in (([FAST, NOT_TIMED], [timed, not_timed]), ([NOT_TIMED], [not_timed])):
        assert summary.main([str(trace(tmp_path, records)), "--by", "mode"]) == 0
        table = capsys.readouterr().out.partition("by mode (us)\n")[2].splitlines()[2 : 2 + len(lines)]
        assert [line.split()[:4] for line in table] == lines


def test_the_share_that_was_dropped_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, [FAST, SLOW], status(emitted=2, dropped=6, state="running"))
    assert summary.main([str(path)]) == 0
    said = capsys.readouterr().out
    assert "running, or killed; 6 dropped" in said and "  75.0% were dropped: " in said


durations = st.one_of(st.just(EMPTY), st.integers(0, 300), st.integers(0, 2**40 - 2))
some_records = st.lists(
    st.builds(
        replace,
        st.just(PLAIN),
        start_ns=st.integers(2**60, 2**61),
        vfs_ns=durations,
        block_ns=durations,
        driver_ns=durations,
        device_ns=durations,
        size_bytes=st.integers(0, 2**32 - 1),
        device=st.sampled_from([7 << 20, 254 << 20]),
        mode=st.integers(0, 3),
        inode=st.sampled_from([0, 4711]),
        comm=st.sampled_from([b"java", b"fio"]),
    ),
    max_size=60,
)


#: As docs/tracer.md promises.
NARROW = 1 / 128


def close_from_above(found: int, exact: int) -> bool:
    return exact <= found <= exact * (1 + NARROW)


def quantile(values: Sequence[int], part: float) -> int:
    return sorted(values)[max(1, math.ceil(part * len(values))) - 1]


@anywhere
@given(some_records, st.integers(0, 5), st.sampled_from(["mode", "comm,device", "path", "size_bytes"]))
def test_all_requests_are_in_it(tmp_path: Path, written: list[Record], slowest: int, by: str) -> None:
    path = trace(tmp_path, written)
    rows = decode.read_table(path).to_pylist()
    report = summary.summarise([path], [by.split(",")], slowest, DEFAULT_RULES)
    for found, keys in ((report["disks"], ["device", "mode"]), (report["by"][0]["groups"], by.split(","))):
        assert len(found) == len({tuple(row[key] for key in keys) for row in rows})
        for group in found:
            check_group(group, [row for row in rows if all(row[key] == group[key] for key in keys)])
    totals = sorted((row["total_ns"] for row in rows if row["total_ns"] is not None), reverse=True)
    assert [row["total_ns"] for row in report["slowest"]] == totals[:slowest]


def check_group(group: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert (group["requests"], group["bytes"]) == (len(rows), sum(row["size_bytes"] for row in rows))
    for name in decode.LAYERS:
        known = [row[name] for row in rows if row[name] is not None]
        assert group["sums_ns"].get(name) == (sum(known) if known else None)
        if "times" in group:
            check_times(group["times"].get(name), known)
    totals = [row["total_ns"] for row in rows if row["total_ns"] is not None]
    check_times(group["total"], totals)
    if totals:
        # All of the slowest hundredth, and besides them at most what shares a bucket with the fastest of them.
        p99 = quantile(totals, 0.99)
        at_least = sum(total for total in totals if total >= p99)
        at_most = sum(total for total in totals if total * (1 + NARROW) >= p99)
        assert at_least <= group["slow_sums_ns"]["total_ns"] <= at_most


def check_times(found: dict[str, Any] | None, exact: list[int]) -> None:
    if not exact:
        assert found is None
        return
    assert found is not None
    assert found["requests"] == len(exact)
    assert found["mean_ns"] == pytest.approx(sum(exact) / len(exact), abs=0.06, rel=1e-12)
    assert found["max_ns"] == max(exact)
    for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        assert close_from_above(found[f"{name}_ns"], quantile(exact, part))


@given(st.lists(st.integers(0, 2**43), min_size=1))
def test_buckets_ascend_and_are_narrow(values: list[int]) -> None:
    values.sort()
    found = groups.buckets(np.array(values))
    assert (np.diff(found) >= 0).all()
    for (low, high), same in zip(itertools.pairwise(values), np.diff(found) == 0, strict=True):
        assert not same or high <= low * (1 + NARROW)


def test_many_blocks(tmp_path: Path) -> None:
    """More than are added up at once; each has a text that the ones before had not."""
    summed = summary.Summary([["comm"]], 1)
    for number in range(3 * 64 + 1):
        path = trace(tmp_path, [replace(PLAIN, comm=b"t%d" % number, device_ns=number), PLAIN])
        for batch in decode.read_batches(path):
            summed.add(batch)
    report = summed.report()
    assert [disk["requests"] for disk in report["disks"]] == [2 * (3 * 64 + 1)]
    assert report["disks"][0]["sums_ns"]["device_ns"] == sum(range(3 * 64 + 1)) + 30 * (3 * 64 + 1)
    assert len(report["by"][0]["groups"]) == 3 * 64 + 2
    assert report["slowest"][0]["comm"] == "t192"


def test_memory_does_not_grow_with_the_requests(tmp_path: Path) -> None:
    """A trace of a day has many more of them than a machine has memory for."""
    path = trace(tmp_path, [replace(PLAIN, comm=b"t%d" % (i % 10), device_ns=2**i) for i in range(30)])
    (batch,) = decode.read_batches(path)
    summed, before_bytes = summary.Summary([["comm"]], 1), pa.total_allocated_bytes()
    peaks = []
    for blocks in (70, 210):
        peak = 0
        for _ in range(blocks):
            summed.add(batch)
            peak = max(peak, pa.total_allocated_bytes() - before_bytes)
        peaks.append(peak)
    assert 0 < peaks[1] < 1.1 * peaks[0]


def test_several_files_are_one_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = trace(tmp_path, [FAST]).rename(tmp_path / "io.bin.1")
    rotated = {"older_files": 1, "deleted_files": 0, "deleted_records": 0}
    newest = trace(
        tmp_path, [replace(FAST, start_ns=FAST.start_ns + 2_000_000_000)], status(rotation=rotated, emitted=2)
    )
    assert summary.main([str(older), str(newest)]) == 0
    said = capsys.readouterr().out
    assert f"{older}: 1 requests, of an older file\n" in said
    assert "were written" not in said and "is not known" not in said, "all that were written are there"
    foreign = older.with_name("io.bin.2")  # this trace has one
    foreign.write_bytes(older.read_bytes())
    assert summary.main([str(foreign), str(newest)]) == 0
    assert f"{foreign}: 1 requests; without {foreign}.json it is not known" in capsys.readouterr().out
    assert summary.main([str(newest)]) == 0
    assert "2 were written: older files have the others" in capsys.readouterr().out
    newest.with_name("io.bin.json").unlink()
    assert summary.main([str(older), str(newest)]) == 0
    assert capsys.readouterr().out.count("it is not known what was left out") == 2
    assert summary.main([str(older)]) == 0
    assert f"{older}: 1 requests; without {older}.json it is not known" in capsys.readouterr().out
    assert "loop0 W: 2 requests, 1.0 a second" in said


def test_what_went_with_deleted_files_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for deleted, more in ((0, ""), (1234, ", but for 1,234 in files that were deleted (--keep-files)")):
        rotation = {"older_files": 3, "deleted_files": min(deleted, 2), "deleted_records": deleted}
        assert summary.main([str(trace(tmp_path, [PLAIN], status(rotation=rotation)))]) == 0
        assert f"5 were written: older files have the others{more}\n" in capsys.readouterr().out


def test_seconds_come_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = [0, 2_999_999_999, 2_000_000_000, 3_000_000_000]
    path = trace(tmp_path, [replace(FAST, start_ns=6_000_000_000 + ns, device_ns=7_000_000 - ns // 1000) for ns in at])
    assert summary.main([str(path), "--by", "second,mode", "--top", "1"]) == 0
    table = capsys.readouterr().out.partition("by second, mode (us)\n")[2].splitlines()[2:5]
    assert [line.split()[:3] for line in table] == [["0", "W", "1"], ["2", "W", "2"], ["3", "W", "1"]]


def test_in_the_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, [FAST], status())
    path.with_name("io.bin.json").rename(tmp_path / "trace.json")
    assert summary.main([str(path)]) == 0
    assert "Linux 6.18.0" in capsys.readouterr().out


def test_the_status_of_a_run_is_that_of_its_own_trace_only(tmp_path: Path) -> None:
    path = trace(tmp_path, [FAST], status())
    path.with_name("io.bin.json").rename(tmp_path / "trace.json")
    other = path.rename(tmp_path / "other.bin")
    assert summary.summarise([other], [], 0, DEFAULT_RULES)["files"][0]["status"] is None


def test_a_file_goes_on_until_its_last_request_ends(tmp_path: Path) -> None:
    """Which need not be the one that began last, or one whose end is known."""
    records = [
        replace(SLOW, start_ns=6_000_000_000, device_ns=5_000_000),
        replace(SLOW, start_ns=6_001_000_000, device_ns=3_000_000),
        replace(NOT_TIMED, start_ns=6_010_000_000),
    ]
    for count, length_ns in ((2, 5_000_000), (3, 10_000_000)):
        (told,) = summary.summarise([trace(tmp_path, records[:count])], [], 0, DEFAULT_RULES)["files"]
        assert told["last_unix_ns"] - told["first_unix_ns"] == length_ns


def test_nothing_was_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = status(state="running", stopped_mono_ns=None, emitted=0)
    assert summary.main([str(trace(tmp_path, [], running))]) == 0
    assert "0 requests, Linux 6.18.0, running" in capsys.readouterr().out


@pytest.mark.parametrize("beside", ["[]", "{", '{"kernel": "6.18"}', "\xff"])
def test_a_status_that_is_none(beside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, [PLAIN])
    path.with_name("io.bin.json").write_text(beside, encoding="latin-1")
    assert summary.main([str(path)]) == 5
    said = capsys.readouterr().err
    assert "io.bin.json" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--by", "sector"], ["--by", "comm,"], ["--by", "comm,comm"], ["--slowest", "-1"], ["--top", "x"]]
)
def test_wrong_arguments(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised:
        summary.main([str(trace(tmp_path, [PLAIN])), *arguments])
    assert raised.value.code == 2


@pytest.mark.parametrize("program", ["summary", "decode"])
def test_a_pipe_is_no_trace(program: str, tmp_path: Path) -> None:
    """It would seem to have no records: how long it is nobody knows."""
    path = trace(tmp_path, [PLAIN])
    command = [sys.executable, "-m", f"tracer.{program}", "/dev/stdin"]
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as cat:
        ended = subprocess.run(command, check=False, stdin=cat.stdout, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (5, "", 1)
    assert "not a regular file" in ended.stderr


def test_more_slowest_than_any_trace_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, [PLAIN, FAST])
    assert summary.main([str(path), "--slowest", str(10**30), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["slowest"]) == 2


def test_names_do_not_break_the_table(tmp_path: Path) -> None:
    """Nor do they command the terminal; and a name may have no text at all."""
    named = replace(PLAIN, comm=b"a\nb\x1b[31m", path="/data/x\ny\t\x7f\u2028z")
    path = trace(tmp_path, [named]).rename(tmp_path / os.fsdecode(b"io\xff\x1b"))
    command = [sys.executable, "-m", "tracer.summary", str(path), "--by", "comm", "--by", "path"]
    for encoding in ("utf-8:strict", "ascii:strict"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        assert all(character.isprintable() for line in out.split("\n") for character in line)
        assert r"io\udcff\x1b: 1 requests" in out
        assert out.count(r"a\nb\x1b[31m ") == 2 and out.count(r"/data/x\ny\t\x7f\u2028z") == 2


def times_of_one(request_ns: int) -> dict[str, Any]:
    names = ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    return {"requests": 1, **dict.fromkeys(names, request_ns)}


def test_json_is_as_the_guide_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All members (docs/tracer.md), of two requests."""
    beside = status(vfs={}, filters=NONE)
    path = trace(tmp_path, [replace(NOT_TIMED, status=10), FAST], beside)
    assert summary.main([str(path), "--by", "mode,error", "--slowest", "2", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    sums = {"total_ns": 1230, "vfs_ns": 1000, "block_ns": 200, "device_ns": 30}
    fast = {"requests": 1, "bytes": 4096, "total": times_of_one(1230), "sums_ns": sums, "slow_sums_ns": sums}
    not_timed: dict[str, Any] = {"requests": 1, "bytes": 4096, "total": None, "sums_ns": {}, "slow_sums_ns": {}}
    file = {"file": str(path), "rows": 2, "errors": {"ioerr": 1}, "status": beside}
    assert report == {
        "schema_version": 1,
        "files": [{**file, "first_unix_ns": STARTED_UNIX_NS + 1500, "last_unix_ns": STARTED_UNIX_NS + 1500 + 1230}],
        "disks": [
            {"device": "loop0", "mode": "W", **fast, "times": {name: times_of_one(ns) for name, ns in sums.items()}},
            {"device": "vda", "mode": "R", **not_timed, "times": {}},
        ],
        "by": [
            {
                "by": ["mode", "error"],
                "groups": [{"mode": "W", "error": None, **fast}, {"mode": "R", "error": "ioerr", **not_timed}],
            }
        ],
        "slowest": decode.read_table(path).to_pylist()[1:],
    }


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert summary.main([str(tmp_path / "missing.bin")]) == 5
    path = trace(tmp_path, [PLAIN])
    assert summary.main([str(path), "--rules", str(tmp_path / "missing.rules")]) == 2
    (tmp_path / "wrong.rules").write_text("wal colour=blue")
    assert summary.main([str(path), "--rules", str(tmp_path / "wrong.rules")]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    for unbuffered in ("", "1"):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "tracer.summary", str(path)]
            environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
            ended = subprocess.run(
                command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=environment
            )
        assert (ended.returncode, ended.stderr.count("\n")) == (4, 1)


@anywhere
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_any_damaged_bytes_are_summarised_or_refused(tmp_path: Path, where: int, value: bytes) -> None:
    content = bytearray(file_of([PLAIN, replace(PLAIN, pid=7, inode=8)]))
    content[where : where + len(value)] = value
    path = tmp_path / "io.bin"
    path.write_bytes(content)
    assert summary.main([str(path)]) in (0, 5)


@pytest.mark.bpf
@pytest.mark.root
def test_a_trace_of_fio(mounted: Path, disk: str, tmp_path: Path) -> None:
    """A file's writes as fio counts them, by the command that people run; their time as it stands in the records."""
    with tracing(tmp_path / "io.bin", "--device", disk) as running:
        options = (
            f"--directory={mounted}",
            "--rw=randwrite",
            "--bs=8k",
            "--size=16m",
            "--direct=1",
            "--number_ios=1000",
        )
        job = fio(*options, "--fallocate=none", "--overwrite=1")
        time.sleep(0.1)
        assert running.stop() == 0
    command = [
        sys.executable,
        "-m",
        "tracer.summary",
        str(running.output),
        "--by",
        "path,size_bytes",
        "--format",
        "json",
    ]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = f"{mounted}/test.0.0"
    file = next(f for f in report["by"][0]["groups"] if (f["path"], f["size_bytes"]) == (name, 8192))
    assert (file["requests"], file["bytes"]) == (1000, 1000 * 8192)
    assert report["files"][0]["rows"] == report["files"][0]["status"]["emitted"]
    own = [r for r in running.records() if (r.path, r.size_bytes) == (name, 8192)]
    assert file["sums_ns"]["total_ns"] == sum(ns for r in own for ns in r.durations[:4] if ns != EMPTY)
    assert 0 < file["total"]["mean_ns"] <= job["write"]["clat_ns"]["mean"]


@pytest.mark.bpf
@pytest.mark.root
def test_requests_that_failed_are_as_many_as_the_reads_that_did(disk: str, tmp_path: Path) -> None:
    """Of a loop device that is longer than its file."""
    buffer = mmap.mmap(-1, 4096)
    with tracing(tmp_path / "io.bin", "--device", disk) as running:
        os.truncate(tmp_path / "disk.img", 1 << 20)
        file, failed = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT), 0
        for megabyte in range(20):
            try:
                os.preadv(file, [buffer], megabyte << 20)
            except OSError as error:
                failed += error.errno == errno.EIO
        os.close(file)
        assert running.stop() == 0
    command = [sys.executable, "-m", "tracer.summary", str(running.output)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert failed == 19 and "\n  19 failed (19 ioerr), " in told
