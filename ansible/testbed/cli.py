# SPDX-License-Identifier: Apache-2.0
"""The command ``testbed``: each verb parses, calls one function, prints."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed import faults, host, network
from testbed.base import build
from testbed.layout import (
    BRIDGE,
    MOST_HOSTS,
    NAME,
    NETWORK,
    Host,
    State,
    all_hosts,
    find_host,
    hosts_from,
    hosts_up,
    state_folder,
)
from testbed.system import TestbedError, await_true

DISK_MB = 2048
# Of another command, which may be making the base root.
OTHER_COMMAND_S = 300.0


def up(state: State, chosen: list[Host], disk_mb: int) -> None:
    """All of them at once, beside those that are up; when one of them fails, they are taken down again."""
    there = hosts_up(state)
    if again := [one.name for one in chosen if one in there]:
        raise TestbedError(f"{', '.join(again)} are up already: testbed down")
    if not there and (network.bridge_exists() or network.address_in_use()):
        raise TestbedError(
            f"this machine has a {BRIDGE} or addresses in {NETWORK} already; another test bed of it has its"
            " files elsewhere (STRATA_TESTBED_DIR)"
        )
    if build(state):
        print(f"testbed: base root made in {state.base}", file=sys.stderr)
    try:
        if not there:
            state.run.mkdir(parents=True, exist_ok=True)
            host.note_runtime(state)
            network.bridge_up(state)
        each(chosen, lambda one: host.make(one, state, disk_mb))
        host.note_public_keys(state)
        each(chosen, lambda one: host.start(one, state))
        each(chosen, lambda one: host.await_login(one, state))
    except BaseException:
        down(state, chosen)
        raise


def down(state: State, chosen: list[Host]) -> None:
    """From whatever state; the network goes with the last host. Nothing to take down is no error."""
    if not state.run.is_dir():
        return
    there = [one for one in hosts_up(state) if one in chosen]
    each(there, lambda one: faults.heal(one, state, ""))
    each(there, lambda one: host.undo(one, state))
    if hosts_up(state):
        host.note_public_keys(state)
        return
    network.bridge_down(state)
    for group in host.control_groups():
        with contextlib.suppress(OSError):
            (group / NAME).rmdir()
    host.remove_runtime(state)
    shutil.rmtree(state.run)


def each(chosen: list[Host], work: Callable[[Host], object]) -> None:
    """At the same time for all; the first error is raised when all have ended."""
    with ThreadPoolExecutor(max_workers=MOST_HOSTS) as pool:
        for done in [pool.submit(work, one) for one in chosen]:
            done.result()


def listing(state: State) -> Iterator[str]:
    for one in hosts_up(state):
        pid = host.leader(one)
        try:
            device = one.device(state)
            number = Path("/sys/block", Path(device).name, "dev").read_text(encoding="ascii").strip()
        except FileNotFoundError:  # it is being made, or taken down, or was left so
            yield f"{one.name}  {one.address}  made by half"
            continue
        yield f"{one.name}  {one.address}  {f'pid {pid}' if pid else 'off'}  /data on {device} ({number})"


def inventory(state: State) -> Iterator[str]:
    """For ad-hoc commands; inventories/testbed says what the hosts do in a deployment."""
    yield "[hosts]"
    for one in hosts_up(state):
        yield f"{one.name} ansible_host={one.address}"
    yield "[hosts:vars]"
    yield "ansible_user=root"
    yield f"ansible_ssh_private_key_file={state.key}"
    yield f"ansible_ssh_common_args=-F none -o UserKnownHostsFile={state.known_hosts}"


@contextlib.contextmanager
def locked(state: State) -> Iterator[None]:
    state.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(state.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await_true(f"another testbed command works in {state.folder}", lambda: lock(descriptor), OTHER_COMMAND_S, 0.2)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="testbed", description="Several hosts on this machine, for tests. Needs root.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("build", help="make the base root (up does it by itself)")
    one = verbs.add_parser("up", help="start hosts")
    one.add_argument("count", type=int, choices=range(1, MOST_HOSTS + 1), metavar=f"1..{MOST_HOSTS}")
    one.add_argument(
        "--first",
        type=int,
        choices=range(1, MOST_HOSTS + 1),
        metavar=f"1..{MOST_HOSTS}",
        default=1,
        help="number of the first of them (default: %(default)s)",
    )
    one.add_argument("--disk-mb", type=int, default=DISK_MB, help="size of each /data (default: %(default)s)")
    gone = verbs.add_parser("down", help="take hosts down")
    gone.add_argument("hosts", nargs="*", metavar="HOST", help="all without it")
    verbs.add_parser("list", help="hosts, addresses, disks")
    verbs.add_parser("inventory", help="an inventory for ad-hoc Ansible commands")
    for verb, text in (("start", "boot a host"), ("stop", "shut a host down")):
        verbs.add_parser(verb, help=text).add_argument("host")
    inside = verbs.add_parser("exec", help="run a command in a host")
    inside.add_argument("host")
    inside.add_argument("command", nargs=argparse.REMAINDER)
    bad = verbs.add_parser(
        "fault",
        help="break something",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{f'{name} {one.argument}':22} {one.text}" for name, one in faults.FAULTS.items()),
    )
    bad.add_argument("host")
    bad.add_argument("fault", choices=faults.FAULTS, metavar="FAULT")
    bad.add_argument("argument", nargs="?", default="")
    return top


def do(options: argparse.Namespace, state: State) -> int:
    match options.verb:
        case "list":
            print("\n".join(listing(state)))
        case "inventory":
            print("\n".join(inventory(state)))
        case "exec":
            command = [*host.enter(find_host(state, options.host)), *(options.command or ["bash"])]
            os.execvp(command[0], command)  # noqa: S606  (a command is what was asked for)
        case verb:
            with locked(state):
                change(verb, options, state)
    return 0


def change(verb: str, options: argparse.Namespace, state: State) -> None:
    match verb:
        case "build":
            build(state)
        case "up":
            up(state, hosts_from(options.first, options.count), options.disk_mb)
            print("\n".join(listing(state)))
        case "down":
            down(state, [find_host(state, name) for name in options.hosts] or all_hosts())
        case "start":
            one = find_host(state, options.host)
            host.start(one, state)
            host.await_login(one, state)
        case "stop":
            host.stop(find_host(state, options.host))
        case "fault":
            faults.FAULTS[options.fault].apply(find_host(state, options.host), state, options.argument)


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if os.geteuid() != 0:
        print("testbed: needs root (namespaces, mounts, loop devices)", file=sys.stderr)
        return 3
    try:
        return do(options, state_folder())
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 3
