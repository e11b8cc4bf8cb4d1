"""The decoder against files built with struct."""

from __future__ import annotations

import csv
import fcntl
import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracer import decode, tracefile
from tracer.components import Rule, read_rules
from tracer.tests.tracing import EMPTY, RETURN_MODE, RETURN_SLOT, SLOT, Record, pack, text_slots

HEADER: dict[str, Any] = {
    "record_bytes": SLOT.size,
    "anchor_unix_ns": 1_700_000_000_000_000_000,
    "anchor_mono_ns": 5_000_000_000,
    "started_mono_ns": 6_000_000_000,
    "kernel": "6.18.0",
    "devices": {"7:0": "loop0", "254:0": "vda"},
}
STARTED_UNIX_NS = 1_700_000_001_000_000_000
LOOP0 = 7 << 20
NAMES = {LOOP0: "loop0", 254 << 20: "vda"}

PLAIN = Record(
    start_ns=6_000_001_500,
    vfs_ns=1000,
    block_ns=200,
    driver_ns=EMPTY,
    device_ns=30,
    scheduler_ns=EMPTY,
    sector=2048,
    cgroup_id=17,
    inode=4711,
    path="/data/WALs/host,16020/w%2C1",
    size_bytes=4096,
    device=LOOP0,
    pid=100,
    tid=101,
    comm=b"java",
    mode=1,
    origin=1,
    flags=3,
    status=0,
    tracing=0,
    bios=1,
    requeues=0,
)


def file_of(records: list[Record], header: dict[str, Any] = HEADER, header_bytes: int = 1024) -> bytes:
    text = json.dumps(header).encode()
    start = b"STRATAIO" + struct.pack("<II", tracefile.VERSION, header_bytes) + text
    assert len(start) <= header_bytes
    return start.ljust(header_bytes) + pack(records, NAMES)


def table_of(tmp_path: Path, records: list[Record], **options: Any) -> pa.Table:
    path = tmp_path / "io.bin"
    path.write_bytes(file_of(records))
    return decode.read_table(path, **options)


def test_the_dtype_is_the_layout_of_the_header_file() -> None:
    assert tracefile.RECORD.itemsize == SLOT.size == 64
    header = Path(decode.__file__).with_name("src").joinpath("record.h").read_text()
    for struct_name, dtype in (("record", tracefile.RECORD), ("return_record", tracefile.RETURN_RECORD)):
        assert dtype.itemsize == SLOT.size
        content = header.split(f"struct {struct_name} {{")[1].split("};")[0]
        documented = {name: int(at) for name, at in re.findall(r"(\w+)(?:\[\w+\])?;\s+/\* +(\d+)", content)}
        assert documented == {name: field[1] for name, field in (dtype.fields or {}).items()}


def test_one_row(tmp_path: Path) -> None:
    table = table_of(tmp_path, [PLAIN], node="node1")
    assert table.schema == decode.SCHEMA
    assert table.to_pylist() == [
        {
            "t_us": 1.5,
            "t_unix_ns": STARTED_UNIX_NS + 1500,
            "node": "node1",
            "device": "loop0",
            "sector": 2048,
            "mode": "W",
            "sync": True,
            "size_bytes": 4096,
            "total_ns": 1230,
            "vfs_ns": 1000,
            "block_ns": 200,
            "driver_ns": None,
            "device_ns": 30,
            "return_ns": None,
            "origin": "syscall",
            "pid": 100,
            "comm": "java",
            "cgroup_id": 17,
            "inode": 4711,
            "path": "/data/WALs/host,16020/w%2C1",
            "component": "wal",
            "tracing_mode": "block",
            "error": None,
        }
    ]


def test_what_is_unknown_is_empty_never_zero(tmp_path: Path) -> None:
    flush = replace(PLAIN, vfs_ns=EMPTY, block_ns=EMPTY, flags=0, mode=3, size_bytes=0, inode=0)
    (row,) = table_of(tmp_path, [flush]).to_pylist()
    for name in ("vfs_ns", "block_ns", "driver_ns", "pid", "comm", "cgroup_id", "inode", "path", "component", "node"):
        assert row[name] is None
    assert row["total_ns"] == row["device_ns"] == 30
    assert row["size_bytes"] == 0
    (row,) = table_of(tmp_path, [replace(flush, device_ns=EMPTY)]).to_pylist()
    assert row["total_ns"] is None


def test_zero_is_a_duration(tmp_path: Path) -> None:
    (row,) = table_of(tmp_path, [replace(PLAIN, vfs_ns=0)]).to_pylist()
    assert row["vfs_ns"] == 0


def test_start_and_offset(tmp_path: Path) -> None:
    (row,) = table_of(tmp_path, [PLAIN], start_unix_ns=STARTED_UNIX_NS - 1_000_000, offset_ns=-500).to_pylist()
    assert row["t_unix_ns"] == STARTED_UNIX_NS + 1000
    assert row["t_us"] == 1001.0
    (row,) = table_of(tmp_path, [PLAIN], offset_ns=12345).to_pylist()
    assert row["t_us"] == 1.5, "the default start is corrected like the times"


@pytest.mark.parametrize(("mode", "origin", "tracing"), [(4, 5, 6), (31, 99, 77), (127, 127, 127), (255, 255, 255)])
def test_codes_of_a_later_version_have_no_value(mode: int, origin: int, tracing: int, tmp_path: Path) -> None:
    (row,) = table_of(tmp_path, [replace(PLAIN, mode=mode, origin=origin, tracing=tracing)]).to_pylist()
    assert (row["mode"], row["origin"], row["tracing_mode"]) == (None, None, None)


def test_blocks_join_seamlessly(tmp_path: Path) -> None:
    count = 2 * tracefile.BLOCK_SLOTS + 1
    comm = [f"thread-{i % 7}".encode() for i in range(count)]
    records = [replace(PLAIN, sector=i, comm=comm[i]) for i in range(count)]
    table = table_of(tmp_path, records)
    assert table["sector"].to_pylist() == list(range(count))
    assert table["comm"].cast(pa.string()).to_pylist() == [f"thread-{i % 7}" for i in range(count)]


# blk_status_t of 4.18 and of 6.18.
ERROR_NAMES = {0: None, 1: "notsupp", 3: "nospc", 6: "resv_conflict", 7: "medium", 10: "ioerr", 13: "dev_resource"}

durations = st.one_of(st.just(EMPTY), st.integers(0, 2**40 - 2), st.integers(2**32 - 2, 2**32 + 2))
records = st.builds(
    Record,
    start_ns=st.integers(1, 2**61),
    vfs_ns=durations,
    block_ns=durations,
    driver_ns=durations,
    device_ns=durations,
    scheduler_ns=durations,
    sector=st.one_of(st.integers(0, 2**50), st.just(EMPTY)),
    cgroup_id=st.integers(0, 2**64 - 1),
    inode=st.integers(0, 2**64 - 1),
    path=st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=80)),
    size_bytes=st.integers(0, 2**32 - 1),
    device=st.sampled_from(list(NAMES)),
    pid=st.integers(0, 2**32 - 1),
    tid=st.integers(0, 2**32 - 1),
    comm=st.text(st.characters(exclude_categories=["Cs"]), max_size=15).map(str.encode),
    mode=st.integers(0, 3),
    origin=st.integers(0, 4),
    flags=st.integers(0, 255),
    status=st.sampled_from([*ERROR_NAMES, 14, 127, 128, 255]),
    tracing=st.integers(0, 5),
    bios=st.integers(0, 65535),
    requeues=st.integers(0, 65535),
)
anywhere = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def or_none(value: int) -> int | None:
    return None if value == EMPTY else value


def expected(record: Record) -> dict[str, Any]:
    layers = [record.vfs_ns, record.block_ns, record.driver_ns, record.device_ns]
    present = [value for value in layers if value != EMPTY]
    owned = bool(record.flags & 2)
    return {
        "t_unix_ns": record.start_ns + HEADER["anchor_unix_ns"] - HEADER["anchor_mono_ns"],
        "device": NAMES[record.device],
        "sector": or_none(record.sector),
        "mode": "RWDF"[record.mode],
        "sync": bool(record.flags & 1),
        "size_bytes": record.size_bytes,
        "total_ns": sum(present) if present else None,
        "vfs_ns": or_none(record.vfs_ns),
        "block_ns": or_none(record.block_ns),
        "driver_ns": or_none(record.driver_ns),
        "device_ns": or_none(record.device_ns),
        "origin": ["other", "syscall", "writeback", "journal", "io_uring"][record.origin],
        "pid": record.pid if owned else None,
        "comm": record.comm.decode() if owned else None,
        "cgroup_id": record.cgroup_id if owned else None,
        "inode": record.inode or None,
        "path": record.path if record.inode else None,
        "tracing_mode": ["block", "irq", "nvme", "scsi", "fentry", "kprobe"][record.tracing],
        "error": ERROR_NAMES.get(record.status, f"blk_status_{record.status}"),
    }


@anywhere
@given(st.lists(records, max_size=20))
def test_every_record_comes_back(tmp_path: Path, written: list[Record]) -> None:
    rows = table_of(tmp_path, written).to_pylist()
    names = expected(PLAIN)
    assert [{name: row[name] for name in names} for row in rows] == [expected(r) for r in written]


@anywhere
@given(st.lists(records, max_size=5), st.data())
def test_csv_and_parquet_say_the_same(tmp_path: Path, written: list[Record], data: st.DataObject) -> None:
    table = table_of(tmp_path, written)
    csv_path, parquet_path = tmp_path / "io.csv", tmp_path / "io.parquet"
    assert decode.main([str(tmp_path / "io.bin"), "--csv", str(csv_path), "--parquet", str(parquet_path)]) == 0
    assert pa_parquet.read_table(parquet_path).to_pylist() == table.to_pylist()
    with csv_path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(written)
    for row, wanted in zip(rows, table.to_pylist(), strict=True):
        for name in ("total_ns", "vfs_ns", "device_ns", "t_unix_ns", "comm", "pid", "sector", "inode"):
            assert row[name] == ("" if wanted[name] is None else str(wanted[name]))


#: Numbers of tasks, of which 2 and 258 end in the same eight bits, and no others do.
TASKS = (1, 2, 3, 258)


@st.composite
def calls_and_requests(draw: st.DrawFn) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int]]]:
    """Calls (task, start, duration, wait) and requests (task, start, total), few enough values that they meet."""
    few = st.integers(0, 3)
    least = draw(st.sampled_from((0, 6)))
    keys = draw(st.lists(st.tuples(st.sampled_from(TASKS), few), unique=True, min_size=least, max_size=12))
    calls = [(*key, 10 + draw(few), draw(st.sampled_from((0, 1, 2, 3, EMPTY)))) for key in keys]
    anything = st.tuples(st.sampled_from(TASKS), few, few)
    last = [(task, start, wait) for task, start, _, wait in calls if wait != EMPTY]
    requests = draw(st.lists(anything | st.sampled_from(last) if last else anything, min_size=2 * least, max_size=30))
    return calls, requests


@anywhere
@given(calls_and_requests(), st.sampled_from([{}, {"returns": True}]), st.randoms(use_true_random=False))
def test_a_return_belongs_to_the_last_request_of_its_call(
    tmp_path: Path,
    drawn: tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int]]],
    said: dict[str, bool],
    order: Any,
) -> None:
    """Also where the header does not say whether there are any."""
    calls, requests = drawn
    content = file_of([], {**HEADER, **said})
    plain = {"pid": 1, "tid": 1, "cgroup_id": 1, "comm": "x"}
    content += b"".join(text_slots({"task": task, **plain}) for task in TASKS)
    content += text_slots({"device": 0, "major": 7, "minor": 0, "name": "loop0"})
    slots = [(False, RETURN_SLOT.pack(s, d, w, 0, 1, 1, task, 0, 2, RETURN_MODE)) for task, s, d, w in calls]
    for task, start, total in requests:
        record = replace(PLAIN, start_ns=start, vfs_ns=total, block_ns=EMPTY, device_ns=EMPTY, flags=0, inode=0)
        slot = pack([record], NAMES)[-SLOT.size :]
        slots.append((True, slot[:40] + struct.pack("<I", task) + slot[44:]))
    order.shuffle(slots)
    path = tmp_path / "io.bin"
    path.write_bytes(content + b"".join(slot for _, slot in slots))
    wait = {(task, start): (waited, duration) for task, start, duration, waited in calls}
    expected = []
    for _, slot in (pair for pair in slots if pair[0]):
        start, (task,) = struct.unpack_from("<Q", slot)[0], struct.unpack_from("<I", slot, 40)
        (total,) = struct.unpack_from("<I", slot, 16)
        waited, duration = wait.get((task, start), (EMPTY, 0))
        expected.append(duration - waited if waited == total else None)
    read = decode.read_table(path)["return_ns"].to_pylist()
    # Calls of one nanosecond by tasks that end alike are not told apart: a value may be missing, never wrong.
    twins = {s for t, s in wait if t == 2} & {s for t, s in wait if t == 258}
    starts = [struct.unpack_from("<Q", slot)[0] for is_request, slot in slots if is_request]
    for got, wanted, start in zip(read, expected, starts, strict=True):
        assert got == wanted or (got is None and start in twins)


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    content = file_of([PLAIN] * 3)
    path = tmp_path / "io.bin"
    for end in range(len(content) + 1):
        path.write_bytes(content[:end])
        if end < 1024:
            with pytest.raises(tracefile.TraceFileError):
                decode.read_table(path)
        else:
            definitions = len(file_of([PLAIN])) - SLOT.size
            assert decode.read_table(path).num_rows == max(0, end - definitions) // SLOT.size


def set_header(key: str, value: object) -> Callable[[bytes], bytes]:
    return lambda _: file_of([PLAIN], {**HEADER, key: value})


def set_clocks(anchor_unix_ns: int, anchor_mono_ns: int, started_mono_ns: int) -> Callable[[bytes], bytes]:
    clocks = {
        "anchor_unix_ns": anchor_unix_ns,
        "anchor_mono_ns": anchor_mono_ns,
        "started_mono_ns": started_mono_ns,
    }
    return lambda _: file_of([PLAIN], {**HEADER, **clocks})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"STRATAOP" + content[8:], "not a trace"),
        (lambda content: b"\x7fELF" + content[4:], "not a trace"),
        (lambda content: content[:8] + struct.pack("<I", 1) + content[12:], "version 1"),
        (lambda content: content[:12] + struct.pack("<I", 1000) + content[16:], "no multiple of 64"),
        (lambda content: content[:12] + struct.pack("<I", 0) + content[16:], "no multiple of 64"),
        (lambda content: content[:12] + struct.pack("<I", 1 << 31) + content[16:], "ends within"),
        (lambda content: content[:16] + b"\xff" + content[17:], "not the expected JSON"),
        (lambda content: content[:16] + b"[" * 900 + content[916:], "not the expected JSON"),
        (lambda content: content[:16] + b"[1]".ljust(1008) + content[1024:], "not the expected JSON"),
        (set_header("record_bytes", 96), "records of 96 bytes"),
        (set_header("anchor_unix_ns", "soon"), "not the expected JSON"),
        (set_header("anchor_mono_ns", 1 << 70), "not the expected JSON"),
        (set_clocks(2**62 + 2**61, -(2**62), 0), "impossible clocks"),
        (set_clocks(0, 0, 2**62), "impossible clocks"),
        (set_clocks(-(2**62), 0, 0), "impossible clocks"),
        (lambda _: file_of([], {k: v for k, v in HEADER.items() if k != "started_mono_ns"}), "without 'started"),
        (lambda content: content[:1024] + content[-64:], "task 1, which is not defined"),
        (lambda content: content[:1024] + text_slots({"task": -1}), "damaged definition"),
        (
            lambda content: content[:1024] + text_slots({"task": 1 << 40, "pid": 1, "cgroup_id": 1}),
            "damaged definition",
        ),
        (lambda content: content[:1024] + b"{" * 63 + b"\n", "damaged definition"),
        (lambda content: content[:1024] + text_slots({"file": 1, "inode": -1, "path": None}), "damaged definition"),
        (
            lambda content: content[:1024] + text_slots({"file": 1, "inode": 1 << 64, "path": None}),
            "damaged definition",
        ),
        (lambda content: content[:1024] + text_slots({"device": 1 << 16, "name": "loop0"}), "damaged definition"),
    ],
)
def test_a_file_that_is_no_trace(
    change: Callable[[bytes], bytes], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io.bin"
    path.write_bytes(change(file_of([PLAIN])))
    assert decode.main([str(path)]) == 5
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


@anywhere
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_any_damaged_bytes_are_read_or_refused(tmp_path: Path, where: int, value: bytes) -> None:
    content = bytearray(file_of([PLAIN, replace(PLAIN, pid=7, inode=8)]))
    content[where : where + len(value)] = value
    path = tmp_path / "io.bin"
    path.write_bytes(content)
    assert decode.main([str(path)]) in (0, 5)


def test_a_file_that_is_rotated_meanwhile_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one has another header, and may have fewer slots."""
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([replace(PLAIN, sector=i) for i in range(3)]))

    def rotated(rules: Path) -> list[Rule]:
        path.rename(tmp_path / "io.bin.1")
        path.write_bytes(file_of([replace(PLAIN, sector=99)], header_bytes=2048))
        return read_rules(rules)

    monkeypatch.setattr(decode, "read_rules", rotated)
    assert decode.read_table(path)["sector"].to_pylist() == [0, 1, 2]


def test_any_printable_character_may_tell_a_definition(tmp_path: Path) -> None:
    """Wherever a slot's byte 53 is in it."""
    paths = ["/" + character * 200 for character in (" ", "!", "}", "~")]
    table = table_of(tmp_path, [replace(PLAIN, inode=i + 1, path=path) for i, path in enumerate(paths)])
    assert table["path"].cast(pa.string()).to_pylist() == paths


def test_a_file_is_locked_as_long_as_it_is_read(tmp_path: Path) -> None:
    """The tracer empties none that it cannot lock: who has it mapped would be killed."""
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([PLAIN]))
    trace = tracefile.TraceFile(path)
    with path.open("rb") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert len(list(trace.requests())) == 1
        del trace
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_exit_codes_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert decode.main([str(tmp_path / "missing.bin")]) == 5
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([PLAIN]))
    assert decode.main([str(path), "--csv", str(tmp_path / "missing" / "io.csv")]) == 4
    assert capsys.readouterr().err.count("\n") == 2


clocks = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**62) - 2, -(2**62) + 2), st.integers(0, 2**60))


@anywhere
@given(clocks, clocks, clocks, clocks.map(lambda value: max(min(value, 2**62 - 1), 1 - 2**62)))
def test_any_clocks_are_added_or_refused(tmp_path: Path, unix: int, mono: int, started: int, offset: int) -> None:
    path = tmp_path / "io.bin"
    path.write_bytes(set_clocks(unix, mono, started)(b""))
    code = decode.main([str(path), f"--offset-ns={offset}"])
    assert code == (0 if max(abs(unix - mono), abs(started - mono + unix)) < 2**62 else 5)


@pytest.mark.parametrize("option", ["--offset-ns", "--start-unix-ns"])
@pytest.mark.parametrize("value", ["99999999999999999999", str(-(2**62)), "soon"])
def test_times_of_another_age_are_a_usage_error(option: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([PLAIN]))
    with pytest.raises(SystemExit) as exit_:
        decode.main([str(path), f"{option}={value}"])
    assert exit_.value.code == 2


def test_a_flush_has_no_sector(tmp_path: Path) -> None:
    rows = table_of(tmp_path, [replace(PLAIN, sector=EMPTY, mode=3, size_bytes=0), replace(PLAIN, sector=0)])
    assert rows["sector"].to_pylist() == [None, 0]


@pytest.mark.parametrize("zeros", [1, 700])
@pytest.mark.parametrize("before", [1, tracefile.BLOCK_SLOTS + 3000])
def test_zeros_are_no_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str], before: int, zeros: int) -> None:
    """Which a file system leaves at the end of what it had not written when the machine went down."""
    path, copy = tmp_path / "io.bin", tmp_path / "copy.bin"
    whole = file_of([replace(PLAIN, sector=sector) for sector in range(before)])
    path.write_bytes(whole + bytes(64 * zeros + 5))
    assert decode.main([str(path)]) == 5
    said = capsys.readouterr().err
    assert f"zeros at byte {len(whole)}" in said and said.count("\n") == 1
    copy.write_bytes(path.read_bytes()[: int(re.findall(r"truncate -s (\d+)", said)[0])])
    assert decode.main([str(copy)]) == 0
    assert capsys.readouterr().err == f"{before} records\n"


def test_the_status_of_a_trace_is_no_trace(tmp_path: Path) -> None:
    status = tmp_path / "io.bin.json"
    status.write_text("{}")
    with pytest.raises(tracefile.TraceFileError, match=r"the status of one; name .*/io\.bin$"):
        decode.read_table(status)
