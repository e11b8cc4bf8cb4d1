"""Deployment settings (``--set KEY=VALUE``): what reads them, and those that every database has."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.errors import ConfigError
from controller.inventory import Node


@dataclass(frozen=True)
class Setting:
    """One key: the role variable that it sets, and what reads its value (ValueError when it does not fit)."""

    variable: str
    read: Callable[[Any], Any]
    expected: str


def count(value: Any) -> int:
    """A whole number from 1."""
    if isinstance(value, bool) or int(value) < 1 or int(value) != float(value):
        raise ValueError
    return int(value)


def switch(value: Any) -> bool:
    """``true`` or ``false``."""
    if str(value).lower() not in ("true", "false"):
        raise ValueError
    return str(value).lower() == "true"


COUNT = "a whole number from 1"
SWITCH = "true or false"
COMMON = {
    "agents": Setting("strata_agent_enabled", switch, SWITCH),
    "cache": Setting("strata_cache", str, "a folder"),
    "disk_size_mb": Setting("common_disk_size_mb", count, COUNT),
}


@dataclass(frozen=True)
class Settings:
    """The settings of one database. ``free_form``: group -> role variable; ``GROUP.NAME=VALUE`` sets one property of
    the group, as ``hbase.settings.hbase.wal.hsync=true`` does."""

    known: Mapping[str, Setting]
    free_form: Mapping[str, str]

    def role_variables(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as extra variables for Ansible. ConfigError: an unknown key, a value that does not fit."""
        variables: dict[str, Any] = {}
        for key, value in settings.items():
            group = next((name for name in self.free_form if key == name or key.startswith(f"{name}.")), None)
            if group:
                properties = _properties(key, group, value)
                variables[self.free_form[group]] = variables.get(self.free_form[group], {}) | properties
            else:
                setting = self._setting(key)
                variables[setting.variable] = _read(key, setting, value)
        return variables

    def _setting(self, key: str) -> Setting:
        if key in self.known:
            return self.known[key]
        names = sorted([*self.known, *self.free_form])
        near = difflib.get_close_matches(key, names, n=1)
        meant = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
        raise ConfigError(f"unknown deployment setting {key!r}", hint=meant)


@dataclass(frozen=True)
class Values:
    """What the roles see: the deployment's settings (``variables``), else the inventory's variables of ``node``."""

    variables: Mapping[str, Any]
    node: Node

    def get(self, name: str, default: Any) -> Any:
        """``default``: the role's."""
        return self.variables.get(name, self.node.variables.get(name, default))

    def whole_number(self, name: str, default: int) -> int:
        """ConfigError for an inventory's value that is none."""
        value = self.get(name, default)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ConfigError(f"inventory: {name}={value!r} is not a whole number") from None

    def flag(self, name: str, default: bool) -> bool:
        """True when it says so."""
        return str(self.get(name, default)).lower() == "true"


def _properties(key: str, group: str, value: Any) -> dict[str, Any]:
    if key != group:
        return {key.removeprefix(f"{group}."): value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}: expected properties and values, got {value!r}")
    return dict(value)


def _read(key: str, setting: Setting, value: Any) -> Any:
    try:
        return setting.read(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{key}: expected {setting.expected}, got {value!r}") from error
