# SPDX-License-Identifier: Apache-2.0
"""The hosts' network: a bridge, a namespace with one cable for each host, and a narrow way out to the packages."""

from __future__ import annotations

import socket
from pathlib import Path

from testbed.base import mirror_names, run_tool, sources
from testbed.layout import BRIDGE, GATEWAY, NAME, NETWORK, PREFIX, Host, State
from testbed.system import attempt, run

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
TABLE = NAME.replace("-", "_")


def bridge_exists() -> bool:
    return Path(f"/sys/class/net/{BRIDGE}").exists()


def address_in_use() -> bool:
    """Whether something else of this machine has addresses of our network."""
    return f" {PREFIX}." in run("ip", "-4", "-o", "address", "show")


def bridge_up(state: State) -> None:
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    state.forwarding_before.write_text(FORWARDING.read_text(encoding="ascii"), encoding="ascii")
    FORWARDING.write_text("1", encoding="ascii")
    run_tool(state, "nft", "-f", "-", stdin=way_out(allowed_addresses()))


def bridge_down(state: State) -> None:
    if state.forwarding_before.is_file():
        FORWARDING.write_text(state.forwarding_before.read_text(encoding="ascii"), encoding="ascii")
    if TABLE in run_tool(state, "nft", "list", "tables"):
        run_tool(state, "nft", "delete", "table", "ip", TABLE)
    attempt("ip", "link", "delete", BRIDGE)


def allowed_addresses() -> list[str]:
    """IPv4 addresses of the resolvers and of the package sources; nothing else is reached from a host."""
    resolvers = [
        line.split()[1]
        for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()
        if line.startswith("nameserver") and ":" not in line
    ]
    mirrors = []
    for name in mirror_names(sources().read_text(encoding="utf-8")):
        try:
            mirrors += [str(found[4][0]) for found in socket.getaddrinfo(name, 80, socket.AF_INET)]
        except OSError:
            continue  # without the network there is no way out, and the hosts do not need one
    return sorted({*resolvers, *mirrors})


def way_out(allowed: list[str]) -> str:
    """Rules for nft."""
    accept = f"ip daddr {{ {', '.join(allowed)} }} accept;" if allowed else ""
    return f"""
table ip {TABLE} {{
  chain out {{
    type filter hook forward priority 0; policy accept;
    iifname "{BRIDGE}" oifname != "{BRIDGE}" jump narrow
  }}
  chain narrow {{ {accept} drop; }}
  chain translate {{
    type nat hook postrouting priority 100;
    ip saddr {NETWORK} oifname != "{BRIDGE}" masquerade
  }}
}}
"""


def cable_up(host: Host) -> None:
    """The host's namespace with eth0, whose other end is plugged into the bridge."""
    inside = ("ip", "-n", host.namespace)
    run("ip", "netns", "add", host.namespace)
    run("ip", "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    run("ip", "link", "set", host.link, "master", BRIDGE, "up")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "link", "set", "eth0", "address", host.hardware_address)
    run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", "default", "via", GATEWAY)


def cable_down(host: Host) -> None:
    attempt("ip", "netns", "delete", host.namespace)
    attempt("ip", "link", "delete", host.link)
