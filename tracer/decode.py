"""Decodes the tracer's file of block I/O records into Arrow, Parquet or CSV.

    python -m tracer.decode FILE [--csv OUT] [--parquet OUT] [--node NAME]
                            [--start-unix-ns NS] [--offset-ns NS]

The records are laid out in tracer/bpf/iotrace.h. They are decoded in blocks of columns, never one by one:
a block fits the CPU's cache, and a file may be larger than memory.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

EXIT_USAGE = 2
EXIT_OUTPUT = 4
EXIT_UNREADABLE = 5

MAGIC = b"STRATAIO"
VERSION = 1
PREAMBLE = struct.Struct("<8sII")
HEADER_ALIGNMENT = 64
BLOCK_RECORDS = 1 << 14

RECORD = np.dtype(
    [
        ("start_ns", "<i8"),
        ("vfs_ns", "<i8"),
        ("block_ns", "<i8"),
        ("driver_ns", "<i8"),
        ("device_ns", "<i8"),
        ("scheduler_ns", "<i8"),
        ("sector", "<i8"),
        ("cgroup_id", "<i8"),
        ("inode", "<i8"),
        ("size_bytes", "<u4"),
        ("device", "<u4"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("comm", "V16"),
        ("mode", "u1"),
        ("origin", "u1"),
        ("flags", "u1"),
        ("status", "u1"),
        ("bios", "<u2"),
        ("requeues", "<u2"),
    ]
)
LAYERS = ("vfs_ns", "block_ns", "driver_ns", "device_ns")
MODES = ("R", "W", "D", "F")
ORIGINS = ("other", "syscall", "writeback", "journal", "io_uring")
FLAG_SYNC = 1
FLAG_OWNED = 2

TEXT = pa.dictionary(pa.int32(), pa.string())

# The io rows of docs/architecture.md. Text is dictionary-encoded: a few values in millions of rows.
IO_COLUMNS: dict[str, pa.DataType] = {
    "t_us": pa.float64(),
    "t_unix_ns": pa.int64(),
    "node": TEXT,
    "device": TEXT,
    "sector": pa.int64(),
    "mode": TEXT,
    "sync": pa.bool_(),
    "size_bytes": pa.int64(),
    "total_ns": pa.int64(),
    "vfs_ns": pa.int64(),
    "block_ns": pa.int64(),
    "driver_ns": pa.int64(),
    "device_ns": pa.int64(),
    "origin": TEXT,
    "pid": pa.int64(),
    "comm": TEXT,
    "cgroup_id": pa.int64(),
    "inode": pa.int64(),
    "path": TEXT,
    "component": TEXT,
    "tracing_mode": TEXT,
}
SCHEMA = pa.schema(list(IO_COLUMNS.items()))


class TraceFileError(ValueError):
    """The file is no trace, is of another version, or ends within its header."""


@dataclass(frozen=True)
class Header:
    """What stands before the records."""

    header_bytes: int
    anchor_unix_ns: int
    anchor_mono_ns: int
    started_mono_ns: int
    tracing_mode: str
    devices: dict[str, str]

    @property
    def started_unix_ns(self) -> int:
        return self.started_mono_ns - self.anchor_mono_ns + self.anchor_unix_ns


def read_header(path: Path) -> Header:
    """Reads and checks the header; raises TraceFileError with the reason in one line."""
    with path.open("rb") as file:
        preamble = file.read(PREAMBLE.size)
        if preamble[: len(MAGIC)] != MAGIC[: len(preamble)] or not preamble:
            raise TraceFileError(f"{path}: not a trace of block I/O (magic {preamble[:8]!r})")
        if len(preamble) < PREAMBLE.size:
            raise TraceFileError(f"{path}: ends within its header")
        _, version, header_bytes = PREAMBLE.unpack(preamble)
        if version != VERSION:
            raise TraceFileError(f"{path}: version {version}, this decoder reads version {VERSION}")
        if header_bytes % HEADER_ALIGNMENT or header_bytes <= PREAMBLE.size:
            raise TraceFileError(f"{path}: header of {header_bytes} bytes, no multiple of {HEADER_ALIGNMENT}")
        text = file.read(header_bytes - PREAMBLE.size)
    if len(text) < header_bytes - PREAMBLE.size:
        raise TraceFileError(f"{path}: ends within its header")
    return _parse_header(path, header_bytes, text)


def _parse_header(path: Path, header_bytes: int, text: bytes) -> Header:
    try:
        content = json.loads(text.decode("utf-8"))
        header = Header(
            header_bytes=header_bytes,
            anchor_unix_ns=_whole(content["anchor_unix_ns"]),
            anchor_mono_ns=_whole(content["anchor_mono_ns"]),
            started_mono_ns=_whole(content["started_mono_ns"]),
            tracing_mode=str(content["tracing_mode"]),
            devices={str(number): str(name) for number, name in content["devices"].items()},
        )
        record_bytes = _whole(content["record_bytes"])
    except KeyError as error:
        raise TraceFileError(f"{path}: header without {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TraceFileError(f"{path}: header is not the expected JSON: {error}") from None
    if record_bytes != RECORD.itemsize:
        raise TraceFileError(f"{path}: records of {record_bytes} bytes, this decoder reads {RECORD.itemsize}")
    return header


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError(f"{value!r} is not a 64-bit number")
    return value


def read_records(path: Path, header: Header) -> np.ndarray[Any, np.dtype[np.void]]:
    """The raw records, mapped from the file; a last partial one is ignored."""
    count = max(0, path.stat().st_size - header.header_bytes) // RECORD.itemsize
    if count == 0:
        return np.empty(0, RECORD)
    return np.asarray(np.memmap(path, RECORD, "r", header.header_bytes, (count,)))


def read_batches(
    path: Path, *, node: str = "", start_unix_ns: int | None = None, offset_ns: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the file in blocks; see read_table."""
    header = read_header(path)
    records = read_records(path, header)
    start = header.started_unix_ns + offset_ns if start_unix_ns is None else start_unix_ns
    shift = header.anchor_unix_ns - header.anchor_mono_ns + offset_ns
    for first in range(0, len(records), BLOCK_RECORDS):
        yield _decode(records[first : first + BLOCK_RECORDS], header, node, shift, start)


def read_table(path: Path, *, node: str = "", start_unix_ns: int | None = None, offset_ns: int = 0) -> pa.Table:
    """Returns one row per request, columns as IO_COLUMNS.

    `offset_ns` is added to all unix times: what the node's clock lacks to the reference clock.
    `t_us` counts from `start_unix_ns` (default: the instant the trace was switched on).
    """
    batches = read_batches(path, node=node, start_unix_ns=start_unix_ns, offset_ns=offset_ns)
    return pa.Table.from_batches(list(batches), SCHEMA)


def _decode(
    block: np.ndarray[Any, np.dtype[np.void]], header: Header, node: str, shift: int, start: int
) -> pa.RecordBatch:
    rows = len(block)
    t_unix_ns = block["start_ns"] + shift
    owned = (block["flags"] & FLAG_OWNED) != 0
    layers = {name: block[name] for name in LAYERS}
    total = np.zeros(rows, np.int64)
    seen = np.zeros(rows, np.bool_)
    for layer in layers.values():
        total += np.maximum(layer, 0)
        seen |= layer >= 0
    inode = block["inode"]
    columns = {
        "t_us": pa.array((t_unix_ns - start) / 1000.0),
        "t_unix_ns": pa.array(t_unix_ns),
        "node": _constant(node or None, rows),
        "device": _encode(block["device"], lambda number: _device_name(number, header)),
        "sector": pa.array(block["sector"]),
        "mode": _coded(block["mode"], MODES),
        "sync": pa.array((block["flags"] & FLAG_SYNC) != 0),
        "size_bytes": pa.array(block["size_bytes"].astype(np.int64)),
        "total_ns": pa.array(total, mask=~seen),
        **{name: pa.array(layer, mask=layer < 0) for name, layer in layers.items()},
        "origin": _coded(block["origin"], ORIGINS),
        "pid": pa.array(block["pid"].astype(np.int64), mask=~owned),
        "comm": _encode_comm(block["comm"], owned),
        "cgroup_id": pa.array(block["cgroup_id"], mask=~owned),
        "inode": pa.array(inode, mask=inode == 0),
        "path": _constant(None, rows),
        "component": _constant(None, rows),
        "tracing_mode": _constant(header.tracing_mode, rows),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in IO_COLUMNS], schema=SCHEMA)


def _constant(value: str | None, rows: int) -> pa.DictionaryArray:
    if value is None:
        return pa.nulls(rows, TEXT)
    indices = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def _coded(codes: np.ndarray[Any, Any], names: Sequence[str]) -> pa.DictionaryArray:
    """Codes with fixed names; a code that this version does not know has no value."""
    indices = pa.array(codes.astype(np.int32), mask=codes >= len(names))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _encode(values: np.ndarray[Any, Any], name: Callable[[int], str]) -> pa.DictionaryArray:
    encoded = pa.array(values).dictionary_encode()
    names = [name(value) for value in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string()))


def _encode_comm(comm: np.ndarray[Any, Any], owned: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    raw = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(comm), [None, pa.py_buffer(np.ascontiguousarray(comm))]
    )
    encoded = raw.dictionary_encode()
    names = [value.split(b"\0", 1)[0].decode("utf-8", "replace") for value in encoded.dictionary.to_pylist()]
    indices = pa.array(encoded.indices.to_numpy(), mask=~owned)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _device_name(number: int, header: Header) -> str:
    numbers = f"{number >> 20}:{number & 0xFFFFF}"
    return header.devices.get(numbers, numbers)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries, which the CSV writer does not take."""
    columns = [column.cast(pa.string()) if column.type == TEXT else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


PLAIN_SCHEMA = pa.schema([(name, pa.string() if kind == TEXT else kind) for name, kind in IO_COLUMNS.items()])


def write(batches: Iterator[pa.RecordBatch], csv: Path | None, parquet: Path | None) -> int:
    """Writes the rows to the files that are asked for, in one pass; returns how many there were."""
    csv_writer = pa_csv.CSVWriter(csv, PLAIN_SCHEMA) if csv else None
    parquet_writer = pa_parquet.ParquetWriter(parquet, SCHEMA, compression="zstd") if parquet else None
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            if csv_writer:
                csv_writer.write_batch(_plain(batch))
            if parquet_writer:
                parquet_writer.write_batch(batch)
    finally:
        for writer in (csv_writer, parquet_writer):
            if writer:
                writer.close()
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tracer.decode", description="Decodes a trace of block I/O.")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--csv", type=Path, metavar="OUT")
    parser.add_argument("--parquet", type=Path, metavar="OUT")
    parser.add_argument("--node", default="", metavar="NAME", help="value of the column node")
    parser.add_argument("--start-unix-ns", type=int, metavar="NS", help="zero of t_us (default: trace start)")
    parser.add_argument("--offset-ns", type=int, default=0, metavar="NS", help="added to all unix times")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        batches = read_batches(
            options.file,
            node=options.node,
            start_unix_ns=options.start_unix_ns,
            offset_ns=options.offset_ns,
        )
        rows = write(batches, options.csv, options.parquet)
    except TraceFileError as error:
        print(f"tracer.decode: {error}", file=sys.stderr)
        return EXIT_UNREADABLE
    except OSError as error:
        print(f"tracer.decode: {error}", file=sys.stderr)
        return EXIT_UNREADABLE if str(error.filename) == str(options.file) else EXIT_OUTPUT
    print(f"{rows} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
