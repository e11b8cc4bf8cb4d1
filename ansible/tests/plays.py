# SPDX-License-Identifier: Apache-2.0
"""Plays on hosts that are folders of this machine; without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

ANSIBLE = Path(__file__).resolve().parents[1]


def inventory(folder: Path, **groups: list[str]) -> Path:
    """An inventory of hosts that are folders of this machine."""
    names = list(dict.fromkeys(name for members in groups.values() for name in members))
    every = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "strata_root": str(folder / "root"),
            "hdfs_replication": 1,
        },
        "hosts": {name: {"strata_address": f"127.0.9.{number}"} for number, name in enumerate(names, 1)},
        "children": {group: {"hosts": dict.fromkeys(members)} for group, members in groups.items()},
    }
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": every}, sort_keys=False), encoding="utf-8")
    return path


def play(hosts: Path, playbook: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [str(program), "-i", str(hosts), str(playbook), *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg")},
    )


def become_root_by(program: Path, hosts: Path) -> None:
    """Has the inventory say so, as docs/operations.md has it."""
    program.chmod(0o755)
    content = yaml.safe_load(hosts.read_text(encoding="utf-8"))
    content["all"]["vars"] |= {"ansible_become": True, "ansible_become_exe": str(program)}
    hosts.write_text(yaml.safe_dump(content), encoding="utf-8")
