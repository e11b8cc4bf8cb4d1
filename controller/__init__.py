"""The controller: from an experiment and an inventory to a results folder."""

import os

# gRPC would prepare for its own continuation in every child that we start (Ansible, the guard) and complain that it
# cannot; none of them uses the parent's channels.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
