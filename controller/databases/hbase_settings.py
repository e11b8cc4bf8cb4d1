"""The deployment settings of HBase and the role variables that they become."""

from __future__ import annotations

from typing import Any

from controller.databases.settings import COMMON, COUNT, Setting, Settings, count

STORAGES = ("hdfs", "local")


def _storage(value: Any) -> str:
    if value not in STORAGES:
        raise ValueError
    return str(value)


SETTINGS = Settings(
    known=COMMON
    | {
        "hbase.heap_mb": Setting("hbase_regionserver_heap_mb", count, COUNT),
        "hbase.regions_per_server": Setting("hbase_regions_per_server", count, COUNT),
        "hbase.storage": Setting("hbase_storage", _storage, " or ".join(STORAGES)),
        "hbase.version": Setting("hbase_dist_version", str, "a version"),
        "hdfs.replication": Setting("hdfs_replication", count, COUNT),
        "regionservers": Setting("hbase_regionserver_count", count, COUNT),
    },
    free_form={"hbase.settings": "hbase_settings", "hdfs.settings": "hdfs_settings"},
)
