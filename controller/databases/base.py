"""What stratabench asks of a database; one module of this package answers it for one database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from controller.inventory import Node


class Database(Protocol):
    """A deployed database. All methods may be called from any thread; none prints anything."""

    @property
    def name(self) -> str:
        """For people, such as ``HBase``."""

    @property
    def binding(self) -> str:
        """Name of the client's binding, such as ``hbase2``."""

    @property
    def version(self) -> str:
        """The version that is deployed."""

    @property
    def servers(self) -> tuple[Node, ...]:
        """The nodes whose data servers are, or are to be, deployed."""

    def role_variables(self) -> Mapping[str, Any]:
        """The deployment settings as variables of our Ansible roles."""

    def shape(self) -> Mapping[str, str]:
        """What cannot be changed without losing data. ConfigError for a cluster that cannot be."""

    def settings(self) -> dict[str, str]:
        """The properties that a client needs to find the database, secrets among them: never to be written down."""

    def table_properties(self) -> dict[str, str]:
        """The properties that make a table, with its pre-split points."""

    def trace_by(self) -> Literal["device", "process"]:
        """How a node's I/O is told from the others': by its own disk, or by the database's processes."""

    @property
    def has_locality(self) -> bool:
        """Whether a server's data can lie on its own node or on another; not so where all share one folder."""

    def ports(self) -> dict[str, tuple[str, ...]]:
        """Node name -> the ``ADDRESS:PORT`` that its servers listen on."""

    def durability(self) -> Mapping[str, str | int | bool]:
        """What an acknowledged write has survived, for the manifest: the settings that decide it."""

    @property
    def server_task(self) -> str:
        """Name of the task in our roles that starts a data server."""

    def server_ids(self) -> Mapping[str, str]:
        """Id of each server process that the database takes for alive -> node; empty without an answer."""

    def live_servers(self) -> tuple[str, ...]:
        """Names of the nodes whose data servers are alive, as the database itself sees it."""

    def wait_ready(self, timeout_s: float, dead: Collection[str] = ()) -> None:
        """Returns when all data servers are alive and a row was written and read back; else DeployError.

        ``dead``: ids of servers that have ended, whatever the database still believes.
        """

    def watch_servers(self, lost: Callable[[str], None]) -> AbstractContextManager[None]:
        """While the context is open, calls ``lost(node)`` once for each data server that disappears."""
