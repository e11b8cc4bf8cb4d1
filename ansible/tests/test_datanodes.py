# SPDX-License-Identifier: Apache-2.0
"""DataNodes that leave, and those that stay after all: the role hdfs against a stand-in for the NameNode's JMX."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ANSIBLE = Path(__file__).resolve().parents[1]


class StandInNameNode:
    """Answers with one state after another, and with the last of them from then on; a state is None while it starts."""

    def __init__(self) -> None:
        self.states: list[dict[str, str] | None] = []
        self.asked = 0
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = json.dumps(stand_in.jmx()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json; charset=utf8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def jmx(self) -> dict[str, Any]:
        state = self.states[min(self.asked, len(self.states) - 1)]
        self.asked += 1
        if state is None:
            return {"beans": []}
        # As NameNodeInfo has it: a text in the text, by name and port.
        live = {f"{name}:9866": {"xferaddr": f"{name}:9866", "adminState": admin} for name, admin in state.items()}
        return {"beans": [{"LiveNodes": json.dumps(live)}]}


@pytest.fixture
def namenode() -> Iterator[StandInNameNode]:
    stand_in = StandInNameNode()
    threading.Thread(target=stand_in.server.serve_forever, daemon=True).start()
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()


def run(
    folder: Path, tasks: list[dict[str, Any]], port: int, where: str = "m", **known: object
) -> subprocess.CompletedProcess[str]:
    """Tasks of the role, with a program in the place of Java that notes what it is asked for."""
    java = folder / "java"
    java.write_text('#!/bin/sh\necho "$@" >> "$0.calls"\n', encoding="utf-8")
    java.chmod(0o755)
    (folder / "root" / "nodes" / "m" / "conf").mkdir(parents=True)
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "strata_root": str(folder / "root"),
        "hdfs_master_address": "127.0.0.1",
        "hdfs_namenode_http_port": port,
        "hbase_dist_java": str(java),
        "hbase_dist_java_flags": [],
    }
    hosts = {name: {"strata_address": f"127.0.9.{number}"} for number, name in enumerate(("m", "d1", "d2"))}
    groups = {"hbase_master": {"hosts": {"m": {}}}, "hbase_regionserver": {"hosts": {"d1": {}, "d2": {}}}}
    every = {"all": {"hosts": hosts, "children": groups, "vars": variables | known}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(every), encoding="utf-8")
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": where, "tasks": tasks}]), encoding="utf-8")
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            f"--inventory={folder / 'hosts.yml'}",
            str(folder / "play.yml"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg")},
    )


def exclude(folder: Path, port: int, *names: str, **known: object) -> subprocess.CompletedProcess[str]:
    task = {"ansible.builtin.include_role": {"name": "hdfs", "tasks_from": "exclude"}}
    return run(folder, [task], port, hdfs_excluded=list(names), **known)


def message_of(done: subprocess.CompletedProcess[str]) -> str:
    """Of the failure that was not ignored, the last one."""
    failed = [line for line in done.stdout.splitlines() if line.startswith("fatal: ")][-1]
    return str(json.loads(failed.partition("=> ")[2])["msg"])


def told(folder: Path) -> str:
    calls = folder / "java.calls"
    return calls.read_text(encoding="utf-8") if calls.exists() else ""


IN, LEAVING, GONE = "In Service", "Decommission In Progress", "Decommissioned"


def test_a_datanode_is_empty_when_the_namenode_says_so(namenode: StandInNameNode, tmp_path: Path) -> None:
    """Not when it is not heard of: it may have died with the only copy, and a NameNode that starts knows nobody yet."""
    left = {"127.0.9.1": IN}
    namenode.states = [
        left | {"127.0.9.2": IN},
        left | {"127.0.9.2": LEAVING},
        None,
        left,
        left | {"127.0.9.2": GONE},
    ]
    done = exclude(tmp_path, namenode.server.server_port, "d2")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "root/nodes/m/conf/datanodes.exclude").read_text(encoding="utf-8") == "127.0.9.2:9866\n"
    assert "-refreshNodes" in told(tmp_path)
    assert namenode.asked == len(namenode.states)


def test_how_long_a_datanode_may_take_can_be_said(namenode: StandInNameNode, tmp_path: Path) -> None:
    namenode.states = [{"127.0.9.1": IN, "127.0.9.2": LEAVING}]
    done = exclude(tmp_path, namenode.server.server_port, "d2", hdfs_leave_timeout_s="1")
    assert done.returncode != 0
    assert namenode.asked == 3  # once for the list, then as often as said and once more
    assert "127.0.9.2:9866" in message_of(done)
    assert "hdfs_leave_timeout_s" in message_of(done)


def test_a_proxy_of_the_environment_is_not_asked_for_the_namenode(
    namenode: StandInNameNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.9.9:1")
    namenode.states = [{"127.0.9.1": IN}]
    done = exclude(tmp_path, namenode.server.server_port)
    assert done.returncode == 0, done.stdout


def counted(folder: Path, port: int, *before: dict[str, Any], retries: int = 120) -> subprocess.CompletedProcess[str]:
    """Of the role what it does with DataNodes that have started."""
    names = ("Empty the list", "Wait until the NameNode counts", "Require that the NameNode counts", "Keep a DataNode")
    tasks = yaml.safe_load((ANSIBLE / "roles/hdfs/tasks/main.yml").read_text(encoding="utf-8"))
    role = folder / "roles" / "hdfs"
    shutil.copytree(ANSIBLE / "roles" / "hdfs", role)
    chosen = [
        task | ({"retries": retries} if "retries" in task else {}) for task in tasks if task["name"].startswith(names)
    ]
    (role / "tasks" / "main.yml").write_text(yaml.safe_dump(chosen), encoding="utf-8")
    return run(folder, [*before, {"ansible.builtin.include_role": {"name": "hdfs"}}], port, where="all")


def test_a_datanode_that_is_missing_is_named(namenode: StandInNameNode, tmp_path: Path) -> None:
    namenode.states = [{"127.0.9.1": IN}]
    done = counted(tmp_path, namenode.server.server_port, retries=1)
    assert done.returncode != 0
    assert "does not count the DataNodes 127.0.9.2:9866" in message_of(done)


def test_a_namenode_that_is_gone_is_named(namenode: StandInNameNode, tmp_path: Path) -> None:
    port = namenode.server.server_port
    namenode.server.server_close()
    done = counted(tmp_path, port, retries=1)
    assert done.returncode != 0
    assert f"http://127.0.0.1:{port}/" in message_of(done)
    assert "Connection refused" in message_of(done)


@pytest.mark.parametrize(("state", "tells"), [(IN, False), (LEAVING, True), (GONE, True)])
def test_a_datanode_that_stays_after_all_is_kept(
    namenode: StandInNameNode, tmp_path: Path, state: str, *, tells: bool
) -> None:
    """A scaling was cut short when the DataNode was marked; the next deployment is of all servers again."""
    namenode.states = [None, {"127.0.9.1": IN, "127.0.9.2": state}]
    marked = tmp_path / "root/nodes/m/conf/datanodes.exclude"
    mark = {"ansible.builtin.copy": {"content": "127.0.9.2:9866\n", "dest": str(marked)}, "run_once": True}
    done = counted(tmp_path, namenode.server.server_port, mark)
    assert done.returncode == 0, done.stdout
    assert marked.read_text(encoding="utf-8") == ""
    assert ("-refreshNodes" in told(tmp_path)) == tells
