"""Nodes that are one machine (one boot id of the kernel): they compete for its processors, memory and disk."""

from __future__ import annotations

from controller.results.findings import Finding
from controller.results.store import RunStore, read_json


def machines(store: RunStore) -> list[list[str]]:
    """The nodes of each machine that is told, the ones of plan.json only; both in order of their names."""
    by_boot: dict[str, list[str]] = {}
    for node in sorted(node["name"] for node in store.plan()["nodes"]):
        if boot := _facts(store, node).get("boot_id"):
            by_boot.setdefault(str(boot), []).append(node)
    return list(by_boot.values())


def check_machines(store: RunStore) -> list[Finding]:
    """A warning for each machine that is several nodes."""
    findings = []
    for nodes in machines(store):
        if len(nodes) > 1:
            cpus = _facts(store, nodes[0]).get("cpus") or "an unknown number of"
            text = f"one machine with {cpus} processors, for which they compete: not the times of a cluster"
            findings.append(Finding("warning", ", ".join(nodes), text))
    return findings


def servers_share_a_machine(store: RunStore) -> bool:
    """Whether a run's data servers got less than a machine each, so that more of them were no more hardware."""
    servers = {node["name"] for node in store.plan()["nodes"] if "database" in node["roles"]}
    return any(len(servers.intersection(nodes)) > 1 for nodes in machines(store))


def _facts(store: RunStore, node: str) -> dict[str, object]:
    path = store.node_dir(node) / "facts.json"
    return read_json(path) if path.is_file() else {}
