#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a node must have before anything is changed on it; all that is missing is named at once.

Prints nothing when all is well; otherwise one message on standard error, and exit code 1. Standard library
only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MIB = 1024 * 1024
# For the scripts of ours beside this one.
OLDEST_PYTHON = "3.9"
# In every folder that deployment has made and may remove.
MARKER = ".stratabench"


def java_problems(java: str, minimum: int) -> Iterator[str]:
    program = shutil.which(java)
    if program is None:
        yield f"Java {minimum} is missing ({java}): install openjdk-{minimum}-jre-headless"
        return
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) < minimum:
        shown = version[1] if version else "of unknown version"
        yield f"Java {minimum} or newer is needed, {program} is {shown}"


def python_problems(python: str, minimum: str) -> Iterator[str]:
    program = shutil.which(python)
    if program is None:
        yield f"Python {minimum} is missing ({python}): install it and name it by agent_python in the inventory"
        return
    shown = python_version(program)
    if not is_at_least(shown, minimum):
        yield (
            f"Python {minimum} or newer is needed by the agent, {program} is {shown or 'of unknown version'}: "
            "install one and name it by agent_python in the inventory"
        )


def python_version(program: str) -> str:
    """Such as 3.11; empty when it does not say."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([program, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()


def is_at_least(shown: str, minimum: str) -> bool:
    version = re.fullmatch(r"(\d+)\.(\d+)", shown)
    return version is not None and tuple(map(int, version.groups())) >= tuple(map(int, minimum.split(".")))


def script_problems(minimum: str) -> Iterator[str]:
    """Scripts run by the Python that Ansible has found; the launcher, and the units with it, by ``python3``."""
    programs = {"python3": shutil.which("python3"), sys.executable: sys.executable}
    for name, program in programs.items():
        shown = python_version(program) if program else "missing"
        if not is_at_least(shown, minimum):
            yield f"Python {minimum} or newer is needed on a node, {name} is {shown or 'of unknown version'}"


def address_problems(address: str) -> Iterator[str]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        yield f"{address} is not an address of this node ({error.strerror})"


def existing_parent(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def disk_problems(folder: Path, minimum_mb: int) -> Iterator[str]:
    parent = existing_parent(folder)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        yield f"{parent} is not a folder that can be written to"
        return
    free_mb = shutil.disk_usage(parent).free // MIB
    if free_mb < minimum_mb:
        yield f"disk full: {minimum_mb} MiB are needed at {parent}, {free_mb} MiB are free"


def memory_problems(minimum_mb: int) -> Iterator[str]:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, value, *_ = line.split()
        if name == "MemAvailable:" and int(value) // 1024 < minimum_mb:
            yield (
                f"{minimum_mb} MiB of memory are needed, {int(value) // 1024} MiB are available: make the servers' "
                "heaps smaller, or name another bound by common_min_memory_mb in the inventory"
            )


def folder_problems(folders: list[Path]) -> Iterator[str]:
    """A folder that goes when the node is taken down must not hold what is not ours."""
    for folder in folders:
        if not folder.is_absolute():
            yield f"{folder} is no absolute path: it would be another folder for each program (~ is not understood)"
        elif folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).exists():
            yield f"{folder} is not empty and not ours (no {MARKER} in it): choose another folder"
        elif len(folder.parts) < 3:
            yield f"{folder} is no folder for us alone: choose one below it"


def problems(options: argparse.Namespace) -> Iterator[str]:
    if options.root and os.geteuid() != 0:
        yield "root is needed on this node: set ansible_user: root, or ansible_become: true"
    yield from folder_problems(options.own)
    if options.java:
        yield from java_problems(options.java, options.java_version)
    yield from script_problems(OLDEST_PYTHON)
    if options.python:
        yield from python_problems(options.python, options.python_version)
    yield from address_problems(options.address)
    # A deployed node holds its own share of memory and disk already.
    deployed = any((options.folder / "run").glob("*.pid"))
    yield from disk_problems(options.folder, 0 if deployed else options.disk_mb)
    if not deployed:
        yield from memory_problems(options.memory_mb)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="preflight", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--java", default="java", help="empty: not asked for")
    parser.add_argument("--own", type=Path, action="append", default=[], help="a folder that must be ours, or empty")
    parser.add_argument("--root", action="store_true", help="root is needed")
    parser.add_argument("--java-version", type=int, default=17)
    parser.add_argument("--python", default="", help="the agent's; empty: not asked for")
    parser.add_argument("--python-version", default="3.11")
    parser.add_argument("--disk-mb", type=int, default=0)
    parser.add_argument("--memory-mb", type=int, default=0)
    found = list(problems(parser.parse_args(arguments)))
    if found:
        print("; ".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
