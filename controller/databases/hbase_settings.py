"""The deployment settings of HBase (``--set KEY=VALUE``) and the role variables that they become."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.errors import ConfigError

# ``hbase.settings.hbase.wal.hsync=true`` sets one property of hbase-site.xml.
FREE_FORM = {"hbase.settings": "hbase_settings", "hdfs.settings": "hdfs_settings"}
STORAGES = ("hdfs", "local")


@dataclass(frozen=True)
class Setting:
    """One key: the role variable that it sets, and what reads its value (ValueError when it does not fit)."""

    variable: str
    read: Callable[[Any], Any]
    expected: str


def _count(value: Any) -> int:
    if isinstance(value, bool) or int(value) < 1 or int(value) != float(value):
        raise ValueError
    return int(value)


def _storage(value: Any) -> str:
    if value not in STORAGES:
        raise ValueError
    return str(value)


def _switch(value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError
    return str(value).lower() == "true"


COUNT = "a whole number from 1"
SETTINGS = {
    "agents": Setting("strata_agent_enabled", _switch, "true or false"),
    "cache": Setting("strata_cache", str, "a folder"),
    "disk_size_mb": Setting("common_disk_size_mb", _count, COUNT),
    "hbase.heap_mb": Setting("hbase_regionserver_heap_mb", _count, COUNT),
    "hbase.regions_per_server": Setting("hbase_regions_per_server", _count, COUNT),
    "hbase.storage": Setting("hbase_storage", _storage, " or ".join(STORAGES)),
    "hbase.version": Setting("hbase_dist_version", str, "a version"),
    "hdfs.replication": Setting("hdfs_replication", _count, COUNT),
    "regionservers": Setting("hbase_regionserver_count", _count, COUNT),
}


def role_variables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as extra variables for Ansible. ConfigError: an unknown key, a value that does not fit."""
    variables: dict[str, Any] = {}
    for key, value in settings.items():
        group = next((name for name in FREE_FORM if key == name or key.startswith(f"{name}.")), None)
        if group:
            properties = _properties(key, group, value)
            variables[FREE_FORM[group]] = variables.get(FREE_FORM[group], {}) | properties
        else:
            setting = _known(key)
            variables[setting.variable] = _read(key, setting, value)
    return variables


def _properties(key: str, group: str, value: Any) -> dict[str, Any]:
    if key != group:
        return {key.removeprefix(f"{group}."): value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}: expected properties and values, got {value!r}")
    return dict(value)


def _known(key: str) -> Setting:
    if key in SETTINGS:
        return SETTINGS[key]
    near = difflib.get_close_matches(key, [*SETTINGS, *FREE_FORM], n=1)
    meant = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted([*SETTINGS, *FREE_FORM]))}"
    raise ConfigError(f"unknown deployment setting {key!r}", hint=meant)


def _read(key: str, setting: Setting, value: Any) -> Any:
    try:
        return setting.read(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{key}: expected {setting.expected}, got {value!r}") from error
