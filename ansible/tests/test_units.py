# SPDX-License-Identifier: Apache-2.0
"""Units of systemd as the roles write them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from plays import ANSIBLE, inventory, play


def unit(folder: Path, java: str = "java", **known: object) -> Path:
    """The unit of a daemon of a remote node."""
    hosts = inventory(folder, hbase_master=["m"])
    role = ANSIBLE / "roles" / "daemon"
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook, written = folder / "unit.yml", folder / "x.service"
    files = [str(role / "defaults" / "main.yml"), str(role / "vars" / "main.yml")]
    template = {"src": str(role / "templates" / "unit.service.j2"), "dest": str(written)}
    tasks = [{"ansible.builtin.template": template}]
    playbook.write_text(yaml.safe_dump([{"hosts": "m", "vars_files": files, "tasks": tasks}]), encoding="utf-8")
    daemon = {"daemon_name": "x", "daemon_title": "X", "daemon_command": [java, "-version"], "strata_is_remote": True}
    done = play(hosts, playbook, "-e", json.dumps(known | daemon))
    assert done.returncode == 0, done.stdout
    return written


@pytest.mark.parametrize(
    ("folders", "hidden"),
    [
        ({"strata_root": "/var/lib/x"}, {"ProtectHome=yes", "PrivateTmp=yes"}),
        ({"strata_root": "/home/bench/x"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/lib/x", "strata_data_dir": "/root/data"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/lib/x", "java": "/home/jdk/bin/java"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/tmp/x"}, {"ProtectHome=yes", "PrivateTmp=no"}),
        ({"strata_root": "/srv/home/tmp"}, {"ProtectHome=yes", "PrivateTmp=yes"}),
    ],
)
def test_a_unit_does_not_hide_what_its_daemon_needs(folders: dict[str, str], hidden: set[str], tmp_path: Path) -> None:
    lines = unit(tmp_path, **folders).read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if line.startswith(("ProtectHome", "PrivateTmp"))} == hidden


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd to say what it understands")
def test_a_unit_is_understood_whatever_its_folders_are_called(tmp_path: Path) -> None:
    written = unit(tmp_path, strata_root="/var/lib/mein 100% $HÖME", java="/bin/true")
    verified = subprocess.run(["systemd-analyze", "verify", written], capture_output=True, text=True, check=False)
    assert written.name not in verified.stderr
    assert verified.returncode == 0
    lines = written.read_text(encoding="utf-8").splitlines()
    words = {line.partition("=")[0]: shlex.split(line.partition("=")[2].replace("%%", "%")) for line in lines}
    folders = ("data", "tmp", "logs/servers")
    assert words["ReadWritePaths"] == [f"/var/lib/mein 100% $HÖME/{folder}" for folder in folders]
    assert "--pidfile=/var/lib/mein 100% $$HÖME/run/x.pid" in words["ExecStartPost"]


def test_a_unit_waits_for_the_disk_that_its_data_are_on(tmp_path: Path) -> None:
    written = unit(tmp_path, strata_root="/var/lib/x", daemon_write_paths=["/data/my 100% disk", "/var/lib/x/tmp"])
    lines = written.read_text(encoding="utf-8").split("[Service]")[0].splitlines()
    (mounts,) = [line.partition("=")[2] for line in lines if line.startswith("RequiresMountsFor=")]
    assert shlex.split(mounts.replace("%%", "%")) == ["/data/my 100% disk", "/var/lib/x/tmp"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd to say what it understands")
def test_a_disk_in_a_file_is_mounted_before_the_servers_start(tmp_path: Path) -> None:
    servers = unit(tmp_path, strata_root="/var/lib/x", java="/bin/true").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("After=") and "strata-disk.service" in line for line in servers)
    role, written = ANSIBLE / "roles" / "common", tmp_path / "strata-disk.service"
    template = {"src": str(role / "templates" / "disk.service.j2"), "dest": str(written)}
    whole = {
        "hosts": "m",
        "vars_files": [str(role / "vars/main.yml")],
        "tasks": [{"ansible.builtin.template": template}],
    }
    playbook = tmp_path / "disk.yml"
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    known = {"strata_is_remote": True, "strata_root": "/var/lib/mein 100% $HÖME"}
    done = play(tmp_path / "hosts.yml", playbook, "-e", json.dumps(known))
    assert done.returncode == 0, done.stdout
    verified = subprocess.run(["systemd-analyze", "verify", written], capture_output=True, text=True, check=False)
    assert written.name not in verified.stderr
    folder = "/var/lib/mein 100%% $$HÖME"
    words = f'"{folder}/bin/own-disk" make "--image={folder}/disk.img" "--mount={folder}/disk"'
    lines = written.read_text(encoding="utf-8").splitlines()
    assert f"ExecStart=/usr/bin/env python3 {words}" in lines
    assert "ConditionPathExists=/var/lib/mein 100%% $HÖME/disk.img" in lines
