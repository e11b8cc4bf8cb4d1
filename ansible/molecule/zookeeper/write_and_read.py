# SPDX-License-Identifier: Apache-2.0
"""write_and_read.py ADDRESS...: what was written by the first server is read by each of the others."""

import sys

from kazoo.client import KazooClient

for number, address in enumerate(sys.argv[1:]):
    client = KazooClient(hosts=f"{address}:2181")
    client.start(timeout=15)
    if number == 0:
        client.create("/molecule", b"written once", ephemeral=False)
    client.sync("/molecule")
    if client.get("/molecule")[0] != b"written once":
        sys.exit(f"{address} has not what {sys.argv[1]} was given")
    client.stop()
