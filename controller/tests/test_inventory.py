"""The inventory as Ansible reads it, or one clear ConfigError."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli import main
from controller.errors import ConfigError
from controller.inventory import load_inventory

LOCAL = Path(__file__).resolve().parents[2] / "inventories" / "local"
GROUPS = """
all:
  children:
    hbase_master: {{hosts: {{m: {{strata_address: {master}}}}}}}
    hbase_regionserver: {{hosts: {{n1: {{strata_address: {first}}}, n2: {{strata_address: {second}}}}}}}
    clients: {{hosts: {{c1: {{strata_address: 127.0.0.9}}}}}}
"""


def write(folder: Path, master: str = "127.0.0.1", first: str = "127.0.0.2", second: str = "127.0.0.3") -> Path:
    path = folder / "hosts.yml"
    path.write_text(GROUPS.format(master=master, first=first, second=second), encoding="utf-8")
    return path


# Table of the study: client on, masters on, region server on.
PLACEMENTS = {
    1: ({"hpcdmc"}, "hpcdmc", "hpcdmc"),
    2: ({"n01"}, "hpcdmc", "hpcdmc"),
    3: ({"n01", "n02"}, "hpcdmc", "hpcdmc"),
    4: ({"n01"}, "hpcdmc", "n02"),
    5: ({"n01", "n02"}, "hpcdmc", "n03"),
}


@pytest.mark.parametrize("scenario", PLACEMENTS)
def test_the_placements_of_the_study(scenario: int) -> None:
    clients, master, server = PLACEMENTS[scenario]
    inventory = load_inventory(LOCAL.parent / "example-hbase-placements" / f"scenario-{scenario}.yml")
    assert inventory.name == f"scenario-{scenario}"
    assert {node.name for node in inventory.clients} == clients
    assert inventory.master.name == master
    assert [node.name for node in inventory.database_nodes] == [server]
    assert {node.name for node in inventory.in_group("agents")} == clients | {server}
    assert {node.variables["strata_root"] for node in inventory.nodes} == {"/var/lib/stratabench"}  # of its group_vars
    command = ["validate", "hbase-placement", "--set", "scale=many-threads", "-i", str(inventory.path)]
    assert main(command) == 0


def test_the_local_inventory() -> None:
    inventory = load_inventory(LOCAL)
    assert inventory.master.name == "master"
    assert [node.name for node in inventory.database_nodes] == ["node1", "node2", "node3"]
    assert [node.address for node in inventory.clients] == ["127.0.0.21", "127.0.0.22"]
    assert [node.name for node in inventory.in_group("agents")] == [
        "node1",
        "node2",
        "node3",
        "client1",
        "client2",
    ]
    assert all(node.is_local for node in inventory.nodes)
    assert inventory.node("node2").variables["hdfs_replication"] == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_VARS_ENABLED", ""),
        ("ANSIBLE_INVENTORY_IGNORE", ".yml"),
        ("ANSIBLE_INVENTORY_EXPORT", "true"),
        ("ANSIBLE_DEBUG", "true"),
        ("ANSIBLE_CONFIG", "theirs.cfg"),
    ],
)
def test_the_users_settings_of_ansible_change_no_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    before = load_inventory(LOCAL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.cfg").write_text("[defaults]\nvars_plugins_enabled =\n")
    monkeypatch.setenv(name, value)
    assert load_inventory(LOCAL) == before


def test_order_is_the_inventorys(tmp_path: Path) -> None:
    assert [node.name for node in load_inventory(write(tmp_path)).nodes] == ["m", "n1", "n2", "c1"]


def test_a_stranger_is_no_node(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no node 'n9'"):
        load_inventory(write(tmp_path)).node("n9")


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ({"first": "somewhere"}, "n1: .*'somewhere' is not an IPv4 address"),
        ({"first": "fd00::1"}, "n1: .*'fd00::1' is not an IPv4 address"),
        ({"second": "127.0.0.2"}, "n2: .*127.0.0.2 is also the address of n1"),
        ({"master": "null"}, "m: .*strata_address is missing"),
    ],
)
def test_bad_addresses(tmp_path: Path, addresses: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_inventory(write(tmp_path, **addresses))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("controller", "controller: .*of a certificate of the deployment"),
        ("ca", "ca: .*of a certificate of the deployment"),
        ("ca-key", "ca-key: .*of the key of ca"),
        ("n1-key", "n1-key: .*of the key of n1"),
        ("my-key", ""),
    ],
)
def test_a_name_whose_files_are_somebody_elses(tmp_path: Path, name: str, expected: str) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("c1:", f"{name}:"), encoding="utf-8")
    if expected:
        with pytest.raises(ConfigError, match=expected):
            load_inventory(path)
    else:
        assert load_inventory(path).node(name)


@pytest.mark.parametrize("port", ["usual", "'{{ 7420 + 1 }}'", "null"])
def test_a_port_that_is_no_number(tmp_path: Path, port: str) -> None:
    path = write(tmp_path, second=f"127.0.0.3, agent_port: {port}")
    with pytest.raises(ConfigError, match=r"n2: .*agent_port="):
        load_inventory(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "cannot be read|is missing or empty"),
        (
            "all: {children: {hbase_master: {hosts: {m: {strata_address: 127.0.0.1}}}}}",
            "hbase_regionserver is missing",
        ),
        ("all: [this is\n no: inventory", "cannot be read: YAML parsing failed"),
        ("- a\n- b\n", "cannot be read"),
    ],
)
def test_what_is_no_inventory(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=expected):
        load_inventory(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no inventory at"):
        load_inventory(tmp_path / "nowhere")
