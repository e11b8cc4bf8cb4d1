"""Playbooks run by our settings, whatever Ansible's variables in the user's environment say."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller import ansible_environment
from controller.inventory import Inventory, load_inventory
from controller.playbook import run_playbook

# No task would run, nothing would be noticed, nobody be let in, others' settings hold.
INTERFERING = {
    "ANSIBLE_RUN_TAGS": "others",
    "ANSIBLE_SKIP_TAGS": "all",
    "ANSIBLE_STDOUT_CALLBACK": "yaml",
    "ANSIBLE_CONFIG": "/dev/null",
    "ANSIBLE_BECOME": "true",
    "ANSIBLE_BECOME_EXE": "/bin/false",
    "ANSIBLE_BECOME_ALLOW_SAME_USER": "true",
    "ANSIBLE_FORKS": "1",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=no",
}


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    groups = {"hbase_master": ["m"], "hbase_regionserver": ["m"], "clients": ["m"]}
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"m": {"strata_address": "127.0.9.1"} | here}
    children = {group: {"hosts": dict.fromkeys(members)} for group, members in groups.items()}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": children}}), encoding="utf-8")
    return load_inventory(path)


def settings_seen(tmp_path: Path, inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a play finds that does nothing but note its settings."""
    ansible = tmp_path / "ansible"
    (ansible / "playbooks").mkdir(parents=True)
    (ansible / "ansible.cfg").write_text("[defaults]\nforks = 12\n[ssh_connection]\nssh_args = -o ours=yes\n", "utf-8")
    asked = {
        name: f"{{{{ lookup('ansible.builtin.config', '{name}') }}}}"
        for name in ("DEFAULT_FORKS", "DEFAULT_REMOTE_USER")
    }
    asked["ssh_args"] = (
        "{{ lookup('ansible.builtin.config', 'ssh_args', plugin_type='connection', plugin_name='ssh') }}"
    )
    asked["host_keys"] = "{{ lookup('ansible.builtin.config', 'HOST_KEY_CHECKING') }}"
    note = {"content": asked, "dest": str(tmp_path / "seen")}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"name": "Note", "ansible.builtin.copy": note}]}
    (ansible / "playbooks" / "note.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    monkeypatch.setattr(ansible_environment, "ANSIBLE_DIR", ansible)
    lines: list[str] = []
    state = tmp_path / "state"
    changes = run_playbook("note", inventory, {}, verb="deploy", state_dir=state, progress=lines.append)
    assert changes == [("m", "Note")]
    assert lines == ["deploy: m: note"]
    seen: dict[str, Any] = yaml.safe_load((tmp_path / "seen").read_text(encoding="utf-8"))
    return seen


def test_the_users_settings_of_ansible_do_not_interfere(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in INTERFERING.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    seen = settings_seen(tmp_path, inventory, monkeypatch)
    assert seen["DEFAULT_FORKS"] == 12
    assert seen["ssh_args"] == "-o ours=yes"
    assert seen["host_keys"] is True
    assert dict(os.environ) == before


def test_how_the_user_reaches_the_nodes_is_passed_on(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "bench")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "false")
    seen = settings_seen(tmp_path, inventory, monkeypatch)
    assert (seen["DEFAULT_REMOTE_USER"], seen["host_keys"]) == ("bench", False)
