"""Operation logs (`ops.bin`): binary records of single operations, in one or two slots each -> one Arrow table.

The layout is in docs/interfaces.md. Records are one numpy array; no operation becomes a Python object.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from controller.errors import DataError
from controller.results.clock import NodeClock
from controller.results.schema import OPERATION_LOG

MAGIC = b"STRATAOP"
VERSION = 2
SLOT_BYTES = 16
RECORD = np.dtype(
    [
        ("start_mono_ns", "<i8"),
        ("latency_ns", "<i8"),
        ("intended_delay_ns", "<i8"),
        ("key_hash", "<u4"),
        ("thread", "<u2"),
        ("op", "u1"),
        ("status", "u1"),
    ]
)
_LOW_48 = np.uint64((1 << 48) - 1)
_CONTINUED = np.uint64((1 << 24) - 1)
_CONTINUATION = np.uint64(0xFF)
_FIXED = struct.Struct("<8sII")
_ARROW_TYPES = {"double": pa.float64(), "int64": pa.int64(), "string": pa.string()}
ARROW_SCHEMA = pa.schema([(column.name, _ARROW_TYPES[column.kind]) for column in OPERATION_LOG.columns])


@dataclass(frozen=True)
class OperationLog:
    """Header and records (of type RECORD) of one file. A last record that was cut off is not part of `records`."""

    header: dict[str, Any]
    records: NDArray[Any]
    path: Path


def read_operation_log(path: Path) -> OperationLog:
    """Read and check one `ops.bin`; anything that cannot be one is a DataError naming the file."""
    try:
        with path.open("rb") as file:
            header = _read_header(path, file)
            content = file.read()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    slots = np.frombuffer(content, "<u8", count=len(content) // SLOT_BYTES * 2).reshape(-1, 2)
    log = OperationLog(header, _records(path, slots, header["anchor_mono_ns"]), path)
    _check_codes(log)
    return log


def epoch_ns(path: Path) -> int | None:
    """Unix minus monotonic time of the process that wrote the log; None without a log that can be read."""
    try:
        with path.open("rb") as file:
            return _epoch_ns(_read_header(path, file))
    except (OSError, DataError):
        return None


def _epoch_ns(header: dict[str, Any]) -> int:
    return int(header["anchor_unix_ns"] - header["anchor_mono_ns"])


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    header_bytes = _check_fixed(path, file.read(_FIXED.size))
    return _check_header(path, file.read(header_bytes - _FIXED.size), header_bytes)


def _records(path: Path, slots: NDArray[np.uint64], anchor_mono_ns: int) -> NDArray[Any]:
    """Puts the two slots of long records together."""
    second = (slots[:, 1] & _CONTINUATION) == _CONTINUATION
    continued = ((slots[:, 1] >> np.uint64(8)) & _CONTINUED == _CONTINUED) & ~second
    if len(slots) and continued[-1]:  # cut off behind its first slot
        slots, second, continued = slots[:-1], second[:-1], continued[:-1]
    if len(slots) and (second[0] or not np.array_equal(continued[:-1], second[1:])):
        raise DataError(f"{path} is damaged: a record's second slot is missing, or belongs to none")
    first, rest = slots[~second], slots[second]
    long = continued[~second]
    records = np.empty(len(first), RECORD)
    since_anchor, latency = first[:, 0] & _LOW_48, (first[:, 1] >> np.uint64(8)) & _CONTINUED
    since_anchor[long] |= rest[:, 0] & ~_LOW_48
    latency[long] = rest[:, 0] & _LOW_48
    records["start_mono_ns"] = since_anchor.view(np.int64) + anchor_mono_ns
    records["latency_ns"] = latency
    records["intended_delay_ns"] = -1
    records["intended_delay_ns"][long] = rest[:, 1].view(np.int64) >> 8
    records["key_hash"] = first[:, 1] >> np.uint64(32)
    records["thread"] = first[:, 0] >> np.uint64(48)
    records["op"] = first[:, 1] & np.uint64(15)
    records["status"] = (first[:, 1] >> np.uint64(4)) & np.uint64(15)
    return records


def operation_table(log: OperationLog, *, client: str, phase: str, clock: NodeClock, start_unix_ns: int) -> pa.Table:
    """Rows of `ops.parquet`, times in the controller's clock; order as logged."""
    records = log.records
    epoch = _epoch_ns(log.header)
    t_unix_ns = clock.to_controller(records["start_mono_ns"] + epoch, epoch)
    delay, key_hash = records["intended_delay_ns"], records["key_hash"].astype(np.int64)
    rows = len(records)
    columns: dict[str, Any] = {
        "t_us": (t_unix_ns - start_unix_ns) / 1000.0,
        "t_unix_ns": t_unix_ns,
        "client": pa.repeat(client, rows),
        "phase": pa.repeat(phase, rows),
        "op": _named(log.header["operations"], records["op"]),
        "latency_ns": records["latency_ns"],
        "intended_latency_ns": pa.array(records["latency_ns"] + delay, mask=delay < 0),
        "status": _named(log.header["statuses"], records["status"]),
        "key_hash": pa.array(key_hash, mask=key_hash == 0),
        "thread": records["thread"].astype(np.int64),
    }
    return pa.table([pa.array(columns[name]) for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _named(names: list[str], codes: NDArray[np.uint8]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _check_fixed(path: Path, fixed: bytes) -> int:
    if len(fixed) < _FIXED.size or not fixed.startswith(MAGIC):
        raise DataError(f"{path} is no operation log (it does not begin with {MAGIC.decode()})")
    _, version, header_bytes = _FIXED.unpack(fixed)
    if version != VERSION:
        raise DataError(f"{path} has format version {version}, this program reads {VERSION}")
    if header_bytes < 64 or header_bytes % 64 or header_bytes > 1 << 20:
        raise DataError(f"{path} is damaged: its header cannot be {header_bytes} bytes long")
    return int(header_bytes)


def _check_header(path: Path, text: bytes, header_bytes: int) -> dict[str, Any]:
    if len(text) != header_bytes - _FIXED.size:
        raise DataError(f"{path} is cut off inside its header")
    try:
        header = json.loads(text.decode("utf-8"))
        numbers_ok = all(type(header[name]) is int for name in ("anchor_unix_ns", "anchor_mono_ns"))
        names_ok = all(
            isinstance(header[name], list) and all(isinstance(entry, str) for entry in header[name])
            for name in ("operations", "statuses")
        )
        record_bytes = header["record_bytes"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: its header is not what it should be ({error})") from error
    if (
        not numbers_ok
        or not names_ok
        or any(abs(header[name]) >= 1 << 62 for name in ("anchor_unix_ns", "anchor_mono_ns"))
    ):
        raise DataError(f"{path} is damaged: a member of its header has the wrong type")
    if record_bytes != SLOT_BYTES:
        raise DataError(f"{path} has records of {record_bytes!r} bytes, version {VERSION} has {SLOT_BYTES}")
    return dict(header)


def _check_codes(log: OperationLog) -> None:
    records = log.records
    for field, names in (("op", "operations"), ("status", "statuses")):
        if len(records) and int(records[field].max()) >= len(log.header[names]):
            raise DataError(f"{log.path} is damaged: a record's {field} code is not among its {names}")
    if (records["intended_delay_ns"] < -1).any():
        raise DataError(f"{log.path} is damaged: a record began before it was due")
