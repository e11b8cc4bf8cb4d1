"""An ArangoDB cluster made by its starter: a coordinator, a DB server and an agent of the agency on each node.

Tested against a stand-in for its HTTP API only (docs/status.md). What is asked: ``/_admin/cluster/health`` and
``/_api/version`` (ArangoDB's HTTP API, 3.11 and later), with a token signed by the secret that the servers share
(their "superuser JWT").
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from controller.databases.arangodb_settings import SETTINGS
from controller.databases.probe import probe
from controller.databases.settings import Values
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory, Node

STARTER_PORT = 8528
#: What the starter adds to its own port for the servers that it runs (ArangoDB's documentation of the starter).
COORDINATOR, DB_SERVER = 1, 2
TOKEN_S = 7 * 24 * 3600
POLL_S = 0.5
ANSWER_S = 5.0


class ArangoDB:
    """An ArangoDB deployment as the inventory and the deployment settings describe it."""

    name = "ArangoDB"
    binding = "arangodb"
    server_task = "Start the ArangoDB starter"
    #: Where the shards of a collection lie is not asked.
    has_locality = False

    def __init__(self, inventory: Inventory, settings: Mapping[str, Any], state_dir: Path) -> None:
        self._variables = SETTINGS.role_variables(settings)
        self._inventory = inventory
        self._state_dir = state_dir
        self.servers: tuple[Node, ...] = inventory.database_nodes
        self._values = Values(self._variables, self.servers[0])

    def _port(self, offset: int) -> int:
        return self._values.whole_number("arangodb_starter_port", STARTER_PORT) + offset

    @property
    def _tls(self) -> bool:
        return self._values.flag("arangodb_tls", True)

    @property
    def _replication(self) -> int:
        return self._values.whole_number("arangodb_replication", 1)

    @property
    def _write_concern(self) -> int:
        return self._values.whole_number("arangodb_write_concern", 1)

    @property
    def _waits_for_sync(self) -> bool:
        return self._values.flag("arangodb_wait_for_sync", False)

    @property
    def version(self) -> str:
        """As a coordinator says; "unknown" while none answers: packages are named by an address."""
        with contextlib.suppress(DeployError):
            return str(self._ask("/_api/version").get("version", "unknown"))
        return "unknown"

    def role_variables(self) -> dict[str, Any]:
        """As the constructor has read them."""
        return self._variables

    def shape(self) -> dict[str, str]:
        """TLS is part of the addresses that the agency keeps."""
        copies, available = self._replication, len(self.servers)
        if copies > available:
            raise ConfigError(
                f"{copies} copies of each shard need as many DB servers, {available} are deployed",
                hint=f"--set arangodb.replication={available}",
            )
        if self._write_concern > copies:
            raise ConfigError(f"arangodb.write_concern={self._write_concern} is more than the {copies} copies")
        return {"tls": str(self._tls).lower()}

    def settings(self) -> dict[str, str]:
        """Properties for the client: every coordinator, and a token in place of a password."""
        client = self._inventory.clients[0]
        # Where the agent's role has put the certificates of its node.
        remote = Path(str(client.variables.get("strata_root"))) / "pki"
        return self._properties(self._pki if client.is_local else remote)

    @property
    def _pki(self) -> Path:
        """The certificates on the controller's machine."""
        return self._state_dir / "pki"

    def _properties(self, pki: Path) -> dict[str, str]:
        properties = {
            "arangodb.hosts": ",".join(f"{node.address}:{self._port(COORDINATOR)}" for node in self.servers),
            "arangodb.loadBalancing": "ROUND_ROBIN",
            "arangodb.jwt": self._token(),
        }
        if self._tls:
            properties |= {"arangodb.useSsl": "true", "arangodb.caFile": str(pki / "ca.pem")}
        return properties

    def table_properties(self) -> dict[str, str]:
        """Copies and shards of a collection."""
        shards = self._values.whole_number("arangodb_shards_per_server", 1) * len(self.servers)
        return {
            "arangodb.replicationFactor": str(self._replication),
            "arangodb.writeConcern": str(self._write_concern),
            "arangodb.numberOfShards": str(shards),
            "arangodb.waitForSync": str(self._waits_for_sync).lower(),
        }

    def trace_by(self) -> Literal["device"]:
        """Each DB server has its own data."""
        return "device"

    def ports(self) -> dict[str, tuple[str, ...]]:
        """Coordinator and DB server of each node."""
        offsets = (COORDINATOR, DB_SERVER)
        return {node.name: tuple(f"{node.address}:{self._port(offset)}" for offset in offsets) for node in self.servers}

    def durability(self) -> dict[str, str | int | bool]:
        """Without waitForSync an acknowledged write is in the memory of so many servers as the write concern says."""
        return {
            "arangodb.replicationFactor": self._replication,
            "arangodb.writeConcern": self._write_concern,
            "arangodb.waitForSync": self._waits_for_sync,
        }

    def server_ids(self) -> dict[str, str]:
        """None: a DB server keeps its id when it is started again, so an old process cannot be told from a new one."""
        return {}

    def live_servers(self) -> tuple[str, ...]:
        """Nodes whose DB servers the agency takes for alive. DeployError when no coordinator answers."""
        return tuple(sorted(self._alive("DBServer")))

    def _alive(self, role: str) -> set[str]:
        health: dict[str, dict[str, Any]] = self._ask("/_admin/cluster/health").get("Health", {})
        good = [
            server
            for server in health.values()
            if str(server.get("Role")).lower() == role.lower() and server.get("Status") == "GOOD"
        ]
        return {self._node_name(str(server.get("Endpoint", ""))) for server in good}

    def _node_name(self, endpoint: str) -> str:
        """``ssl://10.0.0.1:8530`` -> ``arango1``; a stranger keeps its own name."""
        address = urlsplit(endpoint).hostname
        return next((node.name for node in self.servers if node.address == address), endpoint)

    def wait_ready(self, timeout_s: float = 120.0, dead: Collection[str] = ()) -> None:  # noqa: ARG002  (no ids)
        """All DB servers and coordinators alive, then a document written, read and deleted."""
        deadline = time.monotonic() + timeout_s
        while missing := self._missing():
            if time.monotonic() >= deadline:
                raise DeployError(
                    f"ArangoDB is not ready after {timeout_s:.0f} s: {missing}",
                    hint="read the logs of the nodes, then deploy again",
                )
            time.sleep(POLL_S)
        probe(self.name, self.binding, self._properties(self._pki), max(deadline - time.monotonic(), 30.0))

    def _missing(self) -> str:
        wanted = {node.name for node in self.servers}
        try:
            for role in ("DBServer", "Coordinator"):
                if absent := wanted - self._alive(role):
                    return f"no {role} on {', '.join(sorted(absent))}"
        except DeployError as error:
            return error.what
        return ""

    @contextlib.contextmanager
    def watch_servers(self, lost: Callable[[str], None]) -> Iterator[None]:
        """Asks for the health in a thread; the agency takes a server for dead some 10 s after its last heartbeat."""
        ended = threading.Event()

        def watch(seen: set[str]) -> None:
            while not ended.wait(POLL_S):
                with contextlib.suppress(DeployError):  # no coordinator answers: the clients will say so
                    alive = set(self.live_servers())
                    for node in sorted(seen - alive):
                        lost(node)
                    seen = alive

        thread = threading.Thread(target=watch, args=(set(self.live_servers()),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(2 * ANSWER_S * len(self.servers))

    def _token(self) -> str:
        """JSON Web Token, HS256 (RFC 7519), for the servers' shared secret; "" before the secret is made."""
        try:
            secret = (self._state_dir / "arangodb.jwt").read_text(encoding="ascii").strip()
        except OSError:
            return ""
        now = int(time.time())
        claims = {"iss": "arangodb", "server_id": "stratabench", "iat": now, "exp": now + TOKEN_S}
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        signature = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{_base64url(signature)}"

    def _ask(self, path: str) -> dict[str, Any]:
        """The first coordinator's answer. DeployError, with the last one's words, when none gives any."""
        context = ssl.create_default_context(cafile=str(self._pki / "ca.pem")) if self._tls else None
        # Not by a proxy of the environment, which would be given the token, too.
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        scheme, said = "https" if self._tls else "http", ""
        for node in self.servers:
            url = f"{scheme}://{node.address}:{self._port(COORDINATOR)}{path}"
            request = urllib.request.Request(url, headers={"Authorization": f"bearer {self._token()}"})  # noqa: S310
            try:
                with opener.open(request, timeout=ANSWER_S) as answer:
                    content: dict[str, Any] = json.load(answer)
                    return content
            except (OSError, ValueError) as error:
                said = f"{url}: {getattr(error, 'reason', error)}"
        raise DeployError(f"no coordinator answers ({said})", hint="deploy first: strata deploy")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
