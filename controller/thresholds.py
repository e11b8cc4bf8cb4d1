"""``--fail-on``: conditions on a run's summary that turn into exit code 1."""

from __future__ import annotations

import csv
import operator
import re
from dataclasses import dataclass

from controller.errors import ConfigError, DataError, ThresholdError
from controller.results.store import RunStore

_FORM = re.compile(
    r"(?:(?P<phase>[a-z0-9-]+)\.)?(?P<op>[a-z-]+)\.(?P<metric>[a-z0-9_]+)(?P<sign>[<>])(?P<value>\d+(?:\.\d+)?)"
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
    same_metric = row["metric"] in (threshold.metric, f"latency_{threshold.metric}")
    return same_metric and _same_place(threshold, row)


def _same_place(threshold: Threshold, row: dict[str, str]) -> bool:
    return row["op"].upper() == threshold.op and threshold.phase in (None, row["phase"])
