"""Decodes the tracer's file of block I/O records into Arrow, Parquet or CSV.

    python -m tracer.decode FILE... [--csv OUT] [--parquet OUT] [--node NAME] [--rules FILE]
                            [--start-unix-ns NS] [--offset-ns NS]

The records are decoded in blocks of columns, never one by one: a block fits the CPU's cache, and a file may be
larger than memory. Several files are the older ones of a rotated output, oldest first.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from tracer.components import DEFAULT_RULES, MODES, ORIGINS, Codes, Components, RulesError, read_rules
from tracer.returns import Returns
from tracer.tracefile import (
    BLOCK_SLOTS,
    DURATION_EMPTY,
    DURATIONS,
    MOST_NS,
    NO_SECTOR,
    NO_TEXT,
    Definitions,
    Numbers,
    Places,
    Slots,
    TraceFile,
    TraceFileError,
    named_twice,
    read_header,
    status_path,
)

EXIT_USAGE = 2
EXIT_OUTPUT = 4
EXIT_UNREADABLE = 5

LAYERS = ("vfs_ns", "block_ns", "driver_ns", "device_ns")
TRACING_MODES = ("block", "irq", "nvme", "scsi", "fentry", "kprobe")
FLAG_SYNC = 1
#: blk_status_t without `BLK_STS_`, by number; those behind have other numbers on some kernels, and no names here.
#: Before 5.16 the kernel tells that a request failed, not why: `ioerr`.
_NAMED_ERRORS = (
    "notsupp", "timeout", "nospc", "transport", "target", "resv_conflict", "medium", "protection", "resource", "ioerr",
    "dm_requeue", "again", "dev_resource",
)  # fmt: skip
ERRORS = ("none", *_NAMED_ERRORS, *(f"blk_status_{number}" for number in range(len(_NAMED_ERRORS) + 1, 256)))

STDOUT = Path("/dev/stdout")

TEXT = pa.dictionary(pa.int32(), pa.string())

# The rows of docs/results-format.md. Text is dictionary-encoded: a few values in millions of rows.
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
    "return_ns": pa.int64(),
    "origin": TEXT,
    "pid": pa.int64(),
    "comm": TEXT,
    "cgroup_id": pa.uint64(),
    "inode": pa.uint64(),
    "path": TEXT,
    "component": TEXT,
    "tracing_mode": TEXT,
    "error": TEXT,
}
SCHEMA = pa.schema(list(IO_COLUMNS.items()))


def read_batches(
    path: Path, *, node: str = "", start_unix_ns: int | None = None, offset_ns: int = 0, rules: Path = DEFAULT_RULES
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the file in blocks; see read_table."""
    trace = TraceFile(path)
    decoder = Decoder(trace, node=node, start_unix_ns=start_unix_ns, offset_ns=offset_ns, rules=rules)
    for block, definitions in trace.requests():
        yield decoder.batch(block, definitions)


def read_table(
    path: Path, *, node: str = "", start_unix_ns: int | None = None, offset_ns: int = 0, rules: Path = DEFAULT_RULES
) -> pa.Table:
    """Returns one row per request, columns as IO_COLUMNS.

    `offset_ns` is added to all unix times: what the node's clock lacks to the reference clock.
    `t_us` counts from `start_unix_ns` (default: the instant the trace was switched on).
    Raises TraceFileError for a file that cannot be read, RulesError for rules that cannot.
    """
    batches = read_batches(path, node=node, start_unix_ns=start_unix_ns, offset_ns=offset_ns, rules=rules)
    return pa.Table.from_batches(list(batches), SCHEMA)


class Decoder:
    """From blocks of records to batches of rows."""

    def __init__(self, trace: TraceFile, *, node: str, start_unix_ns: int | None, offset_ns: int, rules: Path) -> None:
        self._path = trace.path
        self._node = node
        self._shift = trace.header.shift_ns + offset_ns
        self._start = trace.header.started_unix_ns + offset_ns if start_unix_ns is None else start_unix_ns
        self._components = Components(read_rules(rules))
        self._returns = Returns(trace.returns(), trace.slot_count)
        self._arrays: dict[str, pa.Array] = {}

    def batch(self, block: Slots, definitions: Definitions) -> pa.RecordBatch:
        rows = len(block)
        task = self._places("task", block["task"], definitions.tasks)
        file = self._places("file", block["file"], definitions.files)
        device = self._places("device", block["device"], definitions.devices)
        comm, path = definitions.task_comm.values[task], definitions.file_path.values[file]
        t_unix_ns = block["start_ns"] + self._shift
        durations, total, seen = _durations(block)
        return_ns, returned = self._returns.after(block, total)
        no_task, inode = block["task"] == 0, definitions.file_inode.values[file]
        component = self._components.codes(definitions, comm, path, block)
        columns = {
            "t_us": pa.array((t_unix_ns - self._start) / 1000.0),
            "t_unix_ns": pa.array(t_unix_ns),
            "node": _constant(self._node or None, rows),
            "device": self._texts("device", definitions.device_name.values[device], definitions.device_names.list),
            "sector": pa.array(block["sector"], mask=block["sector"] == NO_SECTOR),
            "mode": self._texts("mode", _known(block["mode"], len(MODES)), MODES),
            "sync": pa.array((block["flags"] & FLAG_SYNC) != 0),
            "size_bytes": pa.array(block["size_bytes"].astype(np.int64)),
            "total_ns": pa.array(total, mask=~seen),
            **durations,
            "return_ns": pa.array(return_ns, mask=~returned),
            "origin": self._texts("origin", _known(block["origin"], len(ORIGINS)), ORIGINS),
            "pid": pa.array(definitions.task_pid.values[task], mask=no_task),
            "comm": self._texts("comm", comm, definitions.comms.list),
            "cgroup_id": pa.array(definitions.task_cgroup.values[task], mask=no_task),
            "inode": pa.array(inode, mask=inode == 0),
            "path": self._texts("path", path, definitions.paths.list),
            "component": self._texts("component", component, self._components.names),
            "tracing_mode": self._texts("tracing", _known(block["tracing"], len(TRACING_MODES)), TRACING_MODES),
            "error": self._texts("error", np.where(block["status"], block["status"], np.int32(NO_TEXT)), ERRORS),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in IO_COLUMNS], schema=SCHEMA)

    def _places(self, name: str, numbers: np.ndarray[Any, Any], defined: Numbers) -> Places:
        places = defined.places(numbers)
        if not places.all():
            missing = numbers[places == 0][0]
            raise TraceFileError(f"{self._path}: damaged: a record refers to {name} {missing}, which is not defined")
        return places

    def _texts(self, name: str, codes: Codes, texts: Sequence[str]) -> pa.DictionaryArray:
        """Codes into `texts`, which only ever grow; NO_TEXT has no value."""
        empty = codes == NO_TEXT
        if len(texts) > BLOCK_SLOTS:
            # Only those of this block: all of them in each block would be the square of their number in the end.
            used, places = np.unique(codes, return_inverse=True)
            codes = places.astype(np.int32)
            array = pa.array([None if code == NO_TEXT else texts[code] for code in used.tolist()], pa.string())
        else:
            array = self._arrays.get(name)
            if array is None or len(array) != len(texts):
                array = self._arrays[name] = pa.array(texts, pa.string())
        indices = pa.array(codes.astype(np.int32, copy=False), mask=empty if empty.any() else None)
        return pa.DictionaryArray.from_arrays(indices, array, safe=False)


def _durations(block: Slots) -> tuple[dict[str, pa.Array], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The layers as columns, their sum, and where there is one at all."""
    total = np.zeros(len(block), np.int64)
    any_seen = np.zeros(len(block), np.bool_)
    columns = {}
    low, high = block["low"], block["high"]
    for name in LAYERS:
        place = DURATIONS.index(name)
        layer = low[:, place].astype(np.int64) | high[:, place].astype(np.int64) << 32
        seen = layer != DURATION_EMPTY
        columns[name] = pa.array(layer, mask=~seen)
        total += np.where(seen, layer, 0)
        any_seen |= seen
    return columns, total, any_seen


def _known(codes: np.ndarray[Any, Any], count: int) -> Codes:
    """A code that this version does not know has no value."""
    return np.where(codes < count, codes.astype(np.int32), np.int32(NO_TEXT))


def _constant(value: str | None, rows: int) -> pa.DictionaryArray:
    if value is None:
        return pa.nulls(rows, TEXT)
    indices = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries, which the CSV writer does not take."""
    columns = [column.cast(pa.string()) if column.type == TEXT else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


PLAIN_SCHEMA = pa.schema([(name, pa.string() if kind == TEXT else kind) for name, kind in IO_COLUMNS.items()])


def write(batches: Iterator[pa.RecordBatch], csv: Path | None, parquet: Path | None) -> int:
    """Writes the rows to the files that are asked for, in one pass; returns how many there were.

    What fails before the first rows are there leaves these files as they were.
    """
    first = list(itertools.islice(batches, 1))
    rows = 0
    with contextlib.ExitStack() as stack:
        opened = [_opened(stack, path) if path else None for path in (csv, parquet)]
        for path, file in zip((csv, parquet), opened, strict=True):
            if file and path != STDOUT and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate()
        csv_file, parquet_file = opened
        writers: list[tuple[Path, Callable[[pa.RecordBatch], None]]] = []
        if csv and csv_file:
            csv_writer = stack.enter_context(pa_csv.CSVWriter(csv_file, PLAIN_SCHEMA))
            writers.append((csv, lambda batch: csv_writer.write_batch(plain(batch))))
        if parquet and parquet_file:
            parquet_writer = stack.enter_context(pa_parquet.ParquetWriter(parquet_file, SCHEMA, compression="zstd"))
            writers.append((parquet, parquet_writer.write_batch))
        for batch in itertools.chain(first, batches):
            rows += batch.num_rows
            for path, write_batch in writers:
                with _named(path):
                    write_batch(batch)
    return rows


def _opened(stack: contextlib.ExitStack, path: Path) -> BinaryIO:
    """What fails while it is closed, too, says which file it was."""
    stack.enter_context(_named(path))
    return stack.enter_context(_untouched(path))


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Arrow does not say which file could not be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None


def _untouched(path: Path) -> BinaryIO:
    """Opens it for writing, with what is in it."""
    if path == STDOUT:  # which may be a file, and have lines of others
        return os.fdopen(os.dup(1), "wb")
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tracer.decode", description="Decodes a trace of block I/O.")
    parser.add_argument("files", type=Path, metavar="FILE", nargs="+", help="of a rotated output the oldest one first")
    parser.add_argument("--csv", type=_output, metavar="OUT", help="a row for each request; - is standard output")
    parser.add_argument("--parquet", type=_output, metavar="OUT", help="the same rows")
    parser.add_argument("--node", type=_name, default="", metavar="NAME", help="value of the column node")
    parser.add_argument(
        "--rules", type=Path, default=DEFAULT_RULES, metavar="FILE", help="paths to components (default: %(default)s)"
    )
    parser.add_argument("--start-unix-ns", type=_nanoseconds, metavar="NS", help="zero of t_us (default: trace start)")
    parser.add_argument("--offset-ns", type=_nanoseconds, default=0, metavar="NS", help="added to all unix times")
    return parser


def _output(value: str) -> Path:
    return STDOUT if value == "-" else Path(value)


def _name(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{value!r} is not UTF-8") from None
    return value


def _nanoseconds(value: str) -> int:
    number = int(value)
    if abs(number) >= MOST_NS:
        raise argparse.ArgumentTypeError(f"{value} is too far away")
    return number


def _overwritten(options: argparse.Namespace) -> str | None:
    """What is wrong when an output is one of the files that are read, or both outputs are one file."""
    outputs = [path for path in (options.csv, options.parquet) if path]
    for output, file in itertools.product(outputs, options.files):
        for status in (status_path(file), file.with_name(f"{file.name}.json")):
            if output.resolve() == status.resolve() or _are_one_file((output, status)):
                return f"{output} is the place of the status of {file}"
    for output, other in itertools.product(outputs, (*options.files, options.rules)):
        if output.exists() and other.exists() and output.samefile(other):
            return f"{output} is {other}, which is read"
    if len({output.resolve() for output in outputs}) < len(outputs) or _are_one_file(outputs):
        return f"--csv and --parquet are both {options.csv}"
    return None


def _are_one_file(paths: Sequence[Path]) -> bool:
    """Also by names that differ (hard links)."""
    return len(paths) > 1 and all(path.exists() for path in paths) and paths[0].samefile(paths[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if twice := named_twice(options.files):
            parser.error(f"{twice} is named twice")
        if wrong := _overwritten(options):
            parser.error(wrong)
        for file in options.files:
            read_header(file)
        batches = itertools.chain.from_iterable(
            read_batches(
                file,
                node=options.node,
                start_unix_ns=options.start_unix_ns,
                offset_ns=options.offset_ns,
                rules=options.rules,
            )
            for file in options.files
        )
        rows = write(batches, options.csv, options.parquet)
    except (TraceFileError, RulesError, OSError) as error:
        return failed("tracer.decode", error, options)
    print(f"{rows} records", file=sys.stderr)  # stdout may be where the rows go
    return 0


def failed(program: str, error: TraceFileError | RulesError | OSError, options: argparse.Namespace) -> int:
    """Tells of it on stderr; returns the exit code. `options`: `files` that were read, and `rules`."""
    print(f"{program}: {error}", file=sys.stderr)
    if isinstance(error, RulesError):
        return EXIT_USAGE
    if isinstance(error, TraceFileError):
        return EXIT_UNREADABLE
    if str(error.filename) == str(options.rules):
        return EXIT_USAGE
    return EXIT_UNREADABLE if str(error.filename) in map(str, options.files) else EXIT_OUTPUT


def end_quietly() -> None:
    """By `| head` and Ctrl-C, as others do."""
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    end_quietly()
    sys.exit(main())
