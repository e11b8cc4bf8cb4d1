"""`kill -9` of each party in the middle of a run: it ends by itself, says why, keeps what there is, leaves nothing."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.results.oplog import read_operation_log
from controller.tests.e2e.conftest import LIMIT_S, ROOT, Strata, leftovers, wait_for

pytestmark = pytest.mark.cluster

PROGRAM = re.compile(r'^SEC\("(?:tp_btf/.*|fentry/.*|kprobe)"\)\nint (?:BPF_PROG\()?(\w{1,15})', re.MULTILINE)
PROBES = {name for source in (ROOT / "tracer/bpf").glob("*.bpf.h") for name in PROGRAM.findall(source.read_text())}


# A test that fails in the middle must not leave its run to the next ones.
@pytest.fixture(autouse=True)
def ended_runs(cluster: Strata) -> Iterator[None]:
    yield
    for run in cluster.started:
        if run.poll() is None:
            run.terminate()
            run.communicate(timeout=LIMIT_S)
    cluster.started.clear()


# A client keeps a second of its operation log to itself; twice as much again for a machine on which it hardly runs.
KEPT_NS = 3_000_000_000
# Long enough to be in the middle of it, whatever the machine.
ENDLESS = ["--set", "workloads.app.properties.operationcount=2000000"]


def in_the_middle(strata: Strata, run: subprocess.Popen[str], before: set[str]) -> Path:
    """The run's folder, as soon as its run phase measures."""

    def measuring() -> Path | None:
        assert run.poll() is None, run.communicate()[0]
        new = {path.name for path in (strata.output / "small").glob("2*")} - before
        for name in new:
            events = strata.output / "small" / name / "events.jsonl"
            if events.exists() and '"phase_start","phase":"app-run"' in events.read_text():
                return events.parent
        return None

    folder: Path = wait_for(measuring, LIMIT_S, "the run phase")
    # Operations are logged when the phase is under way on both clients.
    wait_for(lambda: all(_bytes(strata, client) > 4096 for client in ("client1", "client2")), LIMIT_S, "operations")
    traced = [traced for traced in folder.glob("nodes/*/facts.json") if '"can_trace": true' in traced.read_text()]
    if traced:
        assert [program for program in leftovers()["BPF programs"] if program.split()[1] in PROBES]
    return folder


def _bytes(strata: Strata, client: str) -> int:
    return sum(path.stat().st_size for path in (strata.nodes / client).glob("agent/*/app-run/ops.bin"))


def known(strata: Strata) -> set[str]:
    return {path.name for path in (strata.output / "small").glob("2*")}


def ended(strata: Strata, run: subprocess.Popen[str], folder: Path, reason: str) -> str:
    """The common end: exit code, status, reason, partial data, no client and no tracer left."""
    output, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode in (4, 5), output
    assert "Traceback" not in output
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] in ("partial", "failed")
    assert any(reason in text for text in manifest["reasons"]), manifest["reasons"]
    kept = [path for path in folder.glob("clients/*/app-run/ops.bin") if path.stat().st_size > 4096]
    assert kept, "what was measured until then is kept"
    names = {process.name() for process in strata.processes()}
    assert not names & {"strata-iotrace"}
    # As `bpftool prog` lists them: the names that the tracer's own source gives its programs.
    assert not [program for program in leftovers()["BPF programs"] if program.split()[1] in PROBES]
    assert not [p for p in strata.processes() if "app-run" in " ".join(p.cmdline())]
    return output


def pid_of(strata: Strata, node: str, daemon: str) -> int:
    return int((strata.nodes / node / "run" / f"{daemon}.pid").read_text().split()[0])


def test_a_killed_client(cluster: Strata) -> None:
    before = known(cluster)
    run = cluster.start(*ENDLESS)
    folder = in_the_middle(cluster, run, before)
    java = [
        p
        for p in cluster.processes()
        if p.name() == "java" and f"client1/agent/{folder.name}/app-run" in " ".join(p.cmdline())
    ]
    os.kill(java[0].pid, signal.SIGKILL)
    killed_mono_ns = time.monotonic_ns()
    ended(cluster, run, folder, "killed by signal 9")
    log = read_operation_log(folder / "clients/client1/app-run/ops.bin").records
    missing_ns = killed_mono_ns - int(log["start_mono_ns"].max())
    assert missing_ns < KEPT_NS, "the operation log goes on until shortly before"


def test_an_interrupted_run(cluster: Strata) -> None:
    before = known(cluster)
    run = cluster.start(*ENDLESS)
    folder = in_the_middle(cluster, run, before)
    run.send_signal(signal.SIGTERM)
    output, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 130, output
    assert json.loads((folder / "manifest.json").read_text())["status"] == "partial"
    assert not [p for p in cluster.processes() if p.name() == "strata-iotrace"]


def test_a_killed_controller_leaves_a_cluster_that_was_there(cluster: Strata) -> None:
    before, servers = known(cluster), [pid_of(cluster, f"node{i}", "regionserver") for i in (1, 2, 3)]
    run = cluster.start(*ENDLESS)
    folder = in_the_middle(cluster, run, before)
    os.kill(psutil.Process(run.pid).children()[0].pid, signal.SIGKILL)
    ended(cluster, run, folder, "the controller was killed (SIGKILL)")
    assert [pid_of(cluster, f"node{i}", "regionserver") for i in (1, 2, 3)] == servers
    assert all(psutil.pid_exists(server) for server in servers)


# From here on each leaves a cluster that the next one has to mend first.


def test_a_killed_agent(cluster: Strata) -> None:
    before = known(cluster)
    run = cluster.start(*ENDLESS)
    folder = in_the_middle(cluster, run, before)
    os.kill(pid_of(cluster, "node2", "agent"), signal.SIGKILL)
    ended(cluster, run, folder, "node2: the agent is gone")
    assert (folder / "nodes/node1/io.bin").exists(), "the other nodes' traces are kept"


def test_a_killed_region_server(cluster: Strata) -> None:
    before = known(cluster)
    run = cluster.start(*ENDLESS)
    folder = in_the_middle(cluster, run, before)
    os.kill(pid_of(cluster, "node3", "regionserver"), signal.SIGKILL)
    ended(cluster, run, folder, "the server node3 is gone")


def test_a_killed_controller_takes_down_what_it_deployed(cluster: Strata) -> None:
    """On a deployment of its own, on one shared folder: there, I/O is attributed by process."""
    assert cluster("destroy").returncode == 0
    clean = leftovers()
    before = known(cluster)
    run = cluster.start(
        *ENDLESS, "--set", "hbase.storage=local", "--set", "regionservers=1", "--set", "hdfs.replication=1"
    )
    folder = in_the_middle(cluster, run, before)
    server = pid_of(cluster, "node1", "regionserver")
    worker = psutil.Process(run.pid).children()[0]
    os.kill(worker.pid, signal.SIGKILL)
    ended(cluster, run, folder, "the controller was killed (SIGKILL)")
    assert leftovers() == clean
    assert not cluster.nodes.parent.exists()
    trace = folder / "nodes/node1/trace.json"
    if not trace.exists():
        pytest.skip("I/O cannot be traced on this machine")
    assert json.loads(trace.read_text())["filters"]["pids"] == [server]
    with (folder / "nodes/node1/io.csv").open(newline="") as file:
        pids = {row["pid"] for row in csv.DictReader(file)}
    assert pids == {str(server)}, "all I/O of the run was the region server's own"
