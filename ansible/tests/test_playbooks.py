# SPDX-License-Identifier: Apache-2.0
"""What playbooks refuse, take and find before they change anything, on folders of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from plays import ANSIBLE, inventory, play

from controller.inventory import load_inventory


def test_scale_refuses_to_take_down_a_host_that_is_more_than_a_region_server(tmp_path: Path) -> None:
    servers = ["n1", "m", "n2"]
    hosts = inventory(
        tmp_path, hbase_master=["m"], hbase_regionserver=servers, clients=["n2"], agents=["n1", "m", "n2"]
    )
    checked = ("--tags", "preflight", "-e")
    allowed = play(hosts, ANSIBLE / "playbooks" / "scale.yml", *checked, "scale_regionservers=3")
    assert allowed.returncode == 0, allowed.stdout
    refused = play(hosts, ANSIBLE / "playbooks" / "scale.yml", *checked, "scale_regionservers=1")
    assert refused.returncode != 0
    assert "m would be taken down, which is also of hbase_master" in refused.stdout
    assert "n2 would be taken down, which is also of clients" in refused.stdout
    for options in (("--tags", "preflight"), (*checked, "scale_regionservers=two")):
        missing = play(hosts, ANSIBLE / "playbooks" / "scale.yml", *options)
        assert missing.returncode != 0
        assert "scale_regionservers: a number from hdfs_replication (1) to 3 is needed" in missing.stdout


@pytest.mark.parametrize("given", ["local", "testbed-5", "example-hbase-placements/scenario-3.yml"])
def test_a_playbook_by_hand_finds_the_state_of_strata(given: str, tmp_path: Path) -> None:
    path = ANSIBLE.parent / "inventories" / given
    source = path if path.is_file() else path / "hosts.yml"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "state.yml"
    write = {"content": "{{ strata_state_dir }}", "dest": str(tmp_path / "state")}
    whole = {"hosts": "hbase_master", "tasks": [{"ansible.builtin.copy": write, "delegate_to": "localhost"}]}
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(source, playbook, "-e", json.dumps({"strata_repo": "/repository", "ansible_become": False}))
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "state").read_text(encoding="utf-8") == f"/repository/.strata/{load_inventory(path).name}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"hbase_settings": {"a": 1, "b": True, "c": "x", "d": 0.5}, "chrony_servers": ["192.0.2.1"]}, ""),
        ({"chrony_servers": "192.0.2.1,192.0.2.2"}, "chrony_servers is a text"),
        ({"hbase_settings": "a=b"}, "hbase_settings is a text"),
        ({"hdfs_settings": {"dfs.a": ["x", "y"], "dfs.b": None}}, "hdfs_settings: dfs.a, dfs.b: a text, a number"),
        ({"hdfs_settings": {"dfs.namenode.name.dir": "/d"}}, "hdfs_settings: dfs.namenode.name.dir cannot be set"),
        ({"hdfs_settings": {"dfs.datanode.data.dir": "/d"}}, "hdfs_settings: dfs.datanode.data.dir cannot be set"),
    ],
)
def test_settings_that_only_seem_to_fit_are_refused_first(given: dict[str, object], said: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["m"], clients=["m"], agents=["m"])
    done = play(hosts, ANSIBLE / "playbooks" / "check.yml", "-e", json.dumps(given))
    assert (done.returncode == 0) == (not said), done.stdout + done.stderr
    assert said in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("role", ["chrony", "jdk"])
def test_a_switch_may_be_a_word_as_the_command_line_and_ini_files_give_it(role: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    playbook = tmp_path / "switch.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Switch", "hosts": "m", "roles": [role]}]), encoding="utf-8")
    switch = {"chrony": "chrony_enabled=no", "jdk": "jdk_install=false"}[role]
    done = play(hosts, playbook, "-e", switch, "-e", "jdk_java=/nonexistent/java")
    assert "must be a boolean" not in done.stdout + done.stderr
    assert "must have a boolean result" not in done.stdout + done.stderr
    # Nothing is installed; and a Java that is missing is said.
    assert (done.returncode == 0) == (role == "chrony"), done.stdout
    assert "Note the packages that are there" not in done.stdout
    assert role == "chrony" or "Java 17 is missing" in done.stdout + done.stderr


def test_a_check_of_what_is_deployed_finds_no_difference(tmp_path: Path) -> None:
    """In the agent's settings, which say whether the node's data has a disk of its own."""
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["m"], agents=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "node.yml"
    roles = [{"role": "common", "common_own_disk": True}, {"role": "agent"}]
    playbook.write_text(yaml.safe_dump([{"name": "Node", "hosts": "m", "roles": roles}]), encoding="utf-8")
    known = {"strata_data_dir": str(tmp_path / "data"), "common_min_memory_mb": 0, "common_min_disk_mb": 0}
    options = ("--skip-tags", "start", "--diff", "-e", json.dumps(known))
    for more, changed in (("--check", True), ("--diff", True), ("--diff", False), ("--check", False)):
        done = play(hosts, playbook, *options, more)
        assert done.returncode == 0, done.stdout
        assert ("changed=0" not in done.stdout) == changed, done.stdout
        assert (tmp_path / "data").exists() or more == "--check"
