"""A real HBase-on-HDFS cluster on loopback addresses of its own, for the tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
SMALL = Path(__file__).with_name("small.yaml")
# Ends within this time, or hangs: a defect.
LIMIT_S = 400
NETWORK = "127.0.33."


@dataclass
class Strata:
    """The command, on one inventory and one results folder."""

    inventory: Path
    output: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def nodes(self) -> Path:
        return ROOT / ".strata" / self.inventory.name / "nodes"

    def command(self, verb: str, *arguments: str) -> list[str]:
        output = ["--output", str(self.output)] if verb in ("run", "show", "list", "join", "report") else []
        inventory = ["-i", str(self.inventory)] if verb in ("run", "deploy", "destroy", "plan") else []
        return [sys.executable, "-m", "controller.cli", verb, *arguments, *inventory, *output]

    def __call__(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = self.command(verb, *arguments)
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A run of the small experiment, in the background."""
        command = self.command("run", str(SMALL), *arguments)
        run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(run)
        return run

    def latest(self) -> Path:
        return (self.output / "small" / "latest").resolve()

    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.latest() / "manifest.json").read_text()))

    def processes(self) -> list[psutil.Process]:
        """Whatever runs from the inventory's state folder: servers, agents, tracers, clients."""
        return [p for p in psutil.process_iter() if str(self.nodes.parent) in " ".join(_command_line(p))]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def leftovers() -> dict[str, set[str]]:
    """What a run could leave behind on this machine, by kind."""
    programs = subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True, text=True, check=False)
    loaded = json.loads(programs.stdout) if programs.returncode == 0 else []
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout.splitlines()
    addresses = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {
        "ports": {line.split()[3] for line in listening if NETWORK in line},
        "addresses": set(addresses),
        "BPF programs": {f"{entry['id']} {entry.get('name')}" for entry in loaded},
        "mounts": set(Path("/proc/mounts").read_text().splitlines()),
        "loop devices": {p.parent.parent.name for p in Path("/sys/block").glob("loop*/loop/backing_file")},
        "processes": {
            f"{p.pid} {p.name()}" for p in psutil.process_iter() if str(ROOT / ".strata") in " ".join(_command_line(p))
        },
    }


def copied_inventory(name: str, folder: Path, network: str, other: str) -> None:
    """An inventory of the repository, with addresses of ``network`` (``127.0.0.``) moved to the other one."""
    shutil.copytree(ROOT / "inventories" / name, folder)
    for path in folder.rglob("*.yml"):
        path.write_text(path.read_text().replace(network, other))


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strata]:
    """The local inventory on addresses that nobody else uses; nothing is deployed."""
    folder = tmp_path_factory.mktemp("inventories") / f"e2e-{os.getpid()}"
    copied_inventory("local", folder, "127.0.0.", NETWORK)
    strata = Strata(folder, tmp_path_factory.mktemp("results"))
    yield strata
    strata("destroy")


@pytest.fixture(scope="session")
def cluster(fresh: Strata) -> Strata:
    """The same, deployed and serving."""
    answer = fresh("deploy", "--experiment", str(SMALL))
    assert answer.returncode == 0, answer.stderr
    return fresh
