# SPDX-License-Identifier: Apache-2.0
"""ask.py ADDRESS CA [CERTIFICATE KEY]: prints the name that an agent gives; fails where it will not be talked to."""

import json
import sys
from pathlib import Path

import grpc

from agent.api import agent_pb2 as api
from agent.api import agent_pb2_grpc as api_grpc

address, authority, *own = sys.argv[1:]
certificate, key = [Path(path).read_bytes() for path in own] or (None, None)
credentials = grpc.ssl_channel_credentials(Path(authority).read_bytes(), key, certificate)
with grpc.secure_channel(address, credentials) as channel:
    try:
        print(json.loads(api_grpc.AgentStub(channel).GetFacts(api.Empty(), timeout=20).json)["node"])
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
