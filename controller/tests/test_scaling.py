"""Which steps of a scaling experiment are still to be done, and its last screen; runs and numbers are made up."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller import cli, deploy, scaling, screens
from controller.errors import ConfigError, DataError, DeployError, InterruptedRunError, RunError
from controller.guard import guarded
from controller.inventory import Inventory
from controller.plan import Plan
from controller.progress import Progress
from controller.results import schema
from controller.results.scaling import PhaseLoad, PhaseMeasurement, analyse, write_tables
from controller.results.store import MANIFEST, RunStore, runs
from controller.runner import RunRequest, Verdict
from controller.scaling import Series, SeriesVerdict, recover_series, run_series, series_folder


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


def begun(request: RunRequest) -> RunStore:
    """A run that has not ended; its plan says only how many servers it has."""
    store = RunStore.create(request.output, str(request.group))
    nodes = [{"name": f"node{i}", "roles": ["database"]} for i in range(int(request.tags["servers"]))]
    (store.path / "plan.json").write_text(json.dumps({"schema_version": 1, "nodes": nodes}))
    store.write_manifest({"status": "failed"})
    return store


def ended(store: RunStore, status: str, error: RunError | InterruptedRunError | None) -> Verdict:
    (store.path / schema.REPORT).write_text("x")
    store.update_manifest(status=status)
    store.record_files()
    return Verdict(store, error)


def code_of(series: Series) -> int:
    """Exit code of the series under its guard, in a process of its own: the guard takes signals over."""
    progress = Progress()

    def guard() -> None:
        os._exit(
            guarded(
                lambda announce: run_series(series, progress, announce).exit_code,
                lambda last, why: recover_series(series, last, why, progress).exit_code,
            )
        )

    process = multiprocessing.get_context("fork").Process(target=guard)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, 4)])
def test_a_series_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """Guard, signals and files are real; what runs measure is not there. Killed in the second run on two servers."""

    def run(request: RunRequest, _: Progress, announce: Callable[[Path], None]) -> Verdict:
        store = begun(request)
        announce(store.path)
        if request.group == "servers-2" and len(runs(tmp_path)) == 4:
            try:
                os.kill(os.getppid() if number == signal.SIGTERM else os.getpid(), number)
                signal.pause()
            except KeyboardInterrupt:
                return ended(store, "partial", InterruptedRunError("interrupted"))
        return ended(store, "complete", None)

    def recover(_: RunRequest, folder: Path, why: str, __: Progress) -> Verdict:
        return ended(RunStore(folder), "partial", RunError(why))

    monkeypatch.setattr(scaling, "run", run)
    monkeypatch.setattr(scaling, "recover", recover)
    monkeypatch.setattr(scaling, "read_runs", lambda _: [])
    plans = dict.fromkeys((1, 2, 3), cast(Plan, None))
    asked = Series(plans, 2, "name: x\n", Inventory(Path("x"), ()), tmp_path / "state", tmp_path)

    assert code_of(asked) == code
    before = statuses(tmp_path)
    assert Counter(before.values()) == {("servers-1", "complete"): 2, ("servers-2", "complete"): 1, CUT: 1}
    assert code_of(asked) == 0
    after = statuses(tmp_path)
    assert after.items() >= before.items(), "what was there is left as it was"
    new = Counter(after[run_id] for run_id in after.keys() - before.keys())
    assert new == {("servers-2", "complete"): 1, ("servers-3", "complete"): 2}, "only what was missing is done"
    assert code_of(asked) == 0 and statuses(tmp_path) == after, "nothing is left to do"


CUT = ("servers-2", "partial")


def statuses(folder: Path) -> dict[str, Any]:
    return {store.run_id: (store.path.parent.name, store.manifest()["status"]) for store in runs(folder)}


def clusters(monkeypatch: pytest.MonkeyPatch, fails: dict[str, RunError | DeployError]) -> list[str]:
    """What is done on one machine, of which a cluster of two servers is there; `fails` says what of it does not go."""
    there, done = ["node"] * 2, list[str]()

    def do(what: str) -> None:
        done.append(what)
        if what in fails:
            raise fails[what]

    def run(request: RunRequest, _: Progress, __: Callable[[Path], None]) -> Verdict:
        assert str(len(there)) == request.tags["servers"] and request.keep
        store = begun(request)
        try:
            do(f"run {len(there)}")
        except RunError as error:
            return ended(store, "partial", error)
        return ended(store, "complete", None)

    def scale(_: Inventory, settings: dict[str, int], **__: Any) -> None:
        do(f"scale to {settings['n']}")
        there[:] = ["node"] * settings["n"]

    def destroy(*_: Any, **__: Any) -> None:
        do("destroy")
        there.clear()

    monkeypatch.setattr(scaling, "run", run)
    monkeypatch.setattr(scaling, "make_database", lambda *_: None)
    monkeypatch.setattr(scaling, "read_runs", lambda _: [])
    monkeypatch.setattr(deploy, "scale", scale)
    monkeypatch.setattr(deploy, "destroy", destroy)
    monkeypatch.setattr(deploy, "is_there", lambda _: bool(there))
    monkeypatch.setattr(deploy, "read_deployment", lambda _: {"servers": there} if there else None)
    return done


def of_sizes(folder: Path, keep: bool = False) -> Series:
    plans: Any = {n: SimpleNamespace(database=SimpleNamespace(settings={"n": n})) for n in (3, 1, 2)}
    return Series(plans, 2, "name: x\n", Inventory(Path("x"), ()), folder / "state", folder, keep)


@pytest.mark.parametrize("keep", [False, True])
def test_between_two_sizes_the_cluster_is_scaled_and_at_the_end_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], keep: bool
) -> None:
    done = clusters(monkeypatch, {})
    verdict = run_series(of_sizes(tmp_path, keep), Progress(), lambda _: None)
    assert verdict.error is None and (tmp_path / schema.REPORT).exists()
    steps = [step for n in (1, 2, 3) for step in (f"scale to {n}", f"run {n}", f"run {n}")]
    assert done == [*steps, *([] if keep else ["destroy"])]
    runs_said = re.findall(r"servers=(\d): run (\d) of 2$", capsys.readouterr().err, re.MULTILINE)
    assert runs_said == [(str(servers), str(number)) for servers in (1, 2, 3) for number in (1, 2)]

    def full(*_: object) -> None:
        raise DataError("no space left")

    monkeypatch.setattr(scaling, "write_scaling_report", full)
    assert run_series(of_sizes(tmp_path, keep), Progress(), lambda _: None).exit_code == DataError("").exit_code != 0


@pytest.mark.parametrize(
    ("fails", "last", "what", "hint"),
    [
        ({"run 2": RunError("lost")}, "run 2", "lost", "--resume"),
        ({"run 2": RunError("lost", hint="make room")}, "run 2", "lost", "make room"),
        ({"scale to 3": DeployError("no route")}, "scale to 3", "no route", ""),
        ({"destroy": DeployError("busy")}, "run 3", "not taken down: busy", "strata destroy"),
        ({"destroy": DeployError("busy"), "run 1": RunError("lost")}, "run 1", "lost", "--resume"),
    ],
)
def test_the_first_failure_ends_a_series_and_the_cluster_is_taken_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: dict[str, RunError | DeployError],
    last: str,
    what: str,
    hint: str,
) -> None:
    done = clusters(monkeypatch, fails)
    verdict = run_series(of_sizes(tmp_path), Progress(), lambda _: None)
    assert done[-2:] == [last, "destroy"]
    assert verdict.error is not None and verdict.error.what == what and hint in (verdict.error.hint or "")
    assert verdict.exit_code == verdict.error.exit_code != 0


def test_the_folder_of_a_series_is_none_of_a_run(tmp_path: Path) -> None:
    assert not scaling.is_series(tmp_path)
    (tmp_path / scaling.EXPERIMENT).touch()
    assert scaling.is_series(tmp_path)
    (tmp_path / MANIFEST).touch()
    assert not scaling.is_series(tmp_path)


def test_its_report_is_drawn_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = series_folder(tmp_path, "x", "name: x\n", None)
    run_of(folder, 2, "partial")
    assert cli.main(["report", str(tmp_path / "x" / "latest")]) == 0
    assert capsys.readouterr().out == f"{folder / schema.REPORT}\n"
    assert "partial (not counted)" in (folder / schema.REPORT).read_text()
    assert (folder / schema.SCALING.path).read_text().startswith("phase,kind,workload,records,threads,servers,runs")


def test_the_last_screen(tmp_path: Path) -> None:
    load = PhaseLoad("run", "workloada", 1000, 4)
    times = {("node1", "device"): 3.0, ("node2", "block"): 1.0}
    ones = [
        PhaseMeasurement(n, f"{n}{i}", "w-run", load, 100.0 * n - i, 1.0, times) for n in (1, 2, 4) for i in range(2)
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
    alone = SeriesVerdict(tmp_path, analyse(ones[:2]), None)
    assert "law" not in screens.scaling(alone, "table"), "nobody expects one of a single size"
    found = list(csv.DictReader(io.StringIO(screens.scaling(verdict, "csv"))))
    typed = json.loads(screens.scaling(verdict, "json"))["scaling"]
    assert found[0]["records"] == "1000" and typed[0]["records"] == 1000
    assert found[0]["speedup_ci_low"] == "" and typed[0]["speedup_ci_low"] is None
    assert [[float(row["throughput_ops_per_s"]) for row in rows] for rows in (found, typed)] == [
        [99.5, 199.5, 399.5]
    ] * 2
    assert [row["servers"] for row in found] == ["1", "2", "4"]
    assert "no run is complete" in screens.scaling(SeriesVerdict(tmp_path / "none", analyse([]), None), "table")
