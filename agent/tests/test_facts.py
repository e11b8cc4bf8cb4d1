"""What an agent tells about its node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.facts import _java_version, collect_facts, request_queue, tracer_check


def test_a_partition_has_the_request_queue_of_its_disk(tmp_path: Path) -> None:
    """Laid out as the kernel does (Documentation/ABI/stable/sysfs-block)."""
    disk = tmp_path / "devices" / "sda"
    (disk / "queue").mkdir(parents=True)
    (disk / "sda1").mkdir()
    (disk / "sda1" / "partition").write_text("1\n")
    numbers = tmp_path / "dev" / "block"
    numbers.mkdir(parents=True)
    for number, device in (("8:0", disk), ("8:1", disk / "sda1")):
        (numbers / number).symlink_to(device)
        assert request_queue(numbers / number) == disk / "queue"


def test_the_java_that_is_told_is_the_one_that_runs_the_load_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    version = 'openjdk version "17.0.99" 2026-10-20'
    java.write_text(f"#!/bin/sh\necho Picked up JAVA_TOOL_OPTIONS: -Xmx1g >&2\necho '{version}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert _java_version() == version


def test_a_fact_that_cannot_be_had_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against what the system's own programs say of the same."""
    monkeypatch.setenv("JAVA_HOME", "")
    config = AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path, "client", {}, {})
    facts = collect_facts(config)
    assert facts["data"] is None and facts["tracing"]["can_trace"] is False

    def said(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert (facts["kernel"], facts["architecture"]) == (said("uname", "-r"), said("uname", "-m"))
    models = [line.split(":")[1].strip() for line in said("cat", "/proc/cpuinfo").splitlines() if "model name" in line]
    assert facts["cpu_model"] == (models[0] if models else None)
    assert facts["cpus"] == int(said("nproc", "--all"))
    data = collect_facts(AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path, "database", {}, {}, data_path=tmp_path))[
        "data"
    ]
    assert data["device_number"] == said("stat", "-c", "%Hd:%Ld", str(tmp_path))
    assert data["file_system"].split()[0] == said("findmnt", "-no", "FSTYPE", "--target", str(tmp_path))
    device = Path("/sys/dev/block") / data["device_number"]
    assert data["device"] == (device.resolve().name if device.exists() else None)
    assert (data["backing"] is None) == (not (device / "loop").exists())
    assert (data["own_disk"], data["own_disk_reason"]) == (False, None)
    assert data["size_bytes"] == int(said("stat", "-fc", "%b", str(tmp_path))) * os.statvfs(tmp_path).f_frsize
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _java_version() is None


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('echo \'{"can_trace": true, "kernel": "6.1"}\'', {"can_trace": True, "kernel": "6.1"}),
        ('echo \'{"can_trace": false, "reason": "no BTF"}\'; exit 1', {"can_trace": False, "reason": "no BTF"}),
        ("echo nonsense", None),
        (None, None),
    ],
)
def test_whether_a_node_can_trace_is_what_its_tracer_says(
    tmp_path: Path, script: str | None, expected: dict[str, object] | None
) -> None:
    program = tmp_path / "tracer"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    found = tracer_check(AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path, "database", {"tracer": program}, {}))
    if expected is not None:
        assert found == expected
    else:
        assert found["can_trace"] is False
        assert ("gave no answer" if script else "is not built") in found["reason"]
