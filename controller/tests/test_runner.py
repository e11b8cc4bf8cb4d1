"""The end of a run: what its manifest says whatever interrupts it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller import cli, deploy, guard, runner
from controller.errors import RunError
from controller.progress import Progress
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run

PHASES = (Phase("a-load", "load", "a", 0.6, 1.7, {"INSERT": 40}, {"INSERT": 30.0}),)


def end(store: RunStore, error: RunError | None) -> None:
    request: Any = SimpleNamespace(keep=True, plan=SimpleNamespace(database=SimpleNamespace(settings={}), io_csv=True))
    database: Any = SimpleNamespace(name="stand-in", version="1", durability=dict)
    runner._finish(request, database, store, Progress(), error, {})


@pytest.mark.parametrize(
    ("error", "status", "reasons"),
    [(None, "complete", []), (RunError("a client failed"), "partial", ["a client failed"])],
)
def test_a_run_that_was_not_judged_is_never_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RunError | None, status: str, reasons: list[str]
) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        end(store, error)
    manifest = store.manifest()
    assert manifest["status"] == "partial"
    assert manifest["reasons"] == [*reasons, "run: its data have not been joined and judged"]
    judged = finish(store.path).manifest  # as `strata join` does
    assert (judged["status"], judged["reasons"]) == (status, reasons)


@pytest.mark.parametrize(
    ("options", "there", "stays"), [([], False, False), (["--keep"], False, True), ([], True, True)]
)
def test_whoever_ends_a_run_knows_whether_its_cluster_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], there: bool, stays: bool
) -> None:
    """Also the guard, which recovers in the place of a controller that was killed and can tell it nothing any more."""
    kept: list[bool] = []

    def guarded(work: Any, recover: Any) -> int:
        kept.extend(of.args[0].keep for of in (work, recover))
        return 0

    monkeypatch.setattr(guard, "guarded", guarded)
    monkeypatch.setattr(cli, "_state_dir", lambda _: tmp_path)
    if there:
        note = {"inventory": "x", "shape": {}, "servers": [], "nodes": []}
        (tmp_path / deploy.DEPLOYMENT).write_text(json.dumps(note))
    assert cli.main(["run", "demo", "--output", str(tmp_path / "results"), *options]) == 0
    assert kept == [stays, stays]
