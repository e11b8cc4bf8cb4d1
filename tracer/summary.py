"""What a trace of block I/O says, at a glance: the layers of each disk, whose requests took the time, the slowest ones.

    python -m tracer.summary FILE... [--by COLUMN[,COLUMN]]... [--top N] [--slowest N] [--rules FILE]
                             [--format table|json]

Several files are the older ones of a rotated output. Quantiles are less than 1/128 above the exact ones; all other
numbers are exact.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracer.components import DEFAULT_RULES, RulesError
from tracer.decode import (
    IO_COLUMNS,
    LAYERS,
    PLAIN_SCHEMA,
    Decoder,
    end_quietly,
    failed,
    plain,
)
from tracer.groups import Distribution, Group, Groups, Sums
from tracer.summary_text import SECOND, text
from tracer.tracefile import TraceFile, TraceFileError, named_twice, status_path

DISK = ("device", "mode")
TIMES = (*LAYERS, "total_ns", "return_ns")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
#: What requests may be grouped by, besides the second of the trace in which they began.
GROUPED_BY = [SECOND, *(name for name in IO_COLUMNS if name not in ("t_us", "t_unix_ns", "node", "sector", *TIMES))]


class Summary:
    """Adds up rows of tracer.decode; `by`: lists of columns, `slowest`: how many requests are told one by one."""

    def __init__(self, by: Sequence[Sequence[str]], slowest: int) -> None:
        self._disks = Groups(DISK)
        self._by = [Groups(keys) for keys in by]
        self._times = {name: Sums(DISK, name, (name,)) for name in TIMES}
        self._count = slowest
        self._slowest = PLAIN_SCHEMA.empty_table()

    def add(self, batch: pa.RecordBatch) -> None:
        second = pc.floor(pc.divide(batch["t_us"], 1e6)).cast(pa.int64())
        batch = batch.append_column(SECOND, second)
        for groups in (self._disks, *self._by):
            groups.add(batch)
        for sums in self._times.values():
            sums.add(batch)
        slowest = pa.Table.from_batches([plain(self._slowest_of(batch).select(PLAIN_SCHEMA.names))])
        self._slowest = self._slowest_of(pa.concat_tables([self._slowest, slowest]))

    def report(self) -> dict[str, Any]:
        """What --format json writes; docs/tracer.md tells what is in it."""
        times = {name: sums.distributions() for name, sums in self._times.items()}
        disks = [
            {
                **_group(DISK, group),
                "times": {name: _times(found[group.key]) for name, found in times.items() if group.key in found},
            }
            for group in self._disks.list()
        ]
        by = [{"by": groups.keys, "groups": [_group(groups.keys, g) for g in groups.list()]} for groups in self._by]
        return {"disks": disks, "by": by, "slowest": self._slowest.to_pylist()}

    def _slowest_of(self, rows: Any) -> Any:
        timed = rows.filter(rows["total_ns"].is_valid())
        count = min(self._count, timed.num_rows)
        return timed.take(pc.select_k_unstable(timed, count, [("total_ns", "descending")]))


def _group(keys: Sequence[str], group: Group) -> dict[str, Any]:
    return {
        **dict(zip(keys, group.key, strict=True)),
        "requests": group.requests,
        "bytes": group.size_bytes,
        "total": _times(group.total) if group.total else None,
        "sums_ns": group.sums_ns,
        "slow_sums_ns": group.slow_sums_ns,
    }


def _times(distribution: Distribution) -> dict[str, Any]:
    quantiles = {f"{name}_ns": distribution.quantile_ns(q) for name, q in QUANTILES.items()}
    return {"requests": distribution.count, "mean_ns": round(distribution.mean_ns, 1), **quantiles}


#: What is used of the tracer's own file.
STATUS = (
    "kernel",
    "state",
    "reason",
    "started_mono_ns",
    "stopped_mono_ns",
    "limits",
    "rotation",
    "devices",
    "emitted",
    "dropped",
)


def read_status(file: Path) -> dict[str, Any] | None:
    """What the tracer wrote beside its output; None where it is not there, as beside the older files of a rotation."""
    path = status_path(file)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        optional = {name: content.get(name) for name in ("vfs", "filters", "started_unix_ns")}
        return {**{name: content[name] for name in STATUS}, **optional}
    except FileNotFoundError:
        return None
    except KeyError as error:
        raise TraceFileError(f"{path}: without {error}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TraceFileError(f"{path}: not the tracer's: {error}") from None


def summarise(files: Sequence[Path], by: Sequence[Sequence[str]], slowest: int, rules: Path) -> dict[str, Any]:
    """One report of all the files. Raises TraceFileError, RulesError, OSError."""
    summary = Summary(by, slowest)
    told = []
    for file in files:
        rows, firsts, lasts = 0, [], []
        errors: Counter[str] = Counter()
        trace = TraceFile(file)
        decoder = Decoder(trace, node="", start_unix_ns=None, offset_ns=0, rules=rules)
        for block, definitions in trace.requests():
            batch = decoder.batch(block, definitions)
            summary.add(batch)
            rows += batch.num_rows
            failures = batch["error"].drop_null().value_counts().to_pylist()
            errors.update({one["values"]: one["counts"] for one in failures})
            firsts.append(pc.min(batch["t_unix_ns"]).as_py())
            lasts.append(pc.max(pc.add(batch["t_unix_ns"], batch["total_ns"].fill_null(0))).as_py())
        times = {"first_unix_ns": min(firsts, default=None), "last_unix_ns": max(lasts, default=None)}
        told.append({"file": str(file), "rows": rows, "errors": errors, **times, "status": read_status(file)})
    return {"schema_version": 1, "files": told, **summary.report()}


def _columns(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if name not in GROUPED_BY:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(GROUPED_BY)}")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{value!r} names a column twice")
    return names


def _count(value: str) -> int:
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of lines")
    return int(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tracer.summary", description="Summarises a trace of block I/O.")
    parser.add_argument("files", type=Path, metavar="FILE", nargs="+", help="several are the parts of a rotated output")
    parser.add_argument(
        "--by",
        type=_columns,
        action="append",
        metavar="COLUMN[,COLUMN]",
        help=f"whose requests took the time, by these (default: component, and comm; {', '.join(GROUPED_BY)})",
    )
    parser.add_argument("--top", type=_count, default=10, metavar="N", help="groups told (default: %(default)s)")
    parser.add_argument("--slowest", type=_count, default=5, metavar="N", help="single requests (default: %(default)s)")
    parser.add_argument(
        "--rules", type=Path, default=DEFAULT_RULES, metavar="FILE", help="paths to components (default: %(default)s)"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if twice := named_twice(options.files):
        parser.error(f"{twice} is named twice")
    try:
        report = summarise(options.files, options.by or [["component"], ["comm"]], options.slowest, options.rules)
        print(json.dumps(report) if options.format == "json" else text(report, options.top), flush=True)
    except (TraceFileError, RulesError, OSError) as error:
        return failed("tracer.summary", error, options)
    return 0


if __name__ == "__main__":
    end_quietly()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an encoding without some of the characters
    code = main()
    if code:
        # What had no room is still buffered: at its end Python would write it once more, complain, and exit with 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
