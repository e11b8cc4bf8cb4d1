"""The screens of a run, made from a SYNTHETIC results folder."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from controller import cli, screens
from controller.doctor import Finding, examine
from controller.errors import ConfigError, DataError, ThresholdError
from controller.results.store import RunStore
from controller.runner import Verdict
from controller.thresholds import check_thresholds, parse_threshold

SUMMARY = """run,phase,op,metric,unit,value,ci_low,ci_high,n
r,app-run,READ,count,operations,3000,,,1
r,app-run,READ,throughput_ops_per_s,operations/s,1234.5,,,1
r,app-run,READ,p99_us,us,8250,,,1
r,app-run,READ,intended_p99_us,us,,,,1
r,app-run,io:node1:W,ios,requests,77,,,1
"""


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    made = RunStore.create(tmp_path, "synthetic")
    made.joined("summary.csv").write_text(SUMMARY)
    tracing = {
        "node1": {"state": "traced", "completions": 10, "emitted": 9, "dropped": 1, "unseen": 2, "layers_missing": {}},
        "node2": {"state": "unavailable", "reason": "no [BTF] here"},
    }
    made.write_manifest({"experiment": "synthetic", "status": "partial", "reasons": ["why"], "tracing": tracing})
    return made


def test_a_summary_shows_units_reasons_and_what_is_missing(store: RunStore) -> None:
    text = screens.run(store, "table")
    for words in ("partial", "because why", "p99 (ms)", "8.25", "1,234", "ops/s", "no [BTF] here"):
        assert words in text
    assert "10 requests, 9 recorded, 1 lost, 2 more that no probe saw" in text
    assert "io:node1" not in text


def test_the_next_command_shows_this_run_wherever_its_results_lie(
    store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = (line for line in screens.verdict(Verdict(store, None), "table").splitlines() if line.startswith("next:"))
    command = line.removeprefix("next:").split(",")[0].split()
    assert cli.main(command[1:]) == 0
    assert f"run {store.run_id}" in capsys.readouterr().out


def test_a_summary_of_an_open_loop_shows_the_latency_from_the_schedule(store: RunStore) -> None:
    assert "schedule" not in screens.run(store, "table")
    path = store.joined("summary.csv")
    path.write_text(SUMMARY.replace("READ,intended_p99_us,us,,", "READ,intended_p99_us,us,912340,"))
    text = screens.run(store, "table")
    assert "p99 from schedule (ms)" in text and "912.34" in text


def test_programs_get_every_row(store: RunStore) -> None:
    assert screens.run(store, "csv") == SUMMARY.rstrip("\n")
    texts, typed = csv.DictReader(io.StringIO(SUMMARY)), json.loads(screens.run(store, "json"))["summary"]
    for row, found in zip(texts, typed, strict=True):
        assert found == {
            **{name: row[name] for name in ("run", "phase", "op", "metric", "unit")},
            **{name: float(row[name]) if row[name] else None for name in ("value", "ci_low", "ci_high")},
            "n": 1,
        }


def test_a_table_for_programs_has_its_header_also_without_rows(store: RunStore) -> None:
    store.joined("summary.csv").unlink()
    assert screens.run(store, "csv") == SUMMARY.splitlines()[0]
    assert screens.run_list([], "csv") == "run,experiment,status,tags"
    assert json.loads(screens.run(store, "json"))["summary"] == json.loads(screens.run_list([], "json")) == []


@pytest.mark.parametrize("name", ["latest", "synthetic/latest", "synthetic/{}", "{}"])
def test_a_run_is_found_where_the_results_lie(store: RunStore, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", name.format(store.run_id), "--output", str(store.path.parent.parent)]) == 0
    assert f"run {store.run_id}" in capsys.readouterr().out


def test_a_folder_without_runs_is_said_beside_the_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list", "--output", str(tmp_path), "--format", "json"]) == 0
    assert capsys.readouterr() == ("[]\n", f"strata: there is no run in {tmp_path}/\n")


@pytest.mark.parametrize("columns", [10, 40, 60, 80, 200])
def test_a_narrow_terminal_cuts_no_name_and_no_number(
    store: RunStore, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes it for a terminal
    monkeypatch.setenv("COLUMNS", str(columns))
    whole = "r,recommendation-load,READ-MODIFY-WRITE,{},,1234567.5,,,1\n"
    values = "".join(whole.format(metric) for metric in ("count", "mean_us", "p50_us", "p99_us", "intended_p99_us"))
    store.joined("summary.csv").write_text(SUMMARY + values)
    text = screens.run(store, "table")
    assert "\x1b" not in text and "\u2026" not in text
    (line,) = (line for line in text.splitlines() if "recommendation-load" in line)
    assert line.split() == ["recommendation-load", "READ-MODIFY-WRITE", "1,234,568", *["1,234.57"] * 4]
    for width in (len(line) for line in text.splitlines() if "p99" in line or "READ" in line):
        assert width <= max(columns, 102), "no wider than its cells"


def test_runs_are_listed_also_when_one_is_damaged(store: RunStore) -> None:
    (store.path / "manifest.json").write_text("{")
    assert "unreadable" in screens.run_list([store], "table")


def test_what_a_damaged_manifest_lacks_is_unknown_and_a_damaged_table_a_data_error(store: RunStore) -> None:
    (store.path / "manifest.json").write_text('{"schema_version": 1, "tracing": {"node1": {}}}')
    for text in (screens.run(store, "table"), screens.run_list([store], "table")):
        assert "synthetic" in text and "of unknown status" in text
    assert "node1: no layer is traced: no reason given" in screens.run(store, "table")
    store.joined("summary.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"summary\.csv cannot be read"):
        screens.run(store, "table")


def test_the_doctor_says_what_to_do() -> None:
    findings = [Finding("java", ok=False, needed=True, detail="not found", hint="install [it]")]
    assert "MISSING" in screens.doctor(findings)
    assert "install [it]" in screens.doctor(findings)


def test_what_a_program_says_of_itself_is_shown_without_its_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Maven does, terminal or not."""
    program = tmp_path / "mvn"
    program.write_text("#!/bin/sh\nprintf '\\033[1mApache Maven 3.8.7\\033[m\\nmore\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (found,) = (finding for finding in examine() if finding.name == "mvn")
    assert found.detail == "Apache Maven 3.8.7"


@pytest.mark.parametrize(
    "condition", ["read.p99_us>8000", "app-run.read.p99_us>8249", "read.throughput_ops_per_s<2000"]
)
def test_a_threshold_that_holds(store: RunStore, condition: str) -> None:
    with pytest.raises(ThresholdError, match="app-run READ"):
        check_thresholds(store, [parse_threshold(condition)])


def test_a_threshold_that_does_not_hold(store: RunStore) -> None:
    check_thresholds(store, [parse_threshold("read.p99_us>9000")])


@pytest.mark.parametrize("condition", ["all.throughput_ops_per_s<1001", "all.throughput_ops_per_s>999.5"])
def test_a_threshold_of_all_operations_together(store: RunStore, condition: str) -> None:
    """Which summary.csv does not write in capitals, as it does operations. A bound that is just met does not hold."""
    row = "r,app-run,all,throughput_ops_per_s,operations/s,1000,,,1\n"
    store.joined("summary.csv").write_text(SUMMARY + row)
    with pytest.raises(ThresholdError, match="app-run all throughput_ops_per_s = 1000 operations/s"):
        check_thresholds(store, [parse_threshold(condition)])
    check_thresholds(store, [parse_threshold(f"all.throughput_ops_per_s{sign}1000") for sign in "<>"])


@pytest.mark.parametrize("condition", ["update.p99_us>1", "load.read.p99_us>1", "read.intended_p99_us>1"])
def test_a_threshold_on_what_was_not_measured_is_an_error(store: RunStore, condition: str) -> None:
    with pytest.raises(DataError, match="no such value"):
        check_thresholds(store, [parse_threshold(condition)])


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("read.p99_us>9000", r"phase b-run has no such value of READ"),
        ("read.p99_us>8000", r"phase b-run has no such value of READ; threshold exceeded: app-run READ p99_us = 8250"),
        ("b-run.read.p99_us>9000", r"phase b-run has no such value of READ"),
    ],
)
def test_a_threshold_that_cannot_be_checked_in_one_of_the_phases_does_not_pass(
    store: RunStore, condition: str, words: str
) -> None:
    """No read of `b-run` succeeded; `load` has none at all."""
    failed = "r,b-run,READ,count,operations,5,,,1\nr,b-run,READ,errors,operations,5,,,1\n"
    store.joined("summary.csv").write_text(f"{SUMMARY}{failed}r,load,INSERT,p99_us,us,1,,,1\n")
    with pytest.raises(DataError, match=words):
        check_thresholds(store, [parse_threshold(condition)])
    check_thresholds(store, [parse_threshold("app-run.read.p99_us>9000"), parse_threshold("read.count>4000")])


@pytest.mark.parametrize("condition", ["read.p99_us", "p99>3", "read.p99_us>>3", "read.p99_us>x", "read.p99_us>1.2.3"])
def test_a_malformed_threshold(condition: str) -> None:
    with pytest.raises(ConfigError, match="--fail-on"):
        parse_threshold(condition)
