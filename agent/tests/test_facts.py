"""What an agent tells about its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.facts import _java_version, request_queue


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
