"""HBase on HDFS or on one shared folder: where servers listen, whether they live, what a write survives."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from controller.databases.hbase_regions import split_points
from controller.databases.hbase_settings import SETTINGS
from controller.databases.probe import probe
from controller.databases.settings import Values
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory, Node

DEFAULT_VERSION = "2.6.4-hadoop3"
ZNODE_SERVERS = "/hbase/rs"
ZNODE_MASTER = "/hbase/master"
# Written by the master when the first system table can be reached, without which no request is answered.
ZNODE_META = "/hbase/meta-region-server"
POLL_S = 0.2
CONNECT_S = 5.0
# The defaults of the roles, for inventories that leave them.
PORTS = {
    "zookeeper_port": 2181,
    "hdfs_namenode_port": 8020,
    "hbase_master_port": 16000,
    "hbase_regionserver_port": 16020,
}

# A database that is still starting is no news: kazoo would report every refused connection.
_quiet = logging.getLogger("stratabench.zookeeper")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class HBase:
    """An HBase deployment as the inventory and the deployment settings describe it."""

    name = "HBase"
    binding = "hbase2"
    server_task = "Start the region server"

    def __init__(self, inventory: Inventory, settings: Mapping[str, Any]) -> None:
        self._variables = SETTINGS.role_variables(settings)
        self._inventory = inventory
        self._master = inventory.master
        self._values = Values(self._variables, self._master)
        self._count: int = self._variables.get("hbase_regionserver_count", len(inventory.database_nodes))
        self.servers: tuple[Node, ...] = inventory.database_nodes[: self._count]

    def _port(self, name: str) -> int:
        return self._values.whole_number(name, PORTS[name])

    @property
    def version(self) -> str:
        return str(self._values.get("hbase_dist_version", DEFAULT_VERSION))

    @property
    def on_hdfs(self) -> bool:
        return bool(self._values.get("hbase_storage", "hdfs") == "hdfs")

    def role_variables(self) -> dict[str, Any]:
        """As the constructor has read them."""
        return self._variables

    def shape(self) -> dict[str, str]:
        """Enough servers for what is asked for; the storage cannot be changed."""
        available = len(self._inventory.database_nodes)
        if self._count > available:
            raise ConfigError(f"{self._count} region servers are asked for, the inventory has {available}")
        replication = self._values.get("hdfs_replication", 3)
        if not str(replication).isdecimal():
            raise ConfigError(
                f"inventory {self._inventory.path}: hdfs_replication is {replication!r}, not a whole number"
            )
        if self.on_hdfs and int(replication) > self._count:
            raise ConfigError(
                f"{replication} copies of each block need as many DataNodes, {self._count} are deployed",
                hint=f"--set hdfs.replication={self._count}",
            )
        return {"storage": str(self._values.get("hbase_storage", "hdfs"))}

    def settings(self) -> dict[str, str]:
        """Properties for the client."""
        return {
            "hbase.zookeeper.quorum": self._master.address,
            "hbase.zookeeper.property.clientPort": str(self._port("zookeeper_port")),
        }

    def table_properties(self) -> dict[str, str]:
        """Regions are split before the load, evenly over the servers: see ``hbase_regions``."""
        regions = self._values.whole_number("hbase_regions_per_server", 4) * len(self.servers)
        return {"columnfamily": "family", "hbase.table.splitpoints": ",".join(split_points(regions))}

    def trace_by(self) -> Literal["device", "process"]:
        """On HDFS each DataNode has its own data; on one shared folder only the process tells."""
        return "device" if self.on_hdfs else "process"

    @property
    def has_locality(self) -> bool:
        return self.on_hdfs

    def ports(self) -> dict[str, tuple[str, ...]]:
        """Those that clients and the other nodes connect to."""
        master = ["zookeeper_port", "hbase_master_port", *(["hdfs_namenode_port"] if self.on_hdfs else [])]
        listening = {self._master.name: tuple(f"{self._master.address}:{self._port(name)}" for name in master)}
        for node in self.servers:
            listening[node.name] = (f"{node.address}:{self._port('hbase_regionserver_port')}",)
        return listening

    def durability(self) -> dict[str, str | int | bool]:
        """With HDFS a write is in the memory of so many DataNodes as there are copies; with hsync on disk."""
        properties = self._values.get("hbase_settings", {})
        known: dict[str, str | int | bool] = {"hbase.storage": "hdfs" if self.on_hdfs else "local"}
        if self.on_hdfs:
            known["hdfs.replication"] = int(self._values.get("hdfs_replication", 3))
        known["hbase.wal.hsync"] = str(properties.get("hbase.wal.hsync", False)).lower() == "true"
        known["hbase.wal.provider"] = str(properties.get("hbase.wal.provider", "default"))
        return known

    def live_servers(self) -> tuple[str, ...]:
        """Nodes whose region servers hold a session in ZooKeeper. DeployError when that does not answer."""
        with self._zookeeper() as zookeeper:
            return tuple(sorted(set(self._ids(zookeeper).values())))

    def server_ids(self) -> dict[str, str]:
        """``ADDRESS,PORT,START`` of each region server -> node; empty when ZooKeeper does not listen."""
        try:
            socket.create_connection((self._master.address, self._port("zookeeper_port")), 1.0).close()
            with self._zookeeper() as zookeeper:
                return self._ids(zookeeper)
        except (OSError, DeployError):
            return {}

    def _ids(self, zookeeper: KazooClient) -> dict[str, str]:
        try:
            return {child: self._node_name(child) for child in zookeeper.get_children(ZNODE_SERVERS)}
        except NoNodeError:
            return {}

    def _node_name(self, server: str) -> str:
        """``127.0.0.11,16020,1700000000000`` -> ``node1``; a stranger keeps its own name."""
        address = server.partition(",")[0]
        return next((node.name for node in self.servers if node.address == address), server)

    @contextlib.contextmanager
    def _zookeeper(self, timeout_s: float = CONNECT_S) -> Iterator[KazooClient]:
        endpoint = f"{self._master.address}:{self._port('zookeeper_port')}"
        client = KazooClient(hosts=endpoint, logger=_quiet, read_only=True)
        try:
            client.start(timeout=timeout_s)
            yield client
        except (KazooException, KazooTimeoutError) as error:
            what = f"ZooKeeper does not answer on {endpoint}"
            raise DeployError(what, node=self._master.name, hint="deploy first: strata deploy") from error
        finally:
            client.stop()
            client.close()

    def wait_ready(self, timeout_s: float = 120.0, dead: Collection[str] = ()) -> None:
        """All region servers alive, a master, the meta table assigned, then a put and a get.

        A killed server keeps its session for six seconds: ``dead`` must have gone before this returns.
        """
        deadline = time.monotonic() + timeout_s
        with self._zookeeper(timeout_s) as zookeeper:
            while missing := self._missing(zookeeper, dead):
                if time.monotonic() >= deadline:
                    raise DeployError(
                        f"HBase is not ready after {timeout_s:.0f} s: no {missing}",
                        node=self._master.name,
                        hint="read the logs of the nodes, then deploy again",
                    )
                time.sleep(POLL_S)
        left_s = max(deadline - time.monotonic(), 30.0)
        probe(self.name, self.binding, self.settings(), left_s, node=self._master.name)

    def _missing(self, zookeeper: KazooClient, dead: Collection[str]) -> str:
        """What is not there yet; empty when all is."""
        try:
            return self._not_alive(zookeeper, dead)
        except (ConnectionLoss, OperationTimeoutError, SessionExpiredError):
            # kazoo connects again by itself; a starting machine may be slow for longer than a session.
            return "lasting connection to ZooKeeper"

    def _not_alive(self, zookeeper: KazooClient, dead: Collection[str]) -> str:
        ids = self._ids(zookeeper)
        absent = {node.name for node in self.servers} - {ids[server] for server in ids.keys() - set(dead)}
        if absent:
            return f"live region server on {', '.join(sorted(absent))}"
        if ids.keys() & set(dead):
            return "end of the sessions of servers that have ended"
        if not zookeeper.exists(ZNODE_MASTER):
            return "active master"
        return "" if zookeeper.exists(ZNODE_META) else "meta table"

    @contextlib.contextmanager
    def watch_servers(self, lost: Callable[[str], None]) -> Iterator[None]:
        """Calls ``lost(node)`` from ZooKeeper's thread; a dead server is seen when its session ends (6 s)."""
        seen: set[str] = set()
        guard = threading.Lock()

        def changed(children: list[str]) -> None:
            with guard:
                gone = seen - set(children)
                seen.clear()
                seen.update(children)
            for server in sorted(gone):
                lost(self._node_name(server))

        with self._zookeeper() as zookeeper:
            zookeeper.ChildrenWatch(ZNODE_SERVERS, changed)
            yield
