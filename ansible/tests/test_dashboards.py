# SPDX-License-Identifier: Apache-2.0
"""The dashboards ask for metrics that an agent really exports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics import AgentCollector
from agent.session import Session

DASHBOARDS = sorted((Path(__file__).resolve().parents[1] / "roles" / "grafana" / "files" / "dashboards").glob("*.json"))


def exported() -> dict[str, set[str]]:
    """Name -> labels of every sample, as Prometheus would read it from an agent with a job of each kind."""
    numbers = dict.fromkeys(("completions", "emitted", "dropped", "operations", "errors", "ops_per_s", "p99_us"), 1)
    jobs = {
        kind: SimpleNamespace(running=True, status=numbers, launch=SimpleNamespace(kind=kind), job_id=kind)
        for kind in ("tracer", "client")
    }
    registry = CollectorRegistry()
    registry.register(AgentCollector("node1", lambda: cast(Session, SimpleNamespace(jobs=jobs))))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def expressions(board: dict[str, Any]) -> list[str]:
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return asked + [variable["query"]["query"] for variable in board["templating"]["list"]]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_and_label_exists(path: Path) -> None:
    known = exported()
    board = json.loads(path.read_text(encoding="utf-8"))
    for expression in expressions(board):
        names = re.findall(r"strata_\w+", expression)
        assert names, expression
        for name in names:
            assert name in known, f"{name} in {expression}"
            used = re.findall(r"(\w+)=~?\"", expression) + re.findall(r"by \((\w+)\)", expression)
            assert set(used) <= known[name], expression
    for panel in board["panels"]:
        for target in panel["targets"]:
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert all(labels <= known[name] for name in re.findall(r"strata_\w+", target["expr"]))


def test_together_they_show_everything() -> None:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    shown = {name for board in boards for asked in expressions(board) for name in re.findall(r"strata_\w+", asked)}
    assert shown >= set(exported())


def test_panels_do_not_overlap_and_ids_differ() -> None:
    assert len({json.loads(path.read_text(encoding="utf-8"))["uid"] for path in DASHBOARDS}) == len(DASHBOARDS) == 3
    for path in DASHBOARDS:
        panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        cells = [
            (x, y)
            for panel in panels
            for grid in [panel["gridPos"]]
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        ]
        assert len(set(cells)) == len(cells)
        assert max(x for x, _ in cells) < 24
