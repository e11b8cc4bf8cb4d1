"""Which steps of a scaling experiment are still to be done, and its last screen; runs and numbers are made up."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from controller import screens
from controller.errors import ConfigError, RunError
from controller.inventory import Inventory
from controller.results import schema
from controller.results.scaling import PhaseMeasurement, analyse, write_tables
from controller.results.store import RunStore
from controller.scaling import Series, SeriesVerdict, series_folder


def series(folder: Path, repeat: int) -> Series:
    return Series({}, repeat, "name: x\n", Inventory(Path("x"), ()), folder / "state", folder)


def run_of(folder: Path, servers: int, status: str, *, report: bool = True) -> None:
    store = RunStore.create(folder, f"servers-{servers}")
    if report:
        (store.path / schema.REPORT).write_text("x")
    store.write_manifest({"status": status})
    store.record_files()


def test_only_complete_runs_of_a_size_are_not_repeated(tmp_path: Path) -> None:
    for status in ("complete", "partial", "failed"):
        run_of(tmp_path, 1, status)
    run_of(tmp_path, 2, "complete")
    run_of(tmp_path, 2, "complete", report=False)  # killed while it was drawn
    run_of(tmp_path, 12, "complete")
    asked = series(tmp_path, 3)
    assert {n: asked.missing(n) for n in (1, 2, 3, 12)} == {1: 2, 2: 2, 3: 3, 12: 2}
    assert series(tmp_path, 1).missing(1) == 0


def test_a_series_goes_on_only_with_what_it_began_with(tmp_path: Path) -> None:
    folder = series_folder(tmp_path, "x", "name: x\n", None)
    assert series_folder(tmp_path, "x", "name: x\n", folder) == folder.resolve()
    assert series_folder(tmp_path, "x", "name: x\n", tmp_path / "x" / "latest") == folder.resolve()
    with pytest.raises(ConfigError, match="another experiment or other settings"):
        series_folder(tmp_path, "x", "name: x\nseed: 2\n", folder)
    with pytest.raises(ConfigError, match="no scaling experiment"):
        series_folder(tmp_path, "x", "name: x\n", tmp_path)


def test_the_last_screen(tmp_path: Path) -> None:
    ones = [
        PhaseMeasurement(n, f"{n}{i}", "w-run", 100.0 * n - i, 1.0, {("node1", "device"): 3.0, ("node2", "block"): 1.0})
        for n in (1, 2, 4)
        for i in range(2)
    ]
    outcome = analyse(ones)
    write_tables(outcome, tmp_path)
    verdict = SeriesVerdict(tmp_path, outcome, RunError("why"))
    assert verdict.exit_code == 4
    text = screens.scaling(verdict, "table")
    for words in (
        "w-run",
        "ops/s",
        "speed-up",
        "efficiency",
        "node1 device 75%",
        "w-run: lambda",
        "kappa",
        str(tmp_path),
    ):
        assert words in text
    found = list(csv.DictReader(io.StringIO(screens.scaling(verdict, "csv"))))
    assert found == json.loads(screens.scaling(verdict, "json"))["scaling"]
    assert [row["servers"] for row in found] == ["1", "2", "4"]
    assert "no run is complete" in screens.scaling(SeriesVerdict(tmp_path / "none", analyse([]), None), "table")
