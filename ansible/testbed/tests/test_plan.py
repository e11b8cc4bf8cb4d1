# SPDX-License-Identifier: Apache-2.0
"""What can be said about the test bed without starting it."""

from __future__ import annotations

import ipaddress
import os
import subprocess
from pathlib import Path

import pytest
from testbed.base import mirror_names
from testbed.cli import listing
from testbed.faults import number
from testbed.layout import GATEWAY, NETWORK, State, all_hosts, find_host, hosts_from
from testbed.system import TestbedError

PROGRAM = Path(__file__).resolve().parents[1] / "testbed"
LONGEST_INTERFACE_NAME = 15  # IFNAMSIZ of linux/if.h, without the final zero


def test_addresses_and_names_are_distinct_and_fit() -> None:
    hosts = all_hosts()
    addresses = {ipaddress.ip_address(host.address) for host in hosts}
    assert len(addresses) == len(hosts)
    assert addresses < set(ipaddress.ip_network(NETWORK).hosts()) - {ipaddress.ip_address(GATEWAY)}
    links = {link for host in hosts for link in (host.link, host.tap)}
    assert len(links) == 2 * len(hosts)
    assert max(map(len, links)) <= LONGEST_INTERFACE_NAME


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Types: deb\nURIs: http://deb.example.org/debian\nSuites: a b\n", ["deb.example.org"]),
        (
            "deb [signed-by=/k] https://one.example:8080/x a main\ndeb http://two.example a main",
            ["one.example", "two.example"],
        ),
        ("deb http://one.example/a x main\ndeb http://one.example/b x main", ["one.example"]),
        ("deb file:/srv/packages x main", []),
    ],
)
def test_names_of_package_sources(text: str, names: list[str]) -> None:
    assert mirror_names(text) == names


@pytest.mark.parametrize("text", ["", "x", "-1", "101", "nan"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TestbedError, match="PERCENT: a number from 0 to 100"):
        number(text, "PERCENT", 0, 100)


def test_a_host_that_is_made_by_half_is_listed(tmp_path: Path) -> None:
    (tmp_path / "run" / "tb2").mkdir(parents=True)
    assert list(listing(State(tmp_path))) == ["tb2  10.213.77.12  made by half"]


def test_unknown_host_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "tb2").mkdir(parents=True)
    assert find_host(State(tmp_path), "tb2").number == 2
    for name in ("tb3", "tb99", "h1", ""):
        with pytest.raises(TestbedError, match="there are: tb2"):
            find_host(State(tmp_path), name)


def test_only_so_many_hosts() -> None:
    assert [host.name for host in hosts_from(5, 3)] == ["tb5", "tb6", "tb7"]
    with pytest.raises(TestbedError, match="3 hosts from tb6 on: the last is tb7"):
        hosts_from(6, 3)


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["up", "0"], ["up", "8"], ["up", "1", "--first", "0"], ["fault", "tb1", "flood"], ["nonsense"]],
)
def test_wrong_usage(arguments: list[str]) -> None:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: testbed" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user only root can become one")
def test_without_root_it_says_so() -> None:
    # The interpreter must be one that this user may read.
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", PROGRAM, "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "testbed: needs root (namespaces, mounts, loop devices)\n")
