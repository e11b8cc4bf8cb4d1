"""summary.csv: one number per phase, operation and metric, in long form so that runs can be stacked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from controller.results import hdr, schema

_KINDS = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64()}
_SUMMARY_SCHEMA = pa.schema([(column.name, _KINDS[column.kind]) for column in schema.SUMMARY.columns])


def summary_table(
    statistics: pa.Table, io_totals: pa.Table, windows: dict[str, tuple[int, int]], run_id: str
) -> pa.Table:
    """Rows of summary.csv.

    `statistics`: merged histograms per phase, op and what (`operations.run_statistics`); `io_totals`: I/O per
    phase, node and mode (`block_io.io_totals`); `windows`: measured window of each phase.
    """
    facts: list[tuple[str, str, str, str, float | None]] = []
    for phase, operations in _per_operation(statistics, windows).items():
        facts += _phase_rows(phase, operations, windows.get(phase))
    facts += _io_rows(io_totals)
    rows = [
        # As a float, or Arrow would refuse whole numbers that a double cannot hold to the last digit.
        dict(zip(_SUMMARY_SCHEMA.names, (run_id, *fact[:-1], float(fact[-1]), None, None, 1), strict=True))
        for fact in facts
        if fact[-1] is not None
    ]
    return pa.Table.from_pylist(rows, schema=_SUMMARY_SCHEMA)


def _per_operation(
    statistics: pa.Table, windows: dict[str, tuple[int, int]]
) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """phase -> op -> what -> statistics, phases in the order in which they were measured."""
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
        phase: {} for phase in sorted(windows, key=lambda p: windows[p])
    }
    for row in sorted(statistics.to_pylist(), key=lambda row: (row["phase"], row["op"], row["what"])):
        found.setdefault(row["phase"], {}).setdefault(row["op"], {})[row["what"]] = row
    return found


def _phase_rows(
    phase: str, operations: dict[str, dict[str, dict[str, Any]]], window: tuple[int, int] | None
) -> list[tuple[str, str, str, str, float | None]]:
    seconds = (window[1] - window[0]) / 1e9 if window else None
    rows: list[tuple[str, str, str, str, float | None]] = []
    total_count = total_errors = 0
    for op, by_what in operations.items():
        ok, failed, intended = (by_what.get(what, {}) for what in (hdr.OK, hdr.FAILED, hdr.INTENDED))
        errors = failed.get("n", 0)
        count = ok.get("n", 0) + errors
        total_count, total_errors = total_count + count, total_errors + errors
        rows += _count_rows(phase, op, count, errors, seconds)
        rows += [
            (phase, op, f"{name}_us", "us", _micros(ok.get(f"{name}_ns")))
            for name in ("mean", *schema.QUANTILES, "max")
        ]
        rows += [
            (phase, op, f"intended_{name}_us", "us", _micros(intended.get(f"{name}_ns"))) for name in ("p50", "p99")
        ]
    everything = _count_rows(phase, schema.ALL_OPERATIONS, total_count, total_errors, seconds)
    return [*everything, (phase, schema.ALL_OPERATIONS, "runtime_s", "s", seconds), *rows]


def _count_rows(
    phase: str, op: str, count: int, errors: int, seconds: float | None
) -> list[tuple[str, str, str, str, float | None]]:
    throughput = round(count / seconds, 3) if seconds else None
    return [
        (phase, op, "count", "operations", count),
        (phase, op, "errors", "operations", errors),
        (phase, op, "throughput_ops_per_s", "operations/s", throughput),
    ]


def _io_rows(io_totals: pa.Table) -> list[tuple[str, str, str, str, float | None]]:
    times = [f"{layer}_{what}_ns" for layer in schema.TIMED for what in ("mean", "p99")]
    units = {"ios": "requests", "bytes": "bytes", **dict.fromkeys(times, "ns")}
    return [
        (row["phase"], f"io:{row['node']}:{row['mode']}", metric, unit, row[metric])
        for row in io_totals.to_pylist()
        for metric, unit in units.items()
    ]


def _micros(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1000, 3)
