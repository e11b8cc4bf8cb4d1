"""What HBase's side of a deployment says without a cluster: settings, ports, durability, the probe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.databases.base import Database
from controller.databases.hbase import HBase
from controller.databases.hbase_settings import SETTINGS
from controller.databases.probe import probe
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory, load_inventory

LOCAL = Path(__file__).resolve().parents[2] / "inventories" / "local"


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    return load_inventory(LOCAL)


def test_settings_become_role_variables() -> None:
    assert SETTINGS.role_variables(
        {
            "hbase.storage": "local",
            "regionservers": "2",
            "hdfs.replication": 1,
            "hbase.settings": {"a": 1},
            "hbase.settings.hbase.wal.hsync": "true",
            "agents": "false",
        }
    ) == {
        "hbase_storage": "local",
        "hbase_regionserver_count": 2,
        "hdfs_replication": 1,
        "hbase_settings": {"a": 1, "hbase.wal.hsync": "true"},
        "strata_agent_enabled": False,
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"hbase.storge": "hdfs"}, "did you mean hbase.storage"),
        ({"xyzzy": 1}, "known: agents"),
        ({"hbase.storage": "s3"}, "expected hdfs or local"),
        ({"regionservers": 0}, "whole number from 1"),
        ({"regionservers": -1}, "whole number from 1"),
        ({"regionservers": 1.5}, "whole number from 1"),
        ({"hdfs.replication": "two"}, "whole number from 1"),
        ({"hbase.settings": "a=b"}, "expected properties"),
        ({"agents": "perhaps"}, "true or false"),
    ],
)
def test_bad_settings(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SETTINGS.role_variables(settings)
    assert expected in str(caught.value)


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS.known)) | st.text(), anything))
def test_any_setting_is_read_or_refused(settings: dict[str, Any]) -> None:
    try:
        variables = SETTINGS.role_variables(settings)
    except ConfigError as error:
        assert error.exit_code == 2
    else:
        assert set(variables) <= {setting.variable for setting in SETTINGS.known.values()} | {
            "hbase_settings",
            "hdfs_settings",
        }


def test_hbase_as_deployed(inventory: Inventory) -> None:
    database: Database = HBase(inventory, {"regionservers": 2, "hbase.settings": {"hbase.wal.hsync": True}})
    assert database.settings() == {
        "hbase.zookeeper.quorum": "127.0.0.10",
        "hbase.zookeeper.property.clientPort": "2181",
    }
    assert database.ports()["node2"] == ("127.0.0.12:16020",)
    assert "node3" not in database.ports()
    assert database.durability() == {
        "hbase.storage": "hdfs",
        "hdfs.replication": 2,
        "hbase.wal.hsync": True,
        "hbase.wal.provider": "default",
    }
    assert database.version == "2.6.4-hadoop3"


def test_local_storage_has_no_replication(inventory: Inventory) -> None:
    database = HBase(inventory, {"hbase.storage": "local"})
    assert "hdfs.replication" not in database.durability()
    assert "127.0.0.10:8020" not in database.ports()["master"]


def test_nothing_deployed(inventory: Inventory) -> None:
    elsewhere = HBase(_moved(inventory), {})
    assert elsewhere.server_ids() == {}
    with pytest.raises(DeployError, match=r"ZooKeeper does not answer on 127\.0\.0\.10:1"):
        elsewhere.wait_ready(0.3)


def _moved(inventory: Inventory) -> Inventory:
    nodes = tuple(
        type(node)(node.name, node.address, node.groups, {**node.variables, "zookeeper_port": 1})
        for node in inventory.nodes
    )
    return Inventory(inventory.path, nodes)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def write(script: str) -> Path:
        path = tmp_path / "ycsb-admin"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


def test_the_probe_gets_what_a_client_needs(
    inventory: Inventory, program: Callable[[str], Path], tmp_path: Path
) -> None:
    script = 'echo "$1 $2 $3" > arguments; cat "$4" > properties; stat -c %a $(dirname "$4") > mode'
    known = HBase(inventory, {})
    probe(known.name, known.binding, known.settings(), 10, admin=program(f"cd {tmp_path}; {script}"))
    assert (tmp_path / "arguments").read_text(encoding="utf-8").split() == ["hbase2", "probe", "-P"]
    assert (tmp_path / "properties").read_text(encoding="utf-8").split() == [
        "hbase.zookeeper.quorum=127.0.0.10",
        "hbase.zookeeper.property.clientPort=2181",
    ]
    assert (tmp_path / "mode").read_text() == "700\n", "there may be a secret in it"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo first >&2; echo no such table >&2; exit 3", "no such table"),
        ("exit 3", "exit code 3"),
        ("sleep 9", "within"),
    ],
)
def test_a_failed_probe_is_a_deploy_error(
    inventory: Inventory, program: Callable[[str], Path], script: str, expected: str
) -> None:
    with pytest.raises(DeployError, match=expected):
        probe("HBase", "hbase2", {}, 0.5, admin=program(script))


def test_a_missing_client_says_what_to_build(inventory: Inventory) -> None:
    with pytest.raises(DeployError, match="make setup"):
        probe("HBase", "hbase2", {}, 1, admin=Path("/no/such/ycsb-admin"))


def test_a_number_of_the_inventory_that_is_none_is_named(inventory: Inventory) -> None:
    master = dataclasses.replace(inventory.master, variables={"zookeeper_port": [1]})
    nodes = tuple(master if node.name == master.name else node for node in inventory.nodes)
    with pytest.raises(ConfigError, match=r"zookeeper_port=\[1\] is not a whole number"):
        HBase(dataclasses.replace(inventory, nodes=nodes), {}).settings()
