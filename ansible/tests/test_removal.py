# SPDX-License-Identifier: Apache-2.0
"""What goes when data are dropped or a node is taken down, and what stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from plays import ANSIBLE, become_root_by, inventory, play

LAUNCHER = ANSIBLE / "roles" / "common" / "files" / "strata_daemon.py"


def one_play(folder: Path, playbook: str, name: str) -> Path:
    """A playbook that holds nothing but one play of another; variables of all groups come with it."""
    plays: list[dict[str, Any]] = yaml.safe_load((ANSIBLE / "playbooks" / playbook).read_text(encoding="utf-8"))
    path = folder / playbook
    path.write_text(yaml.safe_dump([each for each in plays if each["name"] == name]), encoding="utf-8")
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    return path


def test_reset_drops_the_data_of_arangodb(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, arangodb=["a1", "a2"], clients=["c1"], agents=["a1", "a2", "c1"])
    nodes = [tmp_path / "root" / "nodes" / name for name in ("a1", "a2")]
    for node in nodes:
        (node / "disk" / "arangodb").mkdir(parents=True)
        (node / "disk" / "arangodb" / "setup.json").touch()
        start = ["start", "it", f"--pidfile={node}/run/arangodb.pid", f"--log={node}/log", "--", "sleep", "60"]
        subprocess.run([sys.executable, str(LAUNCHER), *start], check=True, stdout=subprocess.DEVNULL)
    repository = json.dumps({"strata_repo": str(ANSIBLE.parent)})
    try:
        done = play(hosts, one_play(tmp_path, "reset.yml", "Drop the data"), "-e", repository)
        assert done.returncode == 0, done.stdout
        assert [path for node in nodes for path in (node / "disk", node / "run") if any(path.iterdir())] == []
    finally:
        for node in nodes:
            subprocess.run([sys.executable, str(LAUNCHER), "stop", f"--all={node}/run"], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.skipif(Path("/etc/chrony/sources.d/strata.sources").exists(), reason="this machine is deployed")
def test_a_disk_that_is_mounted_at_the_data_folder_is_emptied(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    data, playbook = tmp_path / "data", tmp_path / "playbooks" / "remove.yml"
    data.mkdir()
    playbook.parent.mkdir()
    (tmp_path / "roles").symlink_to(ANSIBLE / "roles")
    (playbook.parent / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    include = {"ansible.builtin.include_tasks": str(ANSIBLE / "playbooks" / "tasks" / "remove_remote.yml")}
    playbook.write_text(yaml.safe_dump([{"hosts": "m", "tasks": [include]}]), encoding="utf-8")
    known = {"strata_node_dir": str(tmp_path / "node"), "strata_data_dir": str(data)}
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(data)], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        (data / ".stratabench").touch()
        (data / "hdfs").mkdir()
        done = play(hosts, playbook, "-e", json.dumps(known))
        assert done.returncode == 0, done.stdout
        assert data.is_mount()
        assert list(data.iterdir()) == []
    finally:
        subprocess.run(["umount", str(data)], check=True)


SUDO = """#!/bin/sh
while [ "$1" != /bin/sh ]; do shift; done
HOME="${0%/*}/root" exec "$@"
"""


def test_ansibles_own_folders_go_also_that_of_who_it_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sudo gives another home; the module that downloads packages makes its folder there."""
    hosts = inventory(tmp_path, hbase_master=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    homes = [tmp_path / "bench", tmp_path / "root"]
    for home in homes:
        home.mkdir()
    (tmp_path / "sudo").write_text(SUDO, encoding="utf-8")
    monkeypatch.setenv("HOME", str(homes[0]))
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
    (homes[0] / ".strata-ansible").mkdir()
    download = {"url": (tmp_path / "sudo").as_uri(), "dest": str(tmp_path / "package"), "mode": "0644"}
    tasks = yaml.safe_load((ANSIBLE / "playbooks" / "tasks" / "remove_node.yml").read_text(encoding="utf-8"))
    remove = [task for task in tasks if task["name"].startswith("Remove Ansible's folder")]
    become_root_by(tmp_path / "sudo", hosts)
    left = []
    for name, chosen in {"used": [{"ansible.builtin.get_url": download}], "removed": remove}.items():
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump([{"hosts": "m", "tasks": chosen}]), encoding="utf-8")
        done = play(hosts, tmp_path / f"{name}.yml", "-e", json.dumps({"strata_is_remote": True}))
        assert done.returncode == 0, done.stdout
        left.append([(home / ".strata-ansible").exists() for home in homes])
    assert left == [[True, True], [False, False]]


def test_packages_of_a_node_of_this_machine_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus beside the controller; a stand-in for the package manager notes what it is asked for."""
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["n"], clients=["m"], monitoring=["m"])
    programs, node = tmp_path / "bin", tmp_path / "root" / "nodes" / "m"
    programs.mkdir()
    node.mkdir(parents=True)
    (node / "packages.added").write_text("prometheus", encoding="utf-8")
    for name, text in {"apt-get": 'echo "$@" >> "$0.calls"', "dpkg-query": "echo 'ii  prometheus'"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = play(hosts, ANSIBLE / "playbooks" / "teardown.yml")
    assert done.returncode == 0, done.stdout
    assert not node.exists()
    assert "purge prometheus\n" in (programs / "apt-get.calls").read_text(encoding="utf-8")


def test_nodes_are_taken_down_from_a_repository_whose_folder_has_a_blank(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["n"], clients=["m"], monitoring=["m"])
    repository = tmp_path / "my repository" / "ansible"
    for folder in ("playbooks", "roles"):
        shutil.copytree(ANSIBLE / folder, repository / folder)
    (tmp_path / "root" / "nodes" / "m" / "run").mkdir(parents=True)
    done = play(hosts, repository / "playbooks" / "teardown.yml")
    assert done.returncode == 0, done.stdout
    assert not any((tmp_path / "root" / "nodes").iterdir())


def test_units_of_others_stay_whatever_they_are_called(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    units = tmp_path / "units"
    units.mkdir()
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    (units / "strata-backup.service").write_text("[Unit]\nDescription=Somebody's\n", encoding="utf-8")
    write = []
    for name, role, template in [("x", "daemon", "unit"), ("disk", "common", "disk")]:
        source = ANSIBLE / "roles" / role / "templates" / f"{template}.service.j2"
        write.append({"ansible.builtin.template": {"src": str(source), "dest": f"{units}/strata-{name}.service"}})
    tasks = yaml.safe_load((ANSIBLE / "playbooks" / "tasks" / "remove_units.yml").read_text(encoding="utf-8"))
    (find,) = [task for task in tasks if task["name"] == "Find our units"]
    find["ansible.builtin.find"]["paths"] = str(units)
    found = {"content": "{{ teardown_units.files | map(attribute='path') | list }}", "dest": str(tmp_path / "found")}
    roles = [ANSIBLE / "roles" / role for role in ("common", "daemon")]
    files = [str(role / part / "main.yml") for role in roles for part in ("defaults", "vars")]
    whole = {"hosts": "m", "vars_files": files, "tasks": [*write, find, {"ansible.builtin.copy": found}]}
    (tmp_path / "units.yml").write_text(yaml.safe_dump([whole]), encoding="utf-8")
    known = {"strata_is_remote": True, "daemon_name": "x", "daemon_title": "X", "daemon_command": ["/bin/true"]}
    done = play(hosts, tmp_path / "units.yml", "-e", json.dumps(known))
    assert done.returncode == 0, done.stdout
    names = {Path(path).name for path in json.loads((tmp_path / "found").read_text(encoding="utf-8"))}
    assert names == {"strata-x.service", "strata-disk.service"}
