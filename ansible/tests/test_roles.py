"""Playbooks parse, and every variable of a role is declared: a wrong type is refused early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ANSIBLE = Path(__file__).resolve().parents[1]
INVENTORY = ANSIBLE.parent / "inventories" / "local" / "hosts.yml"
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())
PLAYBOOKS = sorted((ANSIBLE / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.name)
def test_playbook_parses(playbook: Path) -> None:
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(program), "--syntax-check", "-i", str(INVENTORY), str(playbook)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg")},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_declared_and_prefixed(role: str) -> None:
    folder = ANSIBLE / "roles" / role
    defaults = yaml.safe_load((folder / "defaults" / "main.yml").read_text(encoding="utf-8"))
    specs = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    assert set(defaults) <= set(options)
    assert all(name.startswith(f"{role}_") for name in defaults)
    for name, option in options.items():
        assert option["description"]
        if "default" in option and not str(defaults[name]).startswith("{{"):
            assert option["default"] == defaults[name], name
