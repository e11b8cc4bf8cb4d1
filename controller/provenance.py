"""What a result must carry so that it can be judged and repeated: versions and the revision of the source."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from controller.databases.base import Database
from controller.inventory import Inventory

#: Beginnings of our roles' variables: what a deployment depends on. Others (`ansible_`) say how a node is reached.
_OF_ROLES = ("agent_", "arangodb_", "chrony_", "common_", "hbase_", "hdfs_", "strata_data_dir", "zookeeper_")
_SECRET = re.compile("password|secret|token|passphrase|private", re.IGNORECASE)


def versions(database: Database, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Versions of everything that was measured or measured with; per node where nodes can differ."""
    return {
        "stratabench": metadata.version("stratabench"),
        database.name: database.version,
        "java": {node: known.get("java") for node, known in facts.items()},
        "kernel": {node: known.get("kernel") for node, known in facts.items()},
    }


def inventory_variables(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Node -> the roles' variables that the inventory sets, without what may be a secret."""
    return {
        node.name: _open({name: value for name, value in sorted(node.variables.items()) if name.startswith(_OF_ROLES)})
        for node in inventory.nodes
    }


def _open(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _open(inner) for name, inner in value.items() if not _SECRET.search(str(name))}
    return value


def git_revision() -> str | None:
    """The commit of this source tree, with `-dirty` when it was changed; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
