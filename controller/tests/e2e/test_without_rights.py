"""A machine on which nothing can be traced or mounted: the run works all the same, and says what is missing."""

from __future__ import annotations

import csv
import json
import subprocess

import pytest

from controller.tests.e2e.conftest import LIMIT_S, ROOT, SMALL, Strata, leftovers

pytestmark = pytest.mark.cluster

# Root without what tracing, mounting and loop devices need.
UNPRIVILEGED = ["setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon,-sys_resource"]
ONE_SERVER = ["--set", "regionservers=1", "--set", "hdfs.replication=1"]


def test_without_the_right_to_trace(fresh: Strata) -> None:
    """On a deployment of its own: agents have the rights of whoever deployed them."""
    assert fresh("destroy").returncode == 0
    clean = leftovers()
    command = [*UNPRIVILEGED, *fresh.command("run", str(SMALL), *ONE_SERVER)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    assert "no layer is traced" in answer.stdout, "on the last screen"
    tracing = fresh.manifest()["tracing"]
    assert {node: entry["state"] for node, entry in tracing.items()} == {"node1": "unavailable"}
    assert tracing["node1"]["reason"] in (fresh.latest() / "report.html").read_text()
    facts = json.loads((fresh.latest() / "nodes/node1/facts.json").read_text())
    assert facts["data"]["own_disk"] is False
    assert facts["data"]["own_disk_reason"]
    with (fresh.latest() / "joined/ops.csv").open(newline="") as file:
        counted = sum(int(row["count"]) for row in csv.DictReader(file) if row["phase"] == "app-run")
    assert counted == 3001
    assert leftovers() == clean
