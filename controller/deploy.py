"""Deploys a database cluster with its agents, and takes it down: certificates, playbook, readiness."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from controller.databases.base import Database
from controller.databases.hbase import HBase
from controller.databases.hbase_settings import role_variables
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory, load_inventory
from controller.pki import ensure_pki
from controller.playbook import Progress, run_playbook

__all__ = ["DeployOutcome", "deploy", "destroy", "load_inventory", "read_deployment"]

REPO = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache" / "stratabench"
DEPLOYMENT = "deployment.json"
# Long, for a machine that is busy: a server that dies is noticed long before.
READY_S = 240.0
AGENT_S = 2.0
# Below this not even certificates and Ansible's own files fit; what the nodes need is asked of the nodes.
CONTROLLER_FREE_MB = 20


@dataclass(frozen=True)
class DeployOutcome:
    """``changed``: tasks that changed something; ``seconds``: wall-clock; ``nodes``: names, all roles."""

    changed: int
    seconds: float
    nodes: tuple[str, ...]


def ensure_deployed(
    inventory: Inventory, settings: Mapping[str, Any], *, state_dir: Path, progress: Progress, database: Database
) -> None:
    """Deploys what is not there yet; a cluster that was deployed with the same settings and serves is left alone."""
    variables = role_variables(settings)
    wanted = _deployment(inventory, variables)
    if _is_complete(read_deployment(state_dir), wanted, variables) and _serves(inventory, wanted, database):
        progress("deploy: nothing to do, the cluster serves")
        return
    deploy(inventory, settings, state_dir=state_dir, progress=progress, database=database)


def _is_complete(found: dict[str, Any] | None, wanted: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Whether a deployment of this shape and with these variables has come to its end: only then it has settings."""
    if found is None or "settings" not in found:
        return False
    return found == {**wanted, "settings": found["settings"]} and role_variables(found["settings"]) == variables


def _serves(inventory: Inventory, wanted: Mapping[str, Any], database: Database) -> bool:
    """Whether every data server is alive, as the database sees it, and every agent listens."""
    try:
        if set(database.live_servers()) != set(wanted["regionservers"]):
            return False
        for node in inventory.nodes:
            if node.name in wanted["nodes"] and {"database", "client"} & set(node.roles):
                socket.create_connection((node.address, node.agent_port), AGENT_S).close()
    except (DeployError, OSError):
        return False
    return True


def deploy(
    inventory: Inventory,
    settings: Mapping[str, Any],
    *,
    state_dir: Path,
    progress: Progress,
    database: Database | None = None,
) -> DeployOutcome:
    """Brings the cluster to what is wanted and returns when it serves; a second time changes nothing.

    ConfigError for settings that do not fit, DeployError for everything that fails on the way.
    """
    begin = time.monotonic()
    variables = role_variables(settings)
    wanted = _deployment(inventory, variables)
    with _locked(state_dir), _storage_errors(state_dir):
        _require_same_shape(state_dir, wanted)
        _note(state_dir, wanted)
        ensure_pki(state_dir / "pki", {node.name: node.address for node in inventory.nodes})
        extra = _controller_variables(state_dir) | variables
        known = database or HBase(inventory, settings)
        before = known.server_ids()
        run = partial(run_playbook, "site", inventory, extra, verb="deploy", state_dir=state_dir)
        changes = run(progress=progress, limit=wanted["nodes"])
        restarted = {node for node, task in changes if task.endswith(known.server_task)}
        progress("deploy: waiting until the database answers")
        try:
            known.wait_ready(READY_S, [server for server, node in before.items() if node in restarted])
        except DeployError:
            # A daemon that has died meanwhile says more than a timeout.
            run(progress=lambda _: None, limit=wanted["nodes"], tags="ready")
            raise
        _note(state_dir, {**wanted, "settings": dict(settings)})
    return DeployOutcome(len(changes), time.monotonic() - begin, tuple(wanted["nodes"]))


def scale(
    inventory: Inventory,
    settings: Mapping[str, Any],
    *,
    state_dir: Path,
    progress: Progress,
    database: Database | None = None,
) -> DeployOutcome:
    """Brings a deployed cluster to the number of data servers in the settings, with its data kept and spread evenly.

    Servers that leave are emptied first and then taken down. DeployError also when no cluster is deployed; a run that
    was cut short is completed by another one.
    """
    begin = time.monotonic()
    variables = role_variables(settings)
    wanted = _deployment(inventory, variables)
    with _locked(state_dir), _storage_errors(state_dir):
        found = read_deployment(state_dir)
        if found is None or found["inventory"] != wanted["inventory"] or found["storage"] != wanted["storage"]:
            raise DeployError(f"no such cluster is deployed in {state_dir}", hint="deploy first: strata deploy")
        both = {key: list(dict.fromkeys([*found[key], *wanted[key]])) for key in ("regionservers", "nodes")}
        _note(state_dir, wanted | both)
        extra = _controller_variables(state_dir) | variables | {"scale_regionservers": len(wanted["regionservers"])}
        changes = run_playbook(
            "scale", inventory, extra, verb="scale", state_dir=state_dir, progress=progress, limit=both["nodes"]
        )
        (database or HBase(inventory, settings)).wait_ready(READY_S)
        _note(state_dir, {**wanted, "settings": dict(settings)})
    return DeployOutcome(len(changes), time.monotonic() - begin, tuple(wanted["nodes"]))


def deployed_settings(state_dir: Path) -> dict[str, Any]:
    """The settings that the cluster was deployed, or scaled, with. DeployError when there is no complete one."""
    found = read_deployment(state_dir)
    if found is None or "settings" not in found:
        what = "no cluster is deployed" if found is None else "the cluster was not deployed to the end"
        raise DeployError(f"{what} (noted in {state_dir})", hint="strata deploy")
    settings: dict[str, Any] = found["settings"]
    return settings


def destroy(inventory: Inventory, *, state_dir: Path, progress: Progress, logs_to: Path | None = None) -> DeployOutcome:
    """Ends every process of the deployment and removes its disks and files; the jar cache stays.

    ``logs_to``: where the nodes' logs are kept before, as ``<node>/logs/``.

    Works from any state, also when there is nothing to take down. DeployError when something stays.
    """
    begin = time.monotonic()
    with _locked(state_dir), _storage_errors(state_dir):
        changes = run_playbook(
            "teardown",
            inventory,
            _controller_variables(state_dir) | ({"teardown_logs_to": str(logs_to.resolve())} if logs_to else {}),
            verb="destroy",
            state_dir=state_dir,
            progress=progress,
        )
        shutil.rmtree(state_dir)
    return DeployOutcome(len(changes), time.monotonic() - begin, tuple(node.name for node in inventory.nodes))


def read_deployment(state_dir: Path) -> dict[str, Any] | None:
    """What was deployed last with this state folder (``nodes``, ``regionservers``, ``storage``), or None."""
    try:
        found: dict[str, Any] = json.loads((state_dir / DEPLOYMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _note(state_dir: Path, deployment: Mapping[str, Any]) -> None:
    (state_dir / DEPLOYMENT).write_text(json.dumps(deployment, indent=1) + "\n", encoding="utf-8")


def _deployment(inventory: Inventory, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The shape of the cluster: what cannot be changed without losing data."""
    available = inventory.database_nodes
    count = variables.get("hbase_regionserver_count", len(available))
    if count > len(available):
        raise ConfigError(f"{count} region servers are asked for, the inventory has {len(available)}")
    servers = [node.name for node in available[:count]]
    storage = variables.get("hbase_storage", inventory.master.variables.get("hbase_storage", "hdfs"))
    replication = variables.get("hdfs_replication", inventory.master.variables.get("hdfs_replication", 3))
    if not str(replication).isdecimal():
        raise ConfigError(f"inventory {inventory.path}: hdfs_replication is {replication!r}, not a whole number")
    if storage == "hdfs" and int(replication) > count:
        raise ConfigError(
            f"{replication} copies of each block need as many DataNodes, {count} are deployed",
            hint=f"--set hdfs.replication={count}",
        )
    unused = {node.name for node in available[count:]}
    nodes = [node.name for node in inventory.nodes if node.name not in unused]
    return {"inventory": str(inventory.path), "storage": storage, "regionservers": servers, "nodes": nodes}


def _require_same_shape(state_dir: Path, wanted: Mapping[str, Any]) -> None:
    """Servers that are no longer wanted would go on running, and their data would be lost unnoticed."""
    found = read_deployment(state_dir)
    if found is None:
        return
    if found["inventory"] != wanted["inventory"]:
        problem = f"another inventory ({found['inventory']})"
    elif found["storage"] != wanted["storage"]:
        problem = f"storage {found['storage']}"
    elif not set(found["regionservers"]) <= set(wanted["regionservers"]):
        problem = f"more region servers ({', '.join(found['regionservers'])})"
    else:
        return
    raise DeployError(f"a cluster with {problem} is deployed in {state_dir}", hint="take it down first: strata destroy")


def _controller_variables(state_dir: Path) -> dict[str, Any]:
    """What the roles must know of this machine."""
    return {
        "strata_state_dir": str(state_dir.resolve()),
        "strata_repo": str(REPO),
        "strata_python": sys.executable,
        "strata_cache": str(CACHE),
    }


@contextlib.contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    """One deployment at a time in one state folder; the folder itself carries the lock."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DeployError(f"the state folder {state_dir} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise DeployError(f"another deploy or destroy works in {state_dir}", hint="wait until it has ended") from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _storage_errors(state_dir: Path) -> Iterator[None]:
    """A full or unwritable state folder is the user's to mend, not a fault of the program."""
    free_mb = shutil.disk_usage(state_dir).free // (1024 * 1024)
    if free_mb < CONTROLLER_FREE_MB:
        raise DeployError(f"disk full: {free_mb} MiB are free at {state_dir}", hint="make room, then deploy again")
    try:
        yield
    except OSError as error:
        raise DeployError(
            f"the state folder {state_dir} cannot be used: {error}", hint="check space and rights"
        ) from error
