from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.errors import DataError
from controller.results.clock import UNREAD, NodeClock
from controller.results.oplog import operation_table, read_operation_log
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.clients import operation_record, write_ops_bin

OPERATIONS = ["READ", "UPDATE"]
rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            # Records of one slot, and what does not fit into one any more.
            "start": st.integers(T0, T0 + 10**14) | st.integers(T0, T0 + 10**16),
            "latency_ns": st.integers(0, 1 << 24) | st.integers(0, 10**14),
            "delay_ns": st.just(-1) | st.integers(-1, 10**9),
            "key_hash": st.integers(0, (1 << 32) - 1),
            "thread": st.integers(0, (1 << 16) - 1),
            "op": st.sampled_from(OPERATIONS),
            "status": st.sampled_from(["OK", "NOT_FOUND", "ERROR"]),
        }
    ),
    max_size=30,
)
anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def table(path: Path, clock: NodeClock = UNREAD) -> list[dict[str, Any]]:
    log = read_operation_log(path)
    rows: list[dict[str, Any]] = operation_table(log, client="c", phase="p", clock=clock, start_unix_ns=T0).to_pylist()
    return rows


@anything
@given(rows=rows_strategy, offset=st.integers(-(10**12), 10**12))
def test_every_operation_comes_back_on_the_controllers_clock(
    tmp_path: Path, rows: list[dict[str, Any]], offset: int
) -> None:
    path = tmp_path / "ops.bin"
    write_ops_bin(path, rows, OPERATIONS, offset)
    clock = NodeClock(np.array([T0 + offset]), np.array([0]), np.array([offset]), 0)
    found = table(path, clock)
    assert [row["t_unix_ns"] for row in found] == [row["start"] for row in rows]
    assert [row["t_unix_ns"] for row in table(path)] == [row["start"] + offset for row in rows], "as it is, unread"
    assert [row["t_us"] for row in found] == pytest.approx([(row["start"] - T0) / 1000 for row in rows])
    for name in ("op", "status", "latency_ns", "thread"):
        assert [row[name] for row in found] == [row[name] for row in rows]
    assert [row["key_hash"] for row in found] == [row["key_hash"] or None for row in rows]
    assert [row["intended_latency_ns"] for row in found] == [
        None if row["delay_ns"] < 0 else row["latency_ns"] + row["delay_ns"] for row in rows
    ]


@anything
@given(cut=st.integers(0, 700), rows=rows_strategy)
def test_a_file_cut_anywhere_is_whole_records_or_a_data_error(
    tmp_path: Path, cut: int, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path / "ops.bin"
    write_ops_bin(path, rows, OPERATIONS)
    content = path.read_bytes()
    header = struct.unpack_from("<I", content, 12)[0]
    path.write_bytes(content[:cut])
    if cut < header:
        with pytest.raises(DataError, match=r"ops\.bin"):
            table(path)
    else:
        ends = header + np.cumsum([len(operation_record(row, row["start"] - T0 - 5 * SECOND, 0, 0)) for row in rows])
        assert len(table(path)) == int((ends <= cut).sum())


@anything
@given(position=st.integers(0, 400), byte=st.integers(0, 255), rows=rows_strategy)
def test_a_changed_byte_never_ends_in_a_traceback(
    tmp_path: Path, position: int, byte: int, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path / "ops.bin"
    write_ops_bin(path, rows, OPERATIONS)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = byte
    path.write_bytes(content)
    try:
        table(path)
    except DataError as error:
        assert "ops.bin" in str(error)


@anything
@given(content=st.binary(max_size=300))
def test_any_bytes_after_the_magic_are_refused_in_order(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ops.bin"
    path.write_bytes(b"STRATAOP" + content)
    with pytest.raises(DataError):
        table(path)


SLOT = bytes(8) + b"\x01" + b"\x01\0\0" + bytes(4)  # of the one record below


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"STRATAOP", b"STRATAIO", "no operation log"),
        (b"STRATAOP\x02", b"STRATAOP\x01", "version 1"),
        (b'"record_bytes": 16', b'"record_bytes": 32', "records of 32 bytes"),
        (b'"READ", "UPDATE"', b'"READ"          ', "op code"),
        (b'"OK", "NOT_FOUND"', b'1234, "NOT_FOUND"', "wrong type"),
        (SLOT, SLOT + SLOT.replace(b"\x01", b"\xff", 1), "second slot"),
        (SLOT, SLOT[:9] + b"\xff\xff\xff" + SLOT[12:] + SLOT, "second slot"),
        (SLOT, SLOT.replace(b"\x01", b"\xff", 1), "second slot"),
    ],
)
def test_the_error_says_what_is_wrong(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    path = tmp_path / "ops.bin"
    row = {
        "start": T0 + 5 * SECOND,
        "latency_ns": 1,
        "delay_ns": -1,
        "key_hash": 0,
        "thread": 0,
        "op": "UPDATE",
        "status": "OK",
    }
    write_ops_bin(path, [row], OPERATIONS)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match=message):
        table(path)
