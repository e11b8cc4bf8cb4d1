"""The small variant of `hbase-scaleout` on one to five real region servers, killed in the middle and resumed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.tests.e2e.conftest import LIMIT_S, ROOT, Strata, copied_inventory, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.scaling]

SCALE_OUT = ("hbase-scaleout", "--set", "scale=ci", "--tag", "purpose=test")
SIZES = (1, 3, 5)
REGIONS_PER_SERVER = 4
PHASES = ("write-load", "write-run", "read-run", "scan-run", "rmw-run")
# Of a whole series, on a machine that is slow today.
SERIES_LIMIT_S = 3000
# Away from the other tests' clusters.
NETWORK = "127.0.55."


@pytest.fixture
def strata(tmp_path: Path) -> Iterator[Strata]:
    inventory = tmp_path / f"scaling-{os.getpid()}"
    copied_inventory("local-5", inventory, "127.0.5.", NETWORK)
    made = Strata(inventory, tmp_path / "results")
    yield made
    made("destroy")


def manifests(series: Path) -> dict[Path, dict[str, Any]]:
    return {path.parent: json.loads(path.read_text()) for path in sorted(series.glob("servers-*/2*/manifest.json"))}


def rows(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(newline="") as file:
        return {(row["phase"], row.get("servers") or row["parameter"]): row for row in csv.DictReader(file)}


def measuring_on_three(strata: Strata, running: subprocess.Popen[str]) -> Path:
    """The series' folder, as soon as its second run measures."""

    def found() -> Path | None:
        assert running.poll() is None, running.communicate()[0]
        events = strata.output.glob("hbase-scaleout/2*/servers-3/2*/events.jsonl")
        return next((path.parents[2] for path in events if '"phase_start"' in path.read_text()), None)

    # A deployment with its run, and a scaling with another.
    folder: Path = wait_for(found, SERIES_LIMIT_S, "a run on three servers")
    return folder


def test_one_to_five_servers_killed_and_resumed(strata: Strata) -> None:
    command = strata.command("run", *SCALE_OUT)
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    series = measuring_on_three(strata, running)
    (controller,) = (p for p in psutil.Process(running.pid).children() if "controller.cli" in p.cmdline())
    controller.send_signal(signal.SIGKILL)
    output, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 4, output
    assert "Traceback" not in output
    assert f"--resume {series}" in output
    killed = manifests(series)
    assert sorted(manifest["status"] for manifest in killed.values()) == ["complete", "partial"]
    assert {servers for _, servers in rows(series / "scaling.csv")} == {"1"}, "only complete runs count"

    refused = strata("run", *SCALE_OUT, "--resume", str(series), "--set", "seed=8")
    assert (refused.returncode, "another experiment" in refused.stderr) == (2, True), refused.stderr
    command = strata.command("run", *SCALE_OUT, "--resume", str(series))
    resumed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SERIES_LIMIT_S, check=False)
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    after = manifests(series)
    assert {path: after[path] for path in killed} == killed, "what was complete is not repeated"
    complete = {manifest["tags"]["servers"]: run for run, manifest in after.items() if manifest["status"] == "complete"}
    assert list(complete) == [str(size) for size in SIZES]
    assert {manifest["tags"]["purpose"] for manifest in after.values()} == {"test"}
    check_tables(series, complete)
    report = (series / "report.html").read_text()
    assert all(title in report for title in ("Results", "Where the I/O waits"))


def check_tables(series: Path, complete: dict[str, Path]) -> None:
    """The outcome against what the runs' own files say."""
    table = rows(series / "scaling.csv")
    assert set(table) == {(phase, servers) for phase in PHASES for servers in complete}
    throughput = {}
    for servers, run in complete.items():
        expected = {f"node{i + 1}": REGIONS_PER_SERVER for i in range(int(servers))}
        placed = placements(run)
        assert {phase: event["regions"] for phase, event in placed.items()} == dict.fromkeys(placed, expected)
        summary = rows_of_summary(run)
        throughput[servers] = float(summary["write-run", "throughput_ops_per_s"])
        row = table["write-run", servers]
        assert float(row["throughput_ops_per_s"]) == pytest.approx(throughput[servers], rel=1e-5)
        assert (row["runs"], row["throughput_ops_per_s_ci_low"], row["uneven_regions"]) == ("1", "", "0")
        assert row["regions"] == " ".join(f"{node}={count}" for node, count in expected.items())
        locality = placed["write-run"]["locality"]
        assert locality.keys() == expected.keys(), "all has been written to HDFS"
        assert float(row["locality"]) == pytest.approx(sum(locality.values()) / len(expected), abs=1e-4)
        assert table["write-load", servers]["locality"] == "", "the load was still in memory"
        if servers == "1":
            assert locality == {"node1": 1.0}, "there is no other DataNode"
        speedup = throughput[servers] / throughput["1"]
        assert float(row["speedup"]) == pytest.approx(speedup, rel=1e-5)
        assert float(row["efficiency"]) == pytest.approx(speedup / int(servers), rel=1e-5)
    law = rows(series / "law.csv")
    assert {phase for phase, _ in law} == set(PHASES)
    assert all(law[phase, term]["value"] for phase in PHASES for term in ("sigma", "kappa"))


def placements(run: Path) -> dict[str, dict[str, Any]]:
    """Where HBase said that each phase's regions were, after the load or the flush."""
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return {event["phase"]: event for event in events if event["event"] == "regions_placed"}


def rows_of_summary(run: Path) -> dict[tuple[str, str], str]:
    with (run / "joined/summary.csv").open(newline="") as file:
        return {(row["phase"], row["metric"]): row["value"] for row in csv.DictReader(file) if row["op"] == "all"}
