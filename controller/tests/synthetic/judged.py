"""A SYNTHETIC run into which contradictions are put, and what is expected of the findings on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.results.findings import Finding
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run

PHASES = (
    Phase("a-load", "load", "a", 0.6, 1.7, {"INSERT": 40}, {"INSERT": 30.0}),
    Phase("a-run", "run", "a", 2.9, 2.6, {"READ": 70, "UPDATE": 9}, {"READ": 9.0, "UPDATE": 40.0}, {"READ": 3}),
)


def consistent_run(folder: Path) -> RunStore:
    return write_run(folder, phases=PHASES, nodes=("node1", "node2"), target=True).store


def change(path: Path, edit: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def errors(store: RunStore) -> list[Finding]:
    return [finding for finding in finish(store.path).findings if finding.severity == "error"]


def only(findings: list[Finding], where: str, *words: str) -> None:
    assert len(findings) == 1, findings
    assert findings[0].where == where
    assert all(word in findings[0].what for word in words), findings[0].what


def device(**members: object) -> Callable[[Any], None]:
    return lambda trace: trace["devices"][0].update(members)
