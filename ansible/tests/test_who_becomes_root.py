# SPDX-License-Identifier: Apache-2.0
"""Root is for the nodes: on the controller everything is done by who runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from plays import ANSIBLE, become_root_by, inventory, play


def test_nobody_becomes_root_on_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users become root on the nodes, by the inventory, what is done on the controller is done by who runs it."""
    hosts = inventory(tmp_path, hbase_master=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    (tmp_path / "sudo").write_text("#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n", encoding="utf-8")
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
    become_root_by(tmp_path / "sudo", hosts)
    distribution = tmp_path / "hbase"
    (distribution / "lib").mkdir(parents=True)
    (distribution / "lib" / "x.jar").touch()
    stamp = {"version": "1", "jars": {"x.jar": {"size": 0, "sha256": ""}}}
    (distribution / "distribution.json").write_text(json.dumps(stamp), encoding="utf-8")
    playbook = tmp_path / "jars.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Jars", "hosts": "m", "roles": ["hbase_dist"]}]), encoding="utf-8")
    known = {"hbase_dist_source": str(distribution), "hbase_dist_version": "1"}
    done = play(hosts, playbook, "--tags", "distribution", "-e", json.dumps(known))
    assert done.returncode == 0, done.stdout


def tasks_of(content: object) -> Iterator[dict[str, Any]]:
    """All tasks below, those of blocks, too."""
    for each in content if isinstance(content, list) else []:
        yield each
        for part in ("block", "always", "rescue", "tasks", "pre_tasks", "post_tasks"):
            yield from tasks_of(each.get(part))


def test_every_task_on_the_controller_says_that_nobody_becomes_root() -> None:
    files = [*ANSIBLE.glob("roles/*/tasks/*.yml"), *ANSIBLE.glob("playbooks/**/*.yml")]
    plays = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    delegated = [task for each in plays for task in tasks_of(each) if "delegate_to" in task]
    assert delegated
    assert [task["name"] for task in delegated if task.get("vars", {}).get("ansible_become") is not False] == []
