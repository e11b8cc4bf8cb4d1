# SPDX-License-Identifier: Apache-2.0
"""Settings and command lines of servers as the roles write them, held against how the servers read them."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml
from plays import ANSIBLE, inventory, play


def words_of_arangodb(tmp_path: Path, setting: str) -> list[str]:
    """Its servers' command line with that setting, as the role writes it."""
    hosts = inventory(tmp_path, arangodb=["a1"])
    role = ANSIBLE / "roles" / "arangodb"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "command.yml"
    command = {"content": "{{ arangodb_command | to_json }}", "dest": str(tmp_path / "command")}
    whole = {
        "hosts": "a1",
        "vars_files": [str(role / "defaults/main.yml"), str(role / "vars/main.yml")],
        "tasks": [{"name": "Write", "ansible.builtin.copy": command}],
    }
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(hosts, playbook, "-e", setting)
    assert done.returncode == 0, done.stdout
    words: list[str] = json.loads((tmp_path / "command").read_text(encoding="utf-8"))
    return words


def test_switches_of_arangodb_are_spelt_as_its_servers_take_them(tmp_path: Path) -> None:
    settings = {"arangodb_settings": {"all.b": True, "all.c": False, "all.a": 5, "all.d": "Text"}}
    words = words_of_arangodb(tmp_path, json.dumps(settings))
    assert words[-4:] == ["--args.all.a=5", "--args.all.b=true", "--args.all.c=false", "--args.all.d=Text"]


@pytest.mark.parametrize(("switch", "options"), [("false", 0), ("true", 1)])
def test_tls_of_arangodb_is_what_its_switch_says_also_as_a_word(switch: str, options: int, tmp_path: Path) -> None:
    words = words_of_arangodb(tmp_path, f"arangodb_tls={switch}")
    assert sum(word.startswith("--ssl.keyfile=") for word in words) == options


def test_the_namenode_finds_its_folder_whatever_its_name(tmp_path: Path) -> None:
    root = tmp_path / "my 100% test"
    root.mkdir()
    hosts = inventory(root, hbase_master=["m"], hbase_regionserver=["m"])
    role = ANSIBLE / "roles" / "hdfs"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "settings.yml"
    content = {"content": "{{ hdfs_own_settings['dfs.namenode.name.dir'] }}", "dest": str(tmp_path / "value")}
    files = [str(role / "defaults" / "main.yml"), str(role / "vars" / "main.yml")]
    whole = {"hosts": "m", "vars_files": files, "tasks": [{"ansible.builtin.copy": content}]}
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(hosts, playbook)
    assert done.returncode == 0, done.stdout
    value = (tmp_path / "value").read_text(encoding="utf-8")
    # It reads a URI and takes what is none for the name of a file below its working directory.
    assert " " not in value
    assert url2pathname(urlsplit(value).path) == str(root / "root" / "nodes" / "m" / "data" / "namenode")


def test_grafana_finds_its_dashboards_whatever_their_folder_is_called(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, monitoring=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "grafana.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Write", "hosts": "m", "roles": ["grafana"]}]), encoding="utf-8")
    root = tmp_path / "one, two #3 {x: y}"
    done = play(hosts, playbook, "-e", json.dumps({"strata_root": str(root)}))
    assert done.returncode == 0, done.stdout
    folder = root / "nodes" / "m" / "conf" / "grafana"
    written = yaml.safe_load((folder / "provisioning/dashboards/strata.yml").read_text(encoding="utf-8"))
    assert written["providers"][0]["options"] == {"path": str(folder / "dashboards")}


def test_grafana_lets_nobody_in_by_a_password_that_everybody_knows(tmp_path: Path) -> None:
    """It comes with the user admin, whose password is admin; see its conf/defaults.ini."""
    hosts = inventory(tmp_path, monitoring=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "grafana.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Write", "hosts": "m", "roles": ["grafana"]}]), encoding="utf-8")
    done = play(hosts, playbook)
    assert done.returncode == 0, done.stdout
    settings = configparser.ConfigParser()
    settings.read(tmp_path / "root/nodes/m/conf/grafana/grafana.ini", encoding="utf-8")
    assert settings.getboolean("security", "disable_initial_admin_creation")
    assert settings.getboolean("auth.anonymous", "enabled")
    assert settings.get("auth.anonymous", "org_role") == "Viewer"


def test_grafana_is_restarted_when_its_place_of_prometheus_changes(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, monitoring=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    program = tmp_path / "home" / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    playbook = tmp_path / "grafana.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Run", "hosts": "m", "roles": ["grafana"]}]), encoding="utf-8")
    known = {"grafana_home": str(tmp_path / "home"), "strata_repo": str(ANSIBLE.parent)}
    node = tmp_path / "root" / "nodes" / "m"
    pids = []
    try:
        for url in ("http://127.0.9.1:9090", "http://127.0.9.1:9090", "http://127.0.9.2:9090"):
            done = play(hosts, playbook, "-e", json.dumps(known | {"grafana_prometheus_url": url}))
            assert done.returncode == 0, done.stdout
            pids.append((node / "run" / "grafana.pid").read_text(encoding="utf-8").splitlines()[0])
    finally:
        launcher = ANSIBLE / "roles" / "common" / "files" / "strata_daemon.py"
        subprocess.run([sys.executable, str(launcher), "stop", f"--all={node}/run"], check=True)
    assert pids[0] == pids[1] != pids[2]


PROPERTY = """
class Property {
  public static void main(String[] given) throws java.io.IOException {
    var all = new java.util.Properties();
    all.load(new java.io.FileInputStream(given[0]));
    System.out.print(all.getProperty(given[1]).equals(given[2]));
  }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="this machine has no JDK")
def test_zookeeper_finds_its_folder_whatever_its_name(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    role, written = ANSIBLE / "roles" / "zookeeper", tmp_path / "zoo.cfg"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    template = {"src": str(role / "templates" / "zoo.cfg.j2"), "dest": str(written)}
    files = [str(role / "defaults/main.yml")]
    whole = {"hosts": "m", "vars_files": files, "tasks": [{"ansible.builtin.template": template}]}
    (tmp_path / "zoo.yml").write_text(yaml.safe_dump([whole]), encoding="utf-8")
    root = "/var/lib/mein #100% €HÖME"
    done = play(hosts, tmp_path / "zoo.yml", "-e", json.dumps({"strata_is_remote": True, "strata_root": root}))
    assert done.returncode == 0, done.stdout
    # By the parser that ZooKeeper uses.
    (tmp_path / "Property.java").write_text(PROPERTY, encoding="ascii")
    said = subprocess.run(
        ["java", str(tmp_path / "Property.java"), str(written), "dataDir", f"{root}/data/zookeeper"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    assert said.stdout == "true", written.read_text(encoding="utf-8")
