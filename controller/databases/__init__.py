"""What stratabench knows of each database; the only place that names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.databases.base import Database
from controller.databases.hbase import HBase
from controller.inventory import Inventory

_DATABASES = {"hbase": HBase}


def make_database(name: str, inventory: Inventory, settings: Mapping[str, Any]) -> Database:
    """The database of that name (one of those that an experiment can name). Raises ConfigError for bad settings."""
    return _DATABASES[name](inventory, settings)
