"""The deployment settings of ArangoDB and the role variables that they become."""

from __future__ import annotations

from controller.databases.settings import COMMON, COUNT, SWITCH, Setting, Settings, count, switch

SETTINGS = Settings(
    known=COMMON
    | {
        "arangodb.package_checksum": Setting("arangodb_package_checksum", str, "sha256:..."),
        "arangodb.package_url": Setting("arangodb_package_url", str, "an address"),
        "arangodb.replication": Setting("arangodb_replication", count, COUNT),
        "arangodb.shards_per_server": Setting("arangodb_shards_per_server", count, COUNT),
        "arangodb.tls": Setting("arangodb_tls", switch, SWITCH),
        "arangodb.wait_for_sync": Setting("arangodb_wait_for_sync", switch, SWITCH),
        "arangodb.write_concern": Setting("arangodb_write_concern", count, COUNT),
    },
    free_form={"arangodb.settings": "arangodb_settings"},
)
