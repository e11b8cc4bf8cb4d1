"""What stratabench knows of each database; the only place that names one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.databases.arangodb import ArangoDB
from controller.databases.base import Database
from controller.databases.hbase import HBase
from controller.errors import ConfigError
from controller.inventory import Inventory


def make_database(inventory: Inventory, settings: Mapping[str, Any], state_dir: Path, name: str = "") -> Database:
    """The database of an inventory, which is that of the experiment (``name``). ``state_dir``: what its deployment
    has left for clients. Raises ConfigError for bad settings and for an inventory of another database."""
    if name and name != inventory.database:
        raise ConfigError(
            f"the experiment is for {name}, the inventory {inventory.path} for {inventory.database}",
            hint="give another one with -i",
        )
    if inventory.database == "arangodb":
        return ArangoDB(inventory, settings, state_dir)
    return HBase(inventory, settings)
