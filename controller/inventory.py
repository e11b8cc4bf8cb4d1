"""Which nodes there are, as Ansible understands the inventory."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from controller.ansible_environment import environment
from controller.errors import ConfigError
from controller.pki import AUTHORITY, CONTROLLER

CLIENT_GROUP = "clients"
Role = Literal["master", "database", "client"]
DEFAULT_AGENT_PORT = 7420
#: Database -> its groups and what their nodes do in a run. An inventory is of one database.
GROUPS: dict[str, dict[str, Role]] = {
    "hbase": {"hbase_master": "master", "hbase_regionserver": "database"},
    "arangodb": {"arangodb": "database"},
}
ROLES: dict[str, Role] = {group: role for groups in GROUPS.values() for group, role in groups.items()} | {
    CLIENT_GROUP: "client"
}


@dataclass(frozen=True)
class Node:
    """One host of the inventory. ``address`` is the literal that its servers listen on."""

    name: str
    address: str
    groups: frozenset[str]
    variables: Mapping[str, Any]

    @property
    def roles(self) -> tuple[Role, ...]:
        """What the node does in a run."""
        return tuple(role for group, role in ROLES.items() if group in self.groups)

    @property
    def agent_port(self) -> int:
        """Where the node's agent listens."""
        return int(self.variables.get("agent_port", DEFAULT_AGENT_PORT))

    @property
    def is_local(self) -> bool:
        """Whether the node is this machine, without ssh."""
        return self.variables.get("ansible_connection") == "local"


@dataclass(frozen=True)
class Inventory:
    """``path`` as given; ``nodes`` in the inventory's order."""

    path: Path
    nodes: tuple[Node, ...]

    def in_group(self, group: str) -> tuple[Node, ...]:
        """The group's nodes, in the inventory's order."""
        return tuple(node for node in self.nodes if group in node.groups)

    @property
    def name(self) -> str:
        """What its state is kept under: the name of its folder, or of its file without the ending."""
        return self.path.stem

    @property
    def database(self) -> str:
        """Whose groups it has: a key of ``GROUPS``."""
        return _database({group for node in self.nodes for group in node.groups}, self.path)

    @property
    def master(self) -> Node:
        """HBase's node of ZooKeeper, NameNode and master."""
        return next(node for node in self.nodes if "master" in node.roles)

    @property
    def database_nodes(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if "database" in node.roles)

    @property
    def clients(self) -> tuple[Node, ...]:
        return self.in_group(CLIENT_GROUP)

    def node(self, name: str) -> Node:
        """The node with this name; ConfigError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise ConfigError(f"no node {name!r} in inventory {self.path}", hint=f"nodes: {self._names()}")

    def _names(self) -> str:
        return ", ".join(node.name for node in self.nodes)


def load_inventory(path: Path | str) -> Inventory:
    """Reads an inventory file or folder (then its ``hosts.yml``). ConfigError when it cannot be used."""
    given = Path(path)
    source = given / "hosts.yml" if given.is_dir() else given
    if not source.exists():
        what = f"no inventory at {given}" if source == given else f"inventory {given}: the folder has no hosts.yml"
        raise ConfigError(what, hint="give a file or folder with -i, such as inventories/local")
    listing = _ask_ansible(source)
    groups = {name: _members(listing, name) for name in listing if name != "_meta"}
    variables = listing.get("_meta", {}).get("hostvars", {})
    database = _database({name for name, members in groups.items() if members}, given)
    required = (*GROUPS[database], CLIENT_GROUP)
    names = list(dict.fromkeys(name for group in (*required, "all") for name in groups.get(group, ())))
    for group in required:
        if not groups.get(group):
            raise ConfigError(f"inventory {given}: group {group} is missing or empty", hint=_groups_hint(database))
    nodes = tuple(_node(name, groups, variables.get(name, {}), given) for name in names)
    _require_distinct_addresses(nodes, given)
    _require_names_of_their_own(nodes, given)
    return Inventory(given.resolve(), nodes)


def _database(groups: set[str], given: Path) -> str:
    """The database whose groups are there; HBase when none is, so that the error names what is missing."""
    found = [name for name, needed in GROUPS.items() if groups & needed.keys()]
    if len(found) > 1:
        raise ConfigError(f"inventory {given}: it has groups of {' and '.join(found)}", hint="an inventory for each")
    return found[0] if found else "hbase"


def _groups_hint(database: str) -> str:
    example = {"hbase": "local", "arangodb": "example-arangodb-3"}[database]
    return f"it needs the groups {', '.join((*GROUPS[database], CLIENT_GROUP))}; see inventories/{example}/hosts.yml"


def _ask_ansible(source: Path) -> dict[str, Any]:
    command = ["ansible-inventory", "-i", str(source), "--list"]
    # A file that is no inventory must be an error and not a host with a strange name.
    strict = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_INVENTORY_ENABLED": "yaml,ini"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment() | strict)
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        # The reason stands in a warning of the first plugin that tried, the error names the file only.
        why = [line.partition(" plugin: ")[2] for line in lines if "Failed to parse inventory with" in line]
        said = [*filter(None, why), *(line for line in lines if "ERROR" in line), *lines, "unknown error"]
        raise ConfigError(f"inventory {source} cannot be read: {said[0]}")
    listing: dict[str, Any] = json.loads(done.stdout)
    return listing


def _members(listing: dict[str, Any], group: str) -> list[str]:
    """The hosts of a group and of its children."""
    entry = listing.get(group, {})
    names = list(entry.get("hosts", ()))
    for child in entry.get("children", ()):
        names += _members(listing, child)
    return list(dict.fromkeys(names))


def _node(name: str, groups: dict[str, list[str]], variables: dict[str, Any], path: Path) -> Node:
    address = variables.get("strata_address")
    try:
        # HBase's settings and the agents' addresses are written as HOST:PORT, in which an IPv6 literal is ambiguous.
        ipaddress.IPv4Address(str(address))
    except ValueError as error:
        what = "strata_address is missing" if address is None else f"{address!r} is not an IPv4 address"
        raise ConfigError(
            f"inventory {path}: {what}", node=name, hint="strata_address is the IPv4 address of the node, as a literal"
        ) from error
    try:
        int(variables.get("agent_port", DEFAULT_AGENT_PORT))
    except (TypeError, ValueError) as error:
        port = variables["agent_port"]
        raise ConfigError(f"inventory {path}: agent_port={port!r} is not a whole number", node=name) from error
    mine = frozenset(group for group, members in groups.items() if name in members)
    return Node(name, str(address), mine, variables)


def _require_distinct_addresses(nodes: tuple[Node, ...], path: Path) -> None:
    seen: dict[str, str] = {}
    for node in nodes:
        if node.address in seen:
            raise ConfigError(
                f"inventory {path}: {node.address} is also the address of {seen[node.address]}",
                node=node.name,
            )
        seen[node.address] = node.name


def _require_names_of_their_own(nodes: tuple[Node, ...], path: Path) -> None:
    """A node's certificate and key are files of its name, beside those of the authority and of the controller."""
    taken = dict.fromkeys((AUTHORITY, CONTROLLER), "of a certificate of the deployment")
    keys = {f"{name}-key": f"of the key of {name}" for name in (*taken, *(node.name for node in nodes))}
    for node in nodes:
        if node.name in taken | keys:
            what = (taken | keys)[node.name]
            raise ConfigError(f"inventory {path}: this name is that {what}", node=node.name, hint="name it otherwise")
