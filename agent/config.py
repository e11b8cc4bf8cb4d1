"""What an agent knows of its node: the file that deployment wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


class AgentConfigError(Exception):
    """The agent's configuration cannot be used; the message says which member and why."""


@dataclass(frozen=True)
class AgentConfig:
    """One node: where to listen, which programs may be started, where the database keeps its data."""

    node: str
    address: str
    port: int
    metrics_port: int
    work_dir: Path
    role: str
    programs: dict[str, Path]
    tls: dict[str, Path]
    data_path: Path | None
    data_is_own_disk: bool
    database_pidfiles: dict[str, Path]
    own_disk_reason: str = ""


def load_config(path: Path) -> AgentConfig:
    """Reads ``agent.json``. Raises AgentConfigError for a missing, unknown or wrongly typed member."""
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AgentConfigError(f"{path}: {error}") from error
    known = {f.name for f in fields(AgentConfig)}
    unknown, missing = set(raw) - known, known - set(raw) - {"own_disk_reason"}
    if unknown or missing:
        raise AgentConfigError(f"{path}: unknown members {sorted(unknown)}, missing {sorted(missing)}")
    try:
        return AgentConfig(**_typed(raw))
    except (TypeError, ValueError, AttributeError) as error:
        raise AgentConfigError(f"{path}: {error}") from error


def _typed(raw: dict[str, Any]) -> dict[str, Any]:
    paths = {name: {k: Path(v) for k, v in raw[name].items()} for name in ("programs", "tls", "database_pidfiles")}
    data_path = Path(raw["data_path"]) if raw["data_path"] else None
    ports = {name: int(raw[name]) for name in ("port", "metrics_port")}
    return {**raw, **paths, **ports, "work_dir": Path(raw["work_dir"]), "data_path": data_path}
