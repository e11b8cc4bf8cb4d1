"""The tracer's real binary format through the one place that decodes it."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller.errors import DataError
from controller.results import schema
from controller.results.clock import UNREAD, NodeClock
from controller.results.convert import read_io, write_csv
from controller.results.finish import finish
from controller.tests.synthetic import T0
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run
from tracer.decode import IO_COLUMNS
from tracer.tracefile import DURATIONS, RECORD, VERSION

PHASES = (Phase("r", "run", "w", 0.5, 1.5, {"READ": 20}, {"READ": 5.0}),)


def write_io_bin(path: Path, starts_ns: list[int], device: str = "loop1") -> None:
    """Made-up records whose monotonic time 0 is the run's start."""
    records = np.zeros(len(starts_ns), RECORD)
    records["start_ns"] = starts_ns
    records["low"], records["high"] = 2**32 - 1, 255  # not seen
    for layer, value in {"block_ns": 10, "driver_ns": 20, "device_ns": 300}.items():
        records["low"][:, DURATIONS.index(layer)] = value
        records["high"][:, DURATIONS.index(layer)] = 0
    records["size_bytes"], records["mode"] = 4096, 1
    definition = json.dumps({"device": 0, "major": 7, "minor": 1, "name": device}).encode()
    header = {
        "record_bytes": RECORD.itemsize,
        "anchor_unix_ns": T0,
        "anchor_mono_ns": 0,
        "started_mono_ns": 0,
        "devices": {"7:1": device},
    }
    text = json.dumps(header).encode()
    length = (16 + len(text) + 63) // 64 * 64
    start = b"STRATAIO" + struct.pack("<II", VERSION, length) + text.ljust(length - 16)
    path.write_bytes(start + definition.ljust(len(definition) // 64 * 64 + 63) + b"\n" + records.tobytes())


def test_the_io_rows_are_those_of_the_schema() -> None:
    assert list(IO_COLUMNS) == list(schema.IO_ROW_MEANINGS)


def test_io_times_follow_the_drift_of_the_nodes_clock(tmp_path: Path) -> None:
    path = tmp_path / "io.bin"
    write_io_bin(path, [0, 500, 1000])
    drifting = NodeClock(np.array([T0, T0 + 1000]), np.array([0, 1000]), np.array([100, 300]), 1)
    table = read_io(path, "node1", drifting, T0)
    assert table["t_unix_ns"].to_pylist() == [T0 - 100, T0 + 300, T0 + 700]
    assert table["t_us"].to_pylist() == [-0.1, 0.3, 0.7]
    assert table["total_ns"].to_pylist() == [330] * 3


def test_setting_the_nodes_unix_clock_moves_no_row(tmp_path: Path) -> None:
    """By 2 s, between the trace's beginning and the second reading."""
    path = tmp_path / "io.bin"
    write_io_bin(path, [0, 500, 1000])
    ahead = 2 * 10**9
    clock = NodeClock(np.array([T0, T0 + 1000 + ahead]), np.array([0, 1000]), np.array([0, ahead]), 1)
    assert read_io(path, "node1", clock, T0)["t_unix_ns"].to_pylist() == [T0, T0 + 500, T0 + 1000]


def test_raw_traces_become_parquet_and_csv_with_the_same_rows(tmp_path: Path) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store
    write_io_bin(store.node_dir("node1") / "io.bin", [10**9, 2 * 10**9])
    finish(store.path)
    table = pq.read_table(store.node_dir("node1") / "io.parquet")
    with (store.node_dir("node1") / "io.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert table.num_rows == len(rows) == 2
    assert list(rows[0]) == table.column_names == list(IO_COLUMNS)
    assert rows[0]["vfs_ns"] == rows[0]["path"] == "" and rows[0]["device"] == "loop1"
    assert int(rows[1]["t_unix_ns"]) == T0 + 2 * 10**9


@pytest.mark.parametrize("odd", ["a,b", 'a"b', "a\nb", "a\rb", "plain"])
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_come_back_from_a_csv_and_are_quoted_where_that_is_needed(
    tmp_path: Path, odd: str, kind: pa.DataType
) -> None:
    path = write_csv(pa.table({"name": pa.array(["x", None, odd]).cast(kind), "n": [1, None, 3]}), tmp_path / "t.csv")
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [["name", "n"], ["x", "1"], ["", ""], [odd, "3"]]
    assert ('"' in path.read_text()) == (odd != "plain")


def test_the_csv_can_be_switched_off(tmp_path: Path) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store
    write_io_bin(store.node_dir("node1") / "io.bin", [10**9])
    finish(store.path, io_csv=False)
    assert not (store.node_dir("node1") / "io.csv").exists()


@pytest.mark.parametrize("content", [b"", b"STRATAIO", b"STRATAIO" + b"\xff" * 100, b"STRATAOP" + b"\0" * 100])
def test_a_damaged_trace_is_a_data_error_of_its_node(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "io.bin"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_io(path, "node1", UNREAD, T0)
    assert caught.value.node == "node1"
