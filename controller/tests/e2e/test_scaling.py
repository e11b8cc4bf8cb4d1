"""A scaling experiment on one and two real region servers, its controller killed in the middle and resumed."""

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

from controller.tests.e2e.conftest import LIMIT_S, ROOT, Strata, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.scaling]

SCALING = Path(__file__).with_name("scaling.yaml")
# Away from the other tests' clusters.
NETWORK = "127.0.55."


@pytest.fixture
def strata(tmp_path: Path) -> Iterator[Strata]:
    inventory = tmp_path / f"scaling-{os.getpid()}"
    source = ROOT / "inventories" / "local"
    for path in source.rglob("*.yml"):
        copy = inventory / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text().replace("127.0.0.", NETWORK))
    made = Strata(inventory, tmp_path / "results")
    yield made
    made("destroy")


def manifests(series: Path) -> dict[Path, dict[str, Any]]:
    return {path.parent: json.loads(path.read_text()) for path in sorted(series.glob("servers-*/2*/manifest.json"))}


def rows(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(newline="") as file:
        return {(row["phase"], row.get("servers") or row["parameter"]): row for row in csv.DictReader(file)}


def measuring_on_two(strata: Strata, running: subprocess.Popen[str]) -> Path:
    """The series' folder, as soon as its second run measures."""

    def found() -> Path | None:
        assert running.poll() is None, running.communicate()[0]
        events = strata.output.glob("scaling/2*/servers-2/2*/events.jsonl")
        return next((path.parents[2] for path in events if '"phase_start"' in path.read_text()), None)

    # A deployment with its run, and a scaling with another.
    folder: Path = wait_for(found, 2 * LIMIT_S, "a run on two servers")
    return folder


def test_it_scales_is_killed_and_goes_on(strata: Strata) -> None:
    command = strata.command("run", str(SCALING), "--keep", "--tag", "purpose=test")
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    series = measuring_on_two(strata, running)
    (controller,) = (p for p in psutil.Process(running.pid).children() if "controller.cli" in p.cmdline())
    controller.send_signal(signal.SIGKILL)
    output, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 4, output
    assert "Traceback" not in output
    assert f"--resume {series}" in output
    killed = manifests(series)
    assert sorted(manifest["status"] for manifest in killed.values()) == ["complete", "partial"]
    assert {servers for _, servers in rows(series / "scaling.csv")} == {"1"}, "only complete runs count"

    refused = strata("run", str(SCALING), "--resume", str(series), "--set", "seed=8")
    assert (refused.returncode, "another experiment" in refused.stderr) == (2, True), refused.stderr
    resumed = strata("run", str(SCALING), "--keep", "--tag", "purpose=test", "--resume", str(series))
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    after = manifests(series)
    assert {path: after[path] for path in killed} == killed, "what was complete is not repeated"
    (new,) = after.keys() - killed.keys()
    assert new.parent.name == "servers-2" and after[new]["status"] == "complete"
    assert after[new]["tags"] == {"purpose": "test", "servers": "2"}

    check_tables(series, {run.parent.name: run for run, manifest in after.items() if manifest["status"] == "complete"})
    assert (series / "report.html").stat().st_size > 1_000_000, "plotly stands in it"
    assert len(json.loads(strata("list", "--format", "json").stdout)) == 3


def check_tables(series: Path, complete: dict[str, Path]) -> None:
    """The outcome against what the runs' own files say."""
    table = rows(series / "scaling.csv")
    assert set(table) == {(phase, servers) for phase in ("app-load", "app-run") for servers in "12"}
    throughput = {}
    for name, run in complete.items():
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        loaded, flushed = (event for event in events if event["event"] == "regions_placed")
        expected = {f"node{i + 1}": 2 for i in range(int(name[-1]))}
        assert loaded["regions"] == flushed["regions"] == expected, "as HBase said after the load and the flush"
        assert flushed["locality"].keys() == expected.keys(), "all has been written to HDFS"
        if name == "servers-1":
            assert flushed["locality"] == {"node1": 1.0}, "there is no other DataNode"
        summary = rows_of_summary(run)
        throughput[name[-1]] = float(summary["app-run", "throughput_ops_per_s"])
        row = table["app-run", name[-1]]
        assert float(row["throughput_ops_per_s"]) == pytest.approx(throughput[name[-1]], rel=1e-5)
        assert (row["runs"], row["throughput_ops_per_s_ci_low"], row["uneven_regions"]) == ("1", "", "0")
        assert row["regions"] == " ".join(f"{node}=2" for node in expected)
        assert float(row["locality"]) == pytest.approx(sum(flushed["locality"].values()) / len(expected), abs=1e-4)
        assert table["app-load", name[-1]]["locality"] == "", "the load was still in memory"
    speedup = throughput["2"] / throughput["1"]
    assert float(table["app-run", "2"]["speedup"]) == pytest.approx(speedup, rel=1e-5)
    assert float(table["app-run", "2"]["efficiency"]) == pytest.approx(speedup / 2, rel=1e-5)
    assert "three sizes are needed" in rows(series / "law.csv")["app-run", "sigma"]["note"]


def rows_of_summary(run: Path) -> dict[tuple[str, str], str]:
    with (run / "joined/summary.csv").open(newline="") as file:
        return {(row["phase"], row["metric"]): row["value"] for row in csv.DictReader(file) if row["op"] == "all"}
