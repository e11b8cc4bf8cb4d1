# SPDX-License-Identifier: Apache-2.0
"""Names, addresses and paths of the test bed. Fixed, so one test bed at a time on a machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from testbed.system import TestbedError

NAME = "strata-testbed"
BRIDGE = "strata-tb"
PREFIX = "10.213.77"
NETWORK = f"{PREFIX}.0/24"
GATEWAY = f"{PREFIX}.1"
MOST_HOSTS = 7


@dataclass(frozen=True)
class State:
    """Where the test bed keeps its files: ``base`` and ``tools`` stay, ``run`` goes with the hosts."""

    folder: Path

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def base(self) -> Path:
        return self.folder / "base"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.run / "known_hosts"

    @property
    def forwarding_before(self) -> Path:
        return self.run / "ip_forward.before"


def state_folder() -> State:
    """``STRATA_TESTBED_DIR``, or a folder in the user's cache."""
    given = os.environ.get("STRATA_TESTBED_DIR")
    return State(Path(given) if given else Path.home() / ".cache" / "stratabench" / "testbed")


@dataclass(frozen=True)
class Host:
    """One host: what its name decides."""

    number: int

    @property
    def name(self) -> str:
        return f"tb{self.number}"

    @property
    def address(self) -> str:
        return f"{PREFIX}.{10 + self.number}"

    @property
    def hardware_address(self) -> str:
        """Its own for good: whoever has talked to the host before finds the one that has taken its place."""
        return f"02:53:54:42:00:{self.number:02x}"

    @property
    def namespace(self) -> str:
        return f"{BRIDGE}{self.number}"

    @property
    def link(self) -> str:
        """The bridge's end of its cable; the other end is the host's eth0."""
        return f"{BRIDGE}-{self.number}"

    @property
    def tap(self) -> str:
        """The bridge's port while a delaying wire is in between."""
        return f"{BRIDGE}w-{self.number}"

    def folder(self, state: State) -> Path:
        return state.run / self.name

    def root(self, state: State) -> Path:
        """The mounted root file system."""
        return self.folder(state) / "root"

    def data(self, state: State) -> Path:
        """The mounted disk; /data in the host."""
        return self.folder(state) / "data"

    def device(self, state: State) -> str:
        """Its loop device, such as ``/dev/loop3``."""
        return (self.folder(state) / "loop").read_text(encoding="ascii").strip()


def all_hosts() -> list[Host]:
    return hosts_from(1, MOST_HOSTS)


def hosts_from(first: int, count: int) -> list[Host]:
    """So many in a row. TestbedError when there are not so many."""
    if first + count - 1 > MOST_HOSTS:
        raise TestbedError(f"{count} hosts from tb{first} on: the last is tb{MOST_HOSTS}")
    return [Host(number) for number in range(first, first + count)]


def hosts_up(state: State) -> list[Host]:
    """Those that exist, also half made ones."""
    return [host for host in all_hosts() if host.folder(state).is_dir()]


def find_host(state: State, name: str) -> Host:
    """The host of this name. TestbedError when there is none."""
    known = hosts_up(state)
    match = re.fullmatch(r"tb(\d)", name)
    if match is None or Host(int(match[1])) not in known:
        names = ", ".join(host.name for host in known) or "none, run: testbed up"
        raise TestbedError(f"no host {name!r} (there are: {names})")
    return Host(int(match[1]))
