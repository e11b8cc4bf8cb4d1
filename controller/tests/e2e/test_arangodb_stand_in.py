"""The preset `arangodb-apps` from deployment to report, on a STAND-IN for ArangoDB: no server of it can be had here.

Roles, certificates, tokens, client, agents and tracers are the real ones; StandInStarter.java answers in the place of
coordinators and DB servers, and syncs what is written to the journals of as many nodes as there shall be copies.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.tests.e2e.conftest import ROOT, Strata

pytestmark = pytest.mark.cluster

NETWORK = "127.0.66."
NODES = ("node1", "node2", "node3")
RECORDS, OPERATIONS = 101, 202
COPIES = 2


@pytest.fixture(scope="module")
def strata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strata]:
    folder = tmp_path_factory.mktemp("inventories") / f"arangodb-{os.getpid()}"
    (folder / "group_vars").mkdir(parents=True)
    hosts = {name: {"strata_address": f"{NETWORK}{11 + i}"} for i, name in enumerate(NODES)}
    clients = {f"client{i}": {"strata_address": f"{NETWORK}{20 + i}"} for i in (1, 2)}
    groups = {
        "arangodb": {"hosts": hosts},
        "clients": {"hosts": clients},
        "agents": {"children": {"arangodb": None, "clients": None}},
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    local = yaml.safe_load((ROOT / "inventories/local/group_vars/all.yml").read_text())
    stand_in = {"arangodb_starter": str(Path(__file__).with_name("arangodb-stand-in"))}
    (folder / "group_vars/all.yml").write_text(yaml.safe_dump(local | stand_in))
    made = Strata(folder, tmp_path_factory.mktemp("results"))
    yield made
    answer = made("destroy")
    assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def finished(strata: Strata) -> Path:
    small = [
        word
        for workload in ("content", "messenger", "recommendation")
        for key, value in (("recordcount", RECORDS), ("operationcount", OPERATIONS), ("fieldlength", 100))
        for word in ("--set", f"workloads.{workload}.properties.{key}={value}")
    ]
    answer = strata(
        "run", "arangodb-apps", "--keep", "--set", "scale=small", *small, "--set", f"arangodb.replication={COPIES}"
    )
    assert answer.returncode == 0, answer.stderr + answer.stdout
    return (strata.output / "arangodb-apps" / "latest").resolve()


def test_every_operation_is_counted(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    counted: Counter[str] = Counter()
    with (finished / "joined/ops.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            counted[row["phase"]] += int(row["count"])
    assert counted == {
        f"{workload}-{kind}": RECORDS if kind == "load" else OPERATIONS
        for workload in ("content", "messenger", "recommendation")
        for kind in ("load", "run")
    }


def test_nobody_who_reads_the_results_can_ask_the_database(finished: Path, strata: Strata) -> None:
    secret = (ROOT / ".strata" / strata.inventory.name / "arangodb.jwt").read_text().strip()
    for path in finished.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret.encode() not in content, path
            assert b"eyJhbGciOi" not in content, path  # how every signed token begins


def test_every_write_is_on_as_many_nodes_as_there_are_copies(finished: Path, strata: Strata) -> None:
    journals = [(strata.nodes / node / "disk/arangodb/journal").read_text().splitlines() for node in NODES]
    # Without the document of the probe after the deployment, which has no copies.
    inserted = [
        Counter(line for line in journal if line.startswith("POST ") and "_probe" not in line) for journal in journals
    ]
    together = sum(inserted, Counter[str]())
    assert all(inserted), "every node has some"
    assert sum(together.values()) >= 3 * RECORDS * COPIES
    assert set(together.values()) == {COPIES}


def test_the_io_of_each_node_is_traced(finished: Path) -> None:
    """Each synced journal is at least one write for each document that it was given."""
    with (finished / "joined/io.csv").open(newline="") as file:
        writes = Counter(row["node"] for row in csv.DictReader(file) if row["mode"] == "W")
    tracing = json.loads((finished / "manifest.json").read_text())["tracing"]
    if any(node["state"] != "traced" for node in tracing.values()):
        pytest.skip("this machine cannot be traced")
    assert set(writes) == set(NODES)
