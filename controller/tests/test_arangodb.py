"""What is asked of an ArangoDB cluster, against a coordinator that is played here: a stand-in, two answers of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.databases import make_database
from controller.databases.arangodb import ArangoDB
from controller.databases.base import Database
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory, Node

SECRET = "s3cret" * 8


class PlayedCoordinator(ThreadingHTTPServer):
    """Answers what ArangoDB documents for `/_admin/cluster/health` and `/_api/version`; `health` may be changed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.health: dict[str, dict[str, str]] = {}
        self.tokens: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: PlayedCoordinator

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers["Authorization"])
        answers: dict[str, Any] = {
            "/_admin/cluster/health": {"Health": self.server.health},
            "/_api/version": {"server": "arango", "version": "3.12.5"},
        }
        body = json.dumps(answers[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def coordinator() -> Iterator[PlayedCoordinator]:
    server = PlayedCoordinator()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def inventory(port: int = 8529, **variables: Any) -> Inventory:
    known = {"arangodb_starter_port": port - 1, "arangodb_tls": False, "ansible_connection": "local", **variables}
    nodes = [Node(f"arango{i}", f"127.0.0.{i}", frozenset({"arangodb"}), known) for i in (1, 2, 3)]
    return Inventory(Path("x"), (*nodes, Node("client1", "127.0.0.9", frozenset({"clients"}), known)))


def server(role: str, number: int, status: str = "GOOD") -> dict[str, str]:
    port = 8529 if role == "Coordinator" else 8530
    return {"Role": role, "Status": status, "Endpoint": f"ssl://127.0.0.{number}:{port}"}


def database(tmp_path: Path, port: int) -> ArangoDB:
    (tmp_path / "arangodb.jwt").write_text(SECRET + "\n")
    return ArangoDB(inventory(port), {}, tmp_path)


def test_only_good_db_servers_live(coordinator: PlayedCoordinator, tmp_path: Path) -> None:
    coordinator.health = {
        "PRMR-a": server("DBServer", 1),
        "PRMR-b": server("DBServer", 2, "BAD"),
        "PRMR-c": server("DBServer", 3),
        "CRDN-d": server("Coordinator", 2),
        "AGNT-e": server("Agent", 2),
        "PRMR-f": server("DBServer", 77),
    }
    asked = database(tmp_path, coordinator.server_port)
    assert asked.live_servers() == ("arango1", "arango3", "ssl://127.0.0.77:8530")
    assert asked.version == "3.12.5"


def test_a_proxy_of_the_environment_is_not_asked(
    coordinator: PlayedCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.99:1")
    assert database(tmp_path, coordinator.server_port).version == "3.12.5"


def test_the_token_is_signed_with_the_servers_secret(coordinator: PlayedCoordinator, tmp_path: Path) -> None:
    database(tmp_path, coordinator.server_port).live_servers()
    kind, token = coordinator.tokens[0].split()
    head, claims, signature = token.split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (head, claims)]
    assert kind.lower() == "bearer"
    assert decoded[0] == {"alg": "HS256", "typ": "JWT"}
    assert decoded[1]["iss"] == "arangodb"
    assert decoded[1]["exp"] > time.time() + 3600
    expected = hmac.digest(SECRET.encode(), f"{head}.{claims}".encode(), hashlib.sha256)
    assert base64.urlsafe_b64decode(signature + "=") == expected


def test_what_is_missing_is_named(coordinator: PlayedCoordinator, tmp_path: Path) -> None:
    coordinator.health = {f"PRMR-{i}": server("DBServer", i) for i in (1, 2, 3)}
    coordinator.health |= {f"CRDN-{i}": server("Coordinator", i) for i in (1, 3)}
    with pytest.raises(DeployError, match="not ready after 0 s: no Coordinator on arango2"):
        database(tmp_path, coordinator.server_port).wait_ready(0.1)


def test_nothing_deployed(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"no coordinator answers \(http://127\.0\.0\.3:1/.*refused"):
        database(tmp_path, 1).live_servers()
    assert database(tmp_path, 1).version == "unknown"


def test_a_lost_server_is_told_once(coordinator: PlayedCoordinator, tmp_path: Path) -> None:
    coordinator.health = {f"PRMR-{i}": server("DBServer", i) for i in (1, 2, 3)}
    lost: list[str] = []
    told = threading.Event()

    def lose(node: str) -> None:
        lost.append(node)
        told.set()

    with database(tmp_path, coordinator.server_port).watch_servers(lose):
        coordinator.health = {**coordinator.health, "PRMR-2": server("DBServer", 2, "FAILED")}
        assert told.wait(10)
        asked = len(coordinator.tokens)
        while len(coordinator.tokens) < asked + 2:
            time.sleep(0.05)
    assert lost == ["arango2"]


def test_what_clients_and_tables_get(tmp_path: Path) -> None:
    given = {"arangodb.replication": 3, "arangodb.wait_for_sync": "true", "arangodb.shards_per_server": 2}
    made: Database = make_database(inventory(arangodb_tls=True), given, tmp_path, "arangodb")
    (tmp_path / "arangodb.jwt").write_text(SECRET)
    settings = made.settings()
    assert settings["arangodb.hosts"] == "127.0.0.1:8529,127.0.0.2:8529,127.0.0.3:8529"
    assert settings["arangodb.caFile"] == str(tmp_path / "pki/ca.pem")
    assert len(settings["arangodb.jwt"].split(".")) == 3
    table = made.table_properties()
    assert (table["arangodb.replicationFactor"], table["arangodb.numberOfShards"]) == ("3", "6")
    assert made.durability()["arangodb.waitForSync"] is True


def test_a_remote_client_has_the_certificates_in_a_folder_of_its_own(tmp_path: Path) -> None:
    there = inventory(arangodb_tls=True, ansible_connection="ssh", strata_root="/var/lib/stratabench")
    assert ArangoDB(there, {}, tmp_path).settings()["arangodb.caFile"] == "/var/lib/stratabench/pki/ca.pem"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"arangodb.replication": 4}, "4 copies of each shard need as many DB servers, 3 are deployed"),
        ({"arangodb.write_concern": 2}, "more than the 1 copies"),
    ],
)
def test_impossible_wishes(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        ArangoDB(inventory(), settings, tmp_path).shape()


def test_a_number_of_the_inventory_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="arangodb_starter_port='x' is not a whole number"):
        ArangoDB(inventory(arangodb_starter_port="x"), {}, tmp_path).ports()


def test_an_experiment_of_another_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the experiment is for hbase, the inventory x for arangodb"):
        make_database(inventory(), {}, tmp_path, "hbase")
