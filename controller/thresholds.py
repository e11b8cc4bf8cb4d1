"""``--fail-on``: conditions on a run's summary that turn into exit code 1."""

from __future__ import annotations

import csv
import operator
import re
from dataclasses import dataclass

from controller.errors import ConfigError, DataError, ThresholdError
from controller.experiment import nearest
from controller.plan import Plan
from controller.results import schema
from controller.results.store import RunStore

_FORM = re.compile(
    r"(?:(?P<phase>[a-z0-9-]+)\.)?(?P<op>[a-z-]+)\.(?P<metric>[a-z0-9_]+)(?P<sign>[<>])(?P<value>\d+(?:\.\d+)?)"
)
#: Of operations (docs/metrics.md).
_METRICS = (
    *("count", "errors", "throughput_ops_per_s", "runtime_s", "mean_us"),
    *(f"{name}_us" for name in (*schema.QUANTILES, "max")),
    *("intended_p50_us", "intended_p99_us"),
)
_HOLDS = {"<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Threshold:
    """``phase`` is None for any phase; ``op`` and ``metric`` are names of summary.csv."""

    text: str
    phase: str | None
    op: str
    metric: str
    sign: str
    value: float


def parse_threshold(text: str) -> Threshold:
    """Parses ``[PHASE.]OP.METRIC>VALUE``. Raises ConfigError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigError(f"--fail-on {text!r}: expected [phase.]op.metric>value, e.g. content-run.read.p99_us>5000")
    return Threshold(text, match["phase"], match["op"].upper(), match["metric"], match["sign"], float(match["value"]))


def require_planned(threshold: Threshold, plan: Plan) -> None:
    """ConfigError for a bound that no run of the plan can be held against, before hours of measuring."""
    phases = {
        phase.name: {schema.ALL_OPERATIONS.upper(), *(op for shard in phase.shards for op in shard.planned)}
        for phase in plan.phases
        if threshold.phase in (None, phase.name)
    }
    where = f"--fail-on {threshold.text}"
    if threshold.metric not in _METRICS:
        raise ConfigError(f"{where}: no metric {threshold.metric!r}{nearest(threshold.metric, list(_METRICS))}")
    if threshold.phase is not None and not phases:
        known = [phase.name for phase in plan.phases]
        raise ConfigError(f"{where}: no phase {threshold.phase!r}{nearest(threshold.phase, known)}")
    planned = sorted(set().union(*phases.values()))
    if threshold.op not in planned:
        place = f"in {threshold.phase}" if threshold.phase else "in any phase"
        raise ConfigError(f"{where}: no operation {threshold.op} {place}{nearest(threshold.op, planned)}")


def check_thresholds(store: RunStore, thresholds: list[Threshold]) -> None:
    """Raises ThresholdError when one holds, DataError when one cannot be checked: a bound must not pass unseen.

    It is checked in each phase that has rows of the operation, so each of them needs the value.
    """
    if not thresholds:
        return
    with store.joined("summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    exceeded, unknown = [], []
    for threshold in thresholds:
        hits = [row for row in rows if _meant(threshold, row) and row["value"]]
        exceeded += [
            f"{row['phase']} {row['op']} {row['metric']} = {row['value']} {row['unit']} ({threshold.text})"
            for row in hits
            if _HOLDS[threshold.sign](float(row["value"]), threshold.value)
        ]
        phases = dict.fromkeys(row["phase"] for row in rows if _same_place(threshold, row))
        if not phases:
            unknown.append(f"--fail-on {threshold.text}: the run has no such value")
        unknown += [
            f"--fail-on {threshold.text}: phase {phase} has no such value of {threshold.op}"
            for phase in phases
            if phase not in {row["phase"] for row in hits}
        ]
    failed = [f"threshold exceeded: {'; '.join(exceeded)}"] if exceeded else []
    if unknown:
        hint = "see joined/summary.csv; PHASE.OP.METRIC bounds one phase only"
        raise DataError("; ".join([*unknown, *failed]), hint=hint)
    if failed:
        raise ThresholdError(*failed)


def _meant(threshold: Threshold, row: dict[str, str]) -> bool:
    return row["metric"] == threshold.metric and _same_place(threshold, row)


def _same_place(threshold: Threshold, row: dict[str, str]) -> bool:
    return row["op"].upper() == threshold.op and threshold.phase in (None, row["phase"])
