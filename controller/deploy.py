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

from controller.databases import make_database
from controller.databases.base import Database
from controller.errors import DeployError
from controller.inventory import Inventory, load_inventory
from controller.pki import ensure_pki, is_current
from controller.playbook import Progress, run_playbook

__all__ = ["DeployOutcome", "deploy", "destroy", "load_inventory", "read_deployment"]

REPO = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache" / "stratabench"
DEPLOYMENT = "deployment.json"
#: In it while a cluster is scaled, and after a scaling that was cut short: the settings that were asked for.
SCALING = "scaling"
#: In it from the begin of a first deployment to its end, and from the begin of taking down: nobody has data there.
UNFINISHED = "unfinished"
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
    """Deploys what is not there yet; a cluster that was deployed with the same settings and serves is left alone, until
    its certificates are near their end."""
    wanted = _deployment(inventory, database)
    current = is_current(state_dir / "pki", _addresses(inventory))
    if current and _is_complete(inventory, state_dir, wanted, database) and _serves(inventory, wanted, database):
        progress("deploy: nothing to do, the cluster serves")
        return
    deploy(inventory, settings, state_dir=state_dir, progress=progress, database=database)


def _addresses(inventory: Inventory) -> dict[str, str]:
    return {node.name: node.address for node in inventory.nodes}


def _is_complete(inventory: Inventory, state_dir: Path, wanted: Mapping[str, Any], database: Database) -> bool:
    """Whether a deployment of this shape and with these variables has come to its end: only then it has settings."""
    found = read_deployment(state_dir)
    if found is None or "settings" not in found or found != {**wanted, "settings": found["settings"]}:
        return False
    deployed = make_database(inventory, found["settings"], state_dir)
    return deployed.role_variables() == database.role_variables()


def _serves(inventory: Inventory, wanted: Mapping[str, Any], database: Database) -> bool:
    """Whether every data server is alive, as the database sees it, and every agent listens."""
    try:
        if set(database.live_servers()) != set(wanted["servers"]):
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
    known = database or make_database(inventory, settings, state_dir)
    wanted = _deployment(inventory, known)
    if (found := read_deployment(state_dir)) and UNFINISHED in found and found["inventory"] == wanted["inventory"]:
        if _misfit(found, wanted):
            progress("deploy: another cluster was begun here and not ended: it is taken down first")
            destroy(inventory, state_dir=state_dir, progress=progress)
        else:
            progress("deploy: completes what was begun and not ended")
    with _locked(state_dir), _storage_errors(state_dir):
        _require_same_shape(state_dir, wanted)
        found = read_deployment(state_dir)
        new = {UNFINISHED: True} if found is None or UNFINISHED in found else {}
        # A scaling that was cut short is ended here, too: servers may be marked as leaving, regions uneven.
        unfinished = {key: value for key, value in (found or {}).items() if key == SCALING}
        _note(state_dir, wanted | unfinished | new)
        ensure_pki(state_dir / "pki", _addresses(inventory))
        extra = _controller_variables(state_dir) | dict(known.role_variables())
        if unfinished:
            extra["scale_regionservers"] = len(wanted["servers"])
        before = known.server_ids()
        run = partial(
            run_playbook, "scale" if unfinished else "site", inventory, extra, verb="deploy", state_dir=state_dir
        )
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
    known = database or make_database(inventory, settings, state_dir)
    wanted = _deployment(inventory, known)
    with _locked(state_dir), _storage_errors(state_dir):
        found = read_deployment(state_dir)
        if found is None or found["inventory"] != wanted["inventory"] or found["shape"] != wanted["shape"]:
            raise DeployError(f"no such cluster is deployed in {state_dir}", hint="deploy first: strata deploy")
        both = {key: list(dict.fromkeys([*found[key], *wanted[key]])) for key in ("servers", "nodes")}
        _note(state_dir, wanted | both | {SCALING: dict(settings)})
        ensure_pki(state_dir / "pki", _addresses(inventory))
        extra = _controller_variables(state_dir) | dict(known.role_variables())
        extra["scale_regionservers"] = len(wanted["servers"])
        changes = run_playbook(
            "scale", inventory, extra, verb="scale", state_dir=state_dir, progress=progress, limit=both["nodes"]
        )
        known.wait_ready(READY_S)
        _note(state_dir, {**wanted, "settings": dict(settings)})
    return DeployOutcome(len(changes), time.monotonic() - begin, tuple(wanted["nodes"]))


def deployed_settings(state_dir: Path) -> dict[str, Any]:
    """The settings that the cluster was deployed with, or scaled, also by half. DeployError when there is no complete
    one."""
    found = read_deployment(state_dir)
    if found is None or not {"settings", SCALING} & found.keys():
        what = "no cluster is deployed" if found is None else "the cluster was not deployed to the end"
        raise DeployError(f"{what} (noted in {state_dir})", hint="strata deploy")
    settings: dict[str, Any] = found["settings"] if "settings" in found else found[SCALING]
    return settings


def destroy(inventory: Inventory, *, state_dir: Path, progress: Progress, logs_to: Path | None = None) -> DeployOutcome:
    """Ends every process of the deployment and removes its disks and files; the jar cache stays.

    ``logs_to``: where the nodes' logs are kept before, as ``<node>/logs/``.

    Works from any state, also when there is nothing to take down. DeployError when something stays.
    """
    begin = time.monotonic()
    with _locked(state_dir), _storage_errors(state_dir):
        if found := read_deployment(state_dir):
            _note(state_dir, {key: found[key] for key in found.keys() - {"settings", SCALING}} | {UNFINISHED: True})
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
    """What was deployed last with this state folder (``nodes``, ``servers``, ``shape``), or None."""
    try:
        found: dict[str, Any] = json.loads((state_dir / DEPLOYMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    # A note of an older version says nothing to this one.
    return found if {"inventory", "shape", "servers", "nodes"} <= found.keys() else None


def is_there(state_dir: Path) -> bool:
    """Whether a cluster has once been deployed to the end, so that it may have data; also one that was changed by half.
    DeployError while somebody deploys it or takes it down."""
    if not state_dir.is_dir():
        return False
    with _locked(state_dir):
        found = read_deployment(state_dir)
    return found is not None and UNFINISHED not in found


def _note(state_dir: Path, deployment: Mapping[str, Any]) -> None:
    (state_dir / DEPLOYMENT).write_text(json.dumps(deployment, indent=1) + "\n", encoding="utf-8")


def _deployment(inventory: Inventory, database: Database) -> dict[str, Any]:
    """What is deployed, and its shape: what cannot be changed without losing data."""
    shape = dict(database.shape())
    servers = [node.name for node in database.servers]
    unused = {node.name for node in inventory.database_nodes} - set(servers)
    nodes = [node.name for node in inventory.nodes if node.name not in unused]
    return {"inventory": str(inventory.path), "shape": shape, "servers": servers, "nodes": nodes}


def _require_same_shape(state_dir: Path, wanted: Mapping[str, Any]) -> None:
    found = read_deployment(state_dir)
    if found is not None and (problem := _misfit(found, wanted)):
        raise DeployError(
            f"a cluster with {problem} is deployed in {state_dir}", hint="take it down first: strata destroy"
        )


def _misfit(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What keeps a deployment from becoming the wanted one, or nothing. Servers that are no longer wanted would go on
    running, and their data would be lost unnoticed."""
    if found["inventory"] != wanted["inventory"]:
        return f"another inventory ({found['inventory']})"
    if found["shape"] != wanted["shape"]:
        return ", ".join(f"{key} {value}" for key, value in found["shape"].items())
    if not set(found["servers"]) <= set(wanted["servers"]):
        return f"more data servers ({', '.join(found['servers'])})"
    return ""


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
