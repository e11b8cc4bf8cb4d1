"""The environment in which Ansible's programs run: our settings hold, and of the user's only how nodes are reached."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ANSIBLE_DIR = Path(__file__).resolve().parent.parent / "ansible"

# Passed on from the user's environment: how the nodes are reached, passwords, which are in no inventory, and where
# Ansible keeps its own files. Anything else would change what is done, or what we are told of it: Ansible's own
# variables come before our ansible.cfg.
OF_THE_USER = frozenset(
    {
        "ANSIBLE_BECOME_PASSWORD_FILE",
        "ANSIBLE_CONNECTION_PASSWORD_FILE",
        "ANSIBLE_HOME",
        "ANSIBLE_HOST_KEY_CHECKING",
        "ANSIBLE_PRIVATE_KEY_FILE",
        "ANSIBLE_REMOTE_PORT",
        "ANSIBLE_REMOTE_USER",
        "ANSIBLE_SSH_COMMON_ARGS",
        "ANSIBLE_VAULT_IDENTITY_LIST",
        "ANSIBLE_VAULT_PASSWORD_FILE",
    }
)


def environment() -> dict[str, str]:
    """All of it. Ansible's programs lie beside our Python."""
    users = {name: text for name, text in os.environ.items() if name in OF_THE_USER or not name.startswith("ANSIBLE_")}
    return users | {
        "ANSIBLE_CONFIG": str(ANSIBLE_DIR / "ansible.cfg"),
        "ANSIBLE_FORCE_COLOR": "false",
        # Nodes get keys over ssh: ansible-runner would not ask who they are.
        "ANSIBLE_HOST_KEY_CHECKING": users.get("ANSIBLE_HOST_KEY_CHECKING", "true"),
        "ANSIBLE_NOCOLOR": "true",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{users.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
    }
