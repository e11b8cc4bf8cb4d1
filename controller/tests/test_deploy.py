"""Deploy and destroy: what is refused before anything starts, and a real cluster from nothing to nothing."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import controller.deploy
from controller.databases.hbase import HBase
from controller.deploy import deploy, deployed_settings, destroy, ensure_deployed, scale
from controller.errors import ConfigError, DeployError, StrataError
from controller.inventory import Inventory, load_inventory
from controller.pki import RENEW_BEFORE, VALID_FOR, ensure_pki
from controller.playbook import message_of

LOCAL = Path(__file__).resolve().parents[2] / "inventories" / "local"
# Away from the addresses of inventories/local, so that a deployed demo does not disturb the tests.
NETWORK = "127.0.77."


def quiet(_: str) -> None:
    """Progress that nobody reads."""


def copy_inventory(
    folder: Path, network: str = NETWORK, change: Callable[[dict[str, Any]], None] = lambda _: None
) -> Inventory:
    """The local inventory on other addresses."""
    target = folder / "inventory"
    shutil.copytree(LOCAL, target)
    hosts = target / "hosts.yml"
    content = yaml.safe_load(re.sub(r"127\.0\.0\.", network, hosts.read_text(encoding="utf-8")))
    change(content["all"])
    hosts.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return load_inventory(target)


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return copy_inventory(tmp_path)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"regionservers": 4}, "4 region servers are asked for, the inventory has 3"),
        ({"regionservers": 1}, "2 copies of each block need as many DataNodes"),
        ({"hbase.storag": "local"}, "did you mean hbase.storage"),
    ],
)
def test_impossible_wishes_are_refused_before_anything_is_written(
    inventory: Inventory, tmp_path: Path, settings: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        deploy(inventory, settings, state_dir=tmp_path / "state", progress=quiet)
    assert expected in str(caught.value)
    assert not (tmp_path / "state").exists()


def test_two_at_once_are_refused(inventory: Inventory, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    descriptor = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(DeployError, match="another deploy or destroy"):
            deploy(inventory, {}, state_dir=state, progress=quiet)
        with pytest.raises(DeployError, match="another deploy or destroy"):
            controller.deploy.is_there(state)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shape": {"storage": "local"}}, "storage local"),
        ({"servers": ["node1", "node2", "node3", "node4"]}, "more data servers"),
        ({"inventory": "/elsewhere"}, "another inventory"),
    ],
)
def test_another_shape_must_be_taken_down_first(
    inventory: Inventory, tmp_path: Path, change: dict[str, object], expected: str
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    found = {
        "inventory": str(inventory.path),
        "shape": {"storage": "hdfs"},
        "servers": ["node1", "node2", "node3"],
        "nodes": [],
    } | change
    (state / "deployment.json").write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(DeployError, match=expected) as caught:
        deploy(inventory, {}, state_dir=state, progress=quiet)
    assert "strata destroy" in caught.value.hint


def test_a_scaling_that_was_cut_short_is_completed_by_another_one_or_by_a_deployment(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, played = tmp_path / "state", list[tuple[str, object]]()
    monkeypatch.setattr(HBase, "wait_ready", lambda *_: None)

    def play(name: str, _: Inventory, variables: dict[str, Any], **__: object) -> list[tuple[str, str]]:
        played.append((name, variables.get("scale_regionservers")))
        if len(played) in (2, 4):
            raise DeployError("the power is cut")
        return []

    monkeypatch.setattr(controller.deploy, "run_playbook", play)
    settings = {"hbase.heap_mb": 300}
    deploy(inventory, settings, state_dir=state, progress=quiet)
    for _ in range(2):
        asked = deployed_settings(state) | {"regionservers": 2}
        with contextlib.suppress(DeployError):
            scale(inventory, asked, state_dir=state, progress=quiet)
        assert deployed_settings(state) == settings | {"regionservers": 2}
    with pytest.raises(DeployError, match="power"):
        scale(inventory, settings | {"regionservers": 3}, state_dir=state, progress=quiet)
    # Servers that were being added or removed are all of them in the end, and regions have to be spread over them.
    for _ in range(2):
        deploy(inventory, settings, state_dir=state, progress=quiet)
    scalings = [("scale", 2), ("scale", 2), ("scale", 3), ("scale", 3)]
    assert played == [("site", None), *scalings, ("site", None)]


class Power:
    """In the place of Ansible: notes what it is to play; cut, it ends in the middle of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cut = False
        self.played = list[str]()
        monkeypatch.setattr(HBase, "wait_ready", lambda *_: None)
        monkeypatch.setattr(controller.deploy, "run_playbook", self.play)

    def play(self, name: str, *_: object, **__: object) -> list[tuple[str, str]]:
        self.played.append(name)
        if self.cut:
            raise DeployError("the power is cut")
        return []


def test_a_cluster_is_there_from_the_end_of_its_first_deployment_until_somebody_takes_it_down(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it may have data. What was begun and not ended belongs to whoever completes it."""
    state, power = tmp_path / "state", Power(monkeypatch)
    steps: list[tuple[Callable[[], object], bool, bool]] = [
        (lambda: deploy(inventory, {}, state_dir=state, progress=quiet), True, False),
        (lambda: deploy(inventory, {}, state_dir=state, progress=quiet), False, True),
        (lambda: deploy(inventory, {"hbase.heap_mb": 300}, state_dir=state, progress=quiet), True, True),
        (lambda: scale(inventory, {"regionservers": 2}, state_dir=state, progress=quiet), True, True),
        (lambda: destroy(inventory, state_dir=state, progress=quiet), True, False),
        (lambda: deploy(inventory, {}, state_dir=state, progress=quiet), False, True),
        (lambda: destroy(inventory, state_dir=state, progress=quiet), False, False),
    ]
    is_there = controller.deploy.is_there
    assert not is_there(state)
    for number, (step, power.cut, expected) in enumerate(steps):
        with pytest.raises(DeployError, match="power") if power.cut else contextlib.nullcontext():
            step()
        assert is_there(state) == expected, number


@pytest.mark.parametrize(
    ("settings", "played"),
    [({}, ["site", "site"]), ({"regionservers": 2}, ["site", "teardown", "site"])],
)
def test_what_was_deployed_by_half_is_completed_or_replaced(
    inventory: Inventory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    played: list[str],
) -> None:
    state, power = tmp_path / "state", Power(monkeypatch)
    power.cut = True
    with pytest.raises(DeployError, match="power"):
        deploy(inventory, {}, state_dir=state, progress=quiet)
    power.cut = False
    deploy(inventory, settings, state_dir=state, progress=quiet)
    assert power.played == played
    with pytest.raises(DeployError, match="take it down first"):
        deploy(inventory, {"hbase.storage": "local"}, state_dir=state, progress=quiet)
    assert power.played == played, "one that has been there is never taken down unasked"


def test_a_cluster_that_serves_is_left_alone_until_its_certificates_near_their_end(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, database, played = tmp_path / "state", HBase(inventory, {}), list[str]()
    monkeypatch.setattr(HBase, "wait_ready", lambda *_: None)
    monkeypatch.setattr(HBase, "live_servers", lambda _: ("node1", "node2", "node3"))
    monkeypatch.setattr(socket, "create_connection", lambda *_: socket.socket())

    def play(name: str, *_: object, **__: object) -> list[tuple[str, str]]:
        played.append(name)
        return []

    monkeypatch.setattr(controller.deploy, "run_playbook", play)

    def ask() -> list[str]:
        ensure_deployed(inventory, {}, state_dir=state, progress=quiet, database=database)
        return played

    assert ask() == ["site"]
    assert ask() == ["site"]
    addresses = {node.name: node.address for node in inventory.nodes}
    shutil.rmtree(state / "pki")
    ensure_pki(state / "pki", addresses, now=dt.datetime.now(dt.UTC) - VALID_FOR + RENEW_BEFORE)
    assert ask() == ["site", "site"]
    assert ensure_pki(state / "pki", addresses) == []
    assert ask() == ["site", "site"]


def test_a_state_folder_that_is_a_file(inventory: Inventory, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(DeployError, match="cannot be used"):
        deploy(inventory, {}, state_dir=tmp_path / "state", progress=quiet)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"stderr": "one message\n", "msg": "non-zero return code"}, "one message"),
        ({"msg": "no such file"}, "no such file"),
        ({"argument_errors": ["a is missing", "b is wrong"]}, "a is missing; b is wrong"),
        ({}, "no message"),
    ],
)
def test_the_message_of_a_failed_task(result: dict[str, object], expected: str) -> None:
    assert message_of(result) == expected


def fails(inventory: Inventory, settings: dict[str, object], state: Path) -> StrataError:
    """The error of a deploy that must fail; what it left is taken down."""
    try:
        with pytest.raises(DeployError) as caught:
            deploy(inventory, {"agents": False} | settings, state_dir=state, progress=quiet)
    finally:
        destroy(inventory, state_dir=state, progress=quiet)
    assert caught.value.exit_code == 3
    return caught.value


def test_an_unreachable_node_is_named(tmp_path: Path) -> None:
    def far_away(content: dict[str, Any]) -> None:
        node = content["children"]["hbase_regionserver"]["hosts"]["node2"]
        node |= {"ansible_connection": "ssh", "ansible_host": "127.0.77.99", "ansible_port": 1}

    inventory = copy_inventory(tmp_path, change=far_away)
    state = tmp_path / "state"
    with pytest.raises(DeployError) as caught:
        deploy(inventory, {"agents": False}, state_dir=state, progress=quiet)
    assert caught.value.node == "node2"
    assert "unreachable" in caught.value.what
    assert caught.value.log and Path(caught.value.log).exists()
    with pytest.raises(DeployError, match="unreachable"):
        destroy(inventory, state_dir=state, progress=quiet)
    assert not any((state / "nodes").glob("*")), "the reachable nodes are cleared nevertheless"


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    def elsewhere(content: dict[str, Any]) -> None:
        content["children"]["clients"]["hosts"]["client2"]["strata_address"] = "192.0.2.9"

    error = fails(copy_inventory(tmp_path, change=elsewhere), {}, tmp_path / "state")
    assert error.node == "client2"
    assert "192.0.2.9 is not an address of this node" in error.what


def test_a_jar_that_cannot_be_had_is_named(inventory: Inventory, tmp_path: Path) -> None:
    error = fails(inventory, {"hbase.version": "0.0.0-none", "cache": str(tmp_path / "cache")}, tmp_path / "state")
    assert "hbase-server:jar:0.0.0-none" in error.what
    assert "Maven" in error.hint


def test_a_full_disk_is_said(inventory: Inventory, tmp_path: Path) -> None:
    group = inventory.path / "group_vars" / "all.yml"
    group.write_text(group.read_text(encoding="utf-8") + "\ncommon_min_disk_mb: 999999999\n", encoding="utf-8")
    error = fails(load_inventory(inventory.path), {}, tmp_path / "state")
    assert "disk full" in error.what
    assert "room" in error.hint


def listening(address: str) -> bool:
    """Whether something listens on an address of this machine, as `ss` sees it."""
    return address in subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout


@pytest.mark.cluster
def test_a_port_in_use_is_named_with_its_owner(inventory: Inventory, tmp_path: Path) -> None:
    listener = subprocess.Popen(
        ["python3", "-c", f"import socket; s = socket.create_server(('{NETWORK}12', 16020)); s.accept()"]
    )
    try:
        deadline = time.monotonic() + 10
        while not listening(f"{NETWORK}12:16020") and time.monotonic() < deadline:
            time.sleep(0.05)
        error = fails(inventory, {}, tmp_path / "state")
    finally:
        listener.kill()
        listener.wait()
    assert error.node == "node2"
    assert f"port {NETWORK}12:16020, but process {listener.pid} (python3) uses it" in error.what
