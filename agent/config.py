"""What an agent knows of its node: the file that deployment wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

#: Types of members that are taken as they stand in the file.
_PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool}


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
    # Of a database node only:
    data_path: Path | None = None
    data_is_own_disk: bool = False
    data_disk_reason: str = ""
    database_pidfiles: dict[str, Path] = field(default_factory=dict)


def load_config(path: Path) -> AgentConfig:
    """Reads ``agent.json``. Raises AgentConfigError for a missing, unknown or wrongly typed member."""
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AgentConfigError(f"{path}: {error}") from error
    if not isinstance(raw, dict):
        raise AgentConfigError(f"{path}: it is no object")
    unknown = set(raw) - {f.name for f in fields(AgentConfig)}
    if unknown:
        raise AgentConfigError(f"{path}: unknown members {sorted(unknown)}")
    try:
        return AgentConfig(**_typed(raw))
    except (TypeError, ValueError, AttributeError) as error:
        raise AgentConfigError(f"{path}: {error}") from error


def _typed(raw: dict[str, Any]) -> dict[str, Any]:
    of_paths = {"programs", "tls", "database_pidfiles"} & set(raw)
    paths = {name: {key: Path(value) for key, value in raw[name].items()} for name in of_paths}
    for member in fields(AgentConfig):
        wanted = _PLAIN.get(str(member.type))
        if wanted and type(raw.get(member.name, wanted())) is not wanted:
            raise TypeError(f"{member.name} is no {member.type}")
    single = {name: Path(raw[name]) for name in {"work_dir", "data_path"} & set(raw)}
    return {**raw, **paths, **single}
