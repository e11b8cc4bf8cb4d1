"""What a result must carry so that it can be judged and repeated: versions and the revision of the source."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from controller.databases.base import Database


def versions(database: Database, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Versions of everything that was measured or measured with; per node where nodes can differ."""
    return {
        "stratabench": metadata.version("stratabench"),
        database.name: database.version,
        "java": {node: known.get("java") for node, known in facts.items()},
        "kernel": {node: known.get("kernel") for node, known in facts.items()},
    }


def git_revision() -> str | None:
    """The commit of this source tree, with `-dirty` when it was changed; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
