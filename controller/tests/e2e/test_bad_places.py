"""Machines that cannot do all that is wanted: one clear error, or a run that says what is missing."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.tests.e2e.conftest import LIMIT_S, ROOT, SMALL, Strata, leftovers

pytestmark = pytest.mark.cluster

# Root without what tracing, mounting and loop devices need.
UNPRIVILEGED = ["setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon,-sys_resource"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_results_disk_is_said_before_anything_is_deployed(fresh: Strata, small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (small_disk / "ballast").open("wb") as ballast:
        while True:
            ballast.write(bytes(4096))
    answer = Strata(fresh.inventory, small_disk / "results")("run", str(SMALL))
    assert answer.returncode == 3, answer.stderr
    assert str(small_disk / "results") in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "deploy:" not in answer.stderr


def test_a_results_disk_that_fills_up(cluster: Strata, small_disk: Path) -> None:
    strata = Strata(cluster.inventory, small_disk)
    answer = strata("run", str(SMALL))
    assert answer.returncode == 4, answer.stderr
    assert "No space left" in answer.stderr or "no space left" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert strata.manifest()["status"] in ("partial", "failed"), "what was said before the disk was full stays true"
    assert not [p for p in cluster.processes() if p.name() == "strata-iotrace"]


def test_without_the_right_to_trace(fresh: Strata) -> None:
    """On a deployment of its own: agents have the rights of whoever deployed them."""
    assert fresh("destroy").returncode == 0
    clean = leftovers()
    command = [*UNPRIVILEGED, *fresh.command("run", str(SMALL))]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    assert "no layer is traced" in answer.stdout, "on the last screen"
    tracing = fresh.manifest()["tracing"]
    assert {node: entry["state"] for node, entry in tracing.items()} == dict.fromkeys(
        ("node1", "node2", "node3"), "unavailable"
    )
    assert all(entry["reason"] for entry in tracing.values())
    assert tracing["node1"]["reason"] in (fresh.latest() / "report.html").read_text()
    facts = json.loads((fresh.latest() / "nodes/node1/facts.json").read_text())
    assert facts["data"]["own_disk"] is False
    assert facts["data"]["own_disk_reason"]
    with (fresh.latest() / "joined/ops.csv").open(newline="") as file:
        counted = sum(int(row["count"]) for row in csv.DictReader(file) if row["phase"] == "app-run")
    assert counted == 3001
    assert leftovers() == clean
