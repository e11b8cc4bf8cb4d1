"""The end of a run: what its manifest says whatever interrupts it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller import runner
from controller.errors import RunError
from controller.progress import Progress
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run

PHASES = (Phase("a-load", "load", "a", 0.6, 1.7, {"INSERT": 40}, {"INSERT": 30.0}),)


def end(store: RunStore, error: RunError | None) -> None:
    request: Any = SimpleNamespace(plan=SimpleNamespace(database=SimpleNamespace(settings={}), io_csv=True))
    database: Any = SimpleNamespace(name="stand-in", version="1", durability=dict)
    runner._finish(request, database, store, Progress(), error, {}, down=False)


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
