# SPDX-License-Identifier: Apache-2.0
"""Packages that roles bring: what is noted as ours, and what is left alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from plays import ANSIBLE, inventory, play


@pytest.mark.parametrize("role", ["jdk", "chrony", "arangodb"])
def test_after_an_installation_that_failed_what_others_install_is_not_noted_as_ours(role: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, arangodb=["a1"])
    tasks = {"name": "Install", "ansible.builtin.include_role": {"name": role, "tasks_from": "install"}}
    playbook = tmp_path / "install.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Install", "hosts": "a1", "tasks": [tasks]}]), encoding="utf-8")
    # No package manager of any kind is asked.
    known = {
        "strata_node_dir": str(tmp_path),
        "strata_script_python": sys.executable,
        "ansible_facts": {"os_family": "Debian", "pkg_mgr": "none"},
        "arangodb_package_url": (tmp_path / "missing.deb").as_uri(),
    }
    done = play(hosts, playbook, "-e", json.dumps(known))
    assert done.returncode != 0
    assert "Note the packages that are there" in done.stdout
    assert not (tmp_path / "packages.before").exists()


SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$0.calls"
case "$1" in
    show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled\\n' ;;
    is-system-running) echo running ;;
    is-enabled) echo enabled ;;
esac
"""


@pytest.mark.parametrize(("note", "stopped"), [("packages.before", True), ("packages.added", True), (None, False)])
def test_a_deployment_that_died_before_the_vendors_unit_was_stopped_is_made_up_for(
    note: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool
) -> None:
    """The program is there already; the notes tell whether an earlier deployment, whole or not, has brought it."""
    hosts = inventory(tmp_path, arangodb=["a1"])
    programs, node = tmp_path / "bin", tmp_path / "root" / "nodes" / "a1"
    programs.mkdir()
    node.mkdir(parents=True)
    for name, text in {
        "systemctl": SYSTEMCTL,
        "dpkg-query": "#!/bin/sh\necho 'ii  adduser'; echo 'ii  arangodb3'\n",
    }.items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    if note:
        (node / note).write_text("adduser" if note == "packages.before" else "arangodb3", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "arangodb.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Run", "hosts": "a1", "roles": ["arangodb"]}]), encoding="utf-8")
    known = {"arangodb_starter": "/bin/true", "arangodb_agency_size": 1, "ansible_service_mgr": "systemd"}
    done = play(hosts, playbook, "-e", json.dumps(known | {"strata_state_dir": str(tmp_path / "none")}))
    asked = programs / "systemctl.calls"
    calls = asked.read_text(encoding="utf-8") if asked.exists() else ""
    assert ("stop arangodb3.service" in calls) == stopped, done.stdout
    assert ("disable arangodb3.service" in calls) == stopped, done.stdout


@pytest.mark.skipif(Path("/usr/sbin/chronyd").exists(), reason="this machine has chrony, whose settings are left alone")
@pytest.mark.parametrize(("kept", "said"), [("yes", ""), ("no", "chrony_servers is for Debian and Ubuntu only")])
def test_servers_of_time_are_not_for_who_keeps_the_clock_otherwise_nor_for_the_rhel_family(
    kept: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    role = {"role": "chrony", "chrony_enabled": True, "chrony_servers": ["192.0.2.1"]}
    playbook = tmp_path / "clock.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Clock", "hosts": "m", "roles": [role]}]), encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "timedatectl").write_text(f"#!/bin/sh\necho NTP={kept}\n", encoding="utf-8")
    (programs / "timedatectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = play(hosts, playbook, "-e", json.dumps({"ansible_facts": {"os_family": "RedHat"}}))
    assert (done.returncode == 0) == (not said), done.stdout
    assert said in done.stdout + done.stderr
    assert "changed=0" in done.stdout


def test_a_user_who_was_there_before_is_left_as_he_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a home in our folder, destroy would know him as ours and remove him."""
    hosts = inventory(tmp_path, hbase_master=["m"])
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("useradd", "usermod"):
        (programs / name).write_text('#!/bin/sh\necho "$0 $@" >> "${0%/*}/calls"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    tasks = yaml.safe_load((ANSIBLE / "roles/common/tasks/main.yml").read_text(encoding="utf-8"))
    chosen = [task for task in tasks if "users" in task["name"]]
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "users.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "m", "tasks": chosen}]), encoding="utf-8")
    known = {"strata_user": "nobody", "strata_agent_user": "strata-nobody", "strata_uses_systemd": True}
    done = play(hosts, playbook, "-e", json.dumps(known))
    calls = (programs / "calls").read_text(encoding="utf-8").splitlines()
    assert [(line.split()[0].rpartition("/")[2], line.split()[-1]) for line in calls] == [
        ("useradd", "strata-nobody")
    ], done.stdout
