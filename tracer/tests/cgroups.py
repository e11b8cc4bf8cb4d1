"""Cgroups with limits, on machines with version 1 of them and with version 2."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest


@contextmanager
def limited(controllers: tuple[str, str], *, v1: Mapping[str, str], v2: Mapping[str, str]) -> Iterator[Path]:
    """What a process writes itself to, to have these limits; `controllers`: the name in version 1 and in 2."""
    parent, is_new = _place(*controllers)
    with _controller(parent, controllers[1]) if is_new else nullcontext():
        group = parent / f"strata-test-{os.getpid()}"
        group.mkdir()
        try:
            for name, limit in (v2 if is_new else v1).items():
                (group / name).write_text(limit)
            yield group / "cgroup.procs"
        finally:
            group.rmdir()


def start_in(group: Path, *command: str) -> subprocess.Popen[str]:
    """The command, with its own process number, in this group from its start; its output is a pipe."""
    shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group), *command]
    return subprocess.Popen(shell, stdout=subprocess.PIPE, text=True)


def _place(old: str, new: str) -> tuple[Path, bool]:
    """Where cgroups with this controller are made, and whether they are of version 2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup" and old in options.split(","):
            return Path(where), False
        if kind == "cgroup2" and new in Path(where, "cgroup.controllers").read_text().split():
            return Path(where), True
    pytest.skip(f"no cgroup with the controller {new}")


@contextmanager
def _controller(parent: Path, name: str) -> Iterator[None]:
    """For the cgroups in this one; a machine that had it off has it off again."""
    control = parent / "cgroup.subtree_control"
    was_on = name in control.read_text().split()
    control.write_text(f"+{name}")
    try:
        yield
    finally:
        if not was_on:
            control.write_text(f"-{name}")
