# SPDX-License-Identifier: Apache-2.0
"""How much memory a node must have before its first deployment follows from the heaps of its servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from plays import ANSIBLE, inventory, play

BESIDE = 128
REMOTE = ("-e", json.dumps({"strata_is_remote": True}))
HEAPS = {
    "zookeeper_heap_mb": 1000,
    "hdfs_namenode_heap_mb": 2000,
    "hdfs_datanode_heap_mb": 3000,
    "hbase_master_heap_mb": 4000,
    "hbase_regionserver_heap_mb": 16000,
}


def bounds(folder: Path, given: dict[str, object], *options: str) -> dict[str, int]:
    """Of each node of a cluster: m is the master, z has ZooKeeper, n1 and n2 are region servers, c is a client."""
    groups = {"hbase_master": ["m"], "hbase_regionserver": ["n1", "n2"], "clients": ["c"]}
    hosts = inventory(folder, zookeeper=["m", "z"], **groups)
    content = yaml.safe_load(hosts.read_text(encoding="utf-8"))
    content["all"]["vars"] |= given
    hosts.write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    role = ANSIBLE / "roles" / "common"
    files = [str(role / "defaults/main.yml"), str(role / "vars/main.yml")]
    write = {"content": "{{ common_min_memory_mb }}", "dest": f"{folder}/{{{{ inventory_hostname }}}}.mb"}
    whole = {"hosts": "all", "vars_files": files, "tasks": [{"ansible.builtin.copy": write}]}
    (folder / "bound.yml").write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(hosts, folder / "bound.yml", *options)
    assert done.returncode == 0, done.stdout
    return {path.stem: int(path.read_text(encoding="utf-8")) for path in folder.glob("*.mb")}


def test_a_remote_node_must_hold_its_own_servers(tmp_path: Path) -> None:
    assert bounds(tmp_path, HEAPS, *REMOTE) == {
        "m": 1000 + 2000 + 4000 + 3 * BESIDE,
        "z": 1000 + BESIDE,
        "n1": 3000 + 16000 + 2 * BESIDE,
        "n2": 3000 + 16000 + 2 * BESIDE,
        "c": 1024,
    }


def test_the_controllers_own_machine_must_hold_all_nodes_of_the_play(tmp_path: Path) -> None:
    whole = 2 * 1000 + 2000 + 4000 + 2 * (3000 + 16000) + 8 * BESIDE
    assert bounds(tmp_path, HEAPS) == dict.fromkeys(("m", "z", "n1", "n2", "c"), whole)


def test_nodes_that_are_left_out_are_not_counted(tmp_path: Path) -> None:
    there = 1000 + 2000 + 4000 + 3000 + 16000 + 5 * BESIDE
    assert bounds(tmp_path, HEAPS, "--limit", "m,n2") == {"m": there, "n2": there}


def test_without_hdfs_its_servers_are_not_counted(tmp_path: Path) -> None:
    whole = 2 * 1000 + 4000 + 2 * 16000 + 5 * BESIDE
    assert bounds(tmp_path, HEAPS | {"hbase_storage": "local"})["m"] == whole


def test_heaps_that_are_not_given_are_those_of_the_roles(tmp_path: Path) -> None:
    roles = {name: name.partition("_")[0] for name in HEAPS}
    defaults = {
        name: yaml.safe_load((ANSIBLE / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8"))[name]
        for name, role in roles.items()
    }
    (tmp_path / "given").mkdir()
    (tmp_path / "not").mkdir()
    assert bounds(tmp_path / "not", {}, *REMOTE) == bounds(tmp_path / "given", defaults, *REMOTE)


@pytest.mark.parametrize("bound", [0, 700])
def test_an_inventory_may_name_another_bound(bound: int, tmp_path: Path) -> None:
    assert set(bounds(tmp_path, HEAPS, "-e", json.dumps({"common_min_memory_mb": bound})).values()) == {bound}
