# SPDX-License-Identifier: Apache-2.0
"""Packages that deployment adds go again, and no others: against a stand-in package manager that keeps a list.

The real one is asked in test_on_testbed.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

DPKG_QUERY = """#!/bin/sh
while read name; do echo "ii  $name"; done < "$STAND_IN"
echo "un  never-installed"
"""
# As the real one, it takes what needs a package away with it; -s says what would go, without the architecture.
APT_GET = """#!/bin/sh
simulated=
[ "$1" = -s ] && simulated=1 && shift
shift 3
going=" $* "
more=1
while [ "$more" ]; do
    more=
    while read -r needs needed; do
        case "$going" in
            *" $needs "*) ;;
            *" $needed "*) going="$going$needs "; more=1 ;;
        esac
    done < "$STAND_IN.needs"
done
for name in $going; do
    [ "$simulated" ] && echo "Purg ${name%:*} [1.0]" && continue
    grep -vx "$name" "$STAND_IN" > "$STAND_IN.new"; mv "$STAND_IN.new" "$STAND_IN"
done
"""


RPM = """#!/bin/sh
[ "$1" = -qa ] && exec cat "$STAND_IN"
shift 2
while read -r needs needed; do
    case " $* " in
        *" $needs "*) ;;
        *" $needed "*) exit 1 ;;
    esac
done < "$STAND_IN.needs"
"""
DNF = """#!/bin/sh
shift 3
shift
for name in "$@"; do grep -vx "$name" "$STAND_IN" > "$STAND_IN.new"; mv "$STAND_IN.new" "$STAND_IN"; done
rpm -e --test "$@" || echo "what needs them went, too" >> "$STAND_IN"
"""


class StandInMachine:
    """A machine with packages."""

    def __init__(self, folder: Path) -> None:
        self.list = folder / "installed"
        self.needs = folder / "installed.needs"
        self.needs.touch()
        self.notes = folder / "notes"
        self.notes.mkdir()

    def install(self, *names: str) -> None:
        with self.list.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in names)

    def depend(self, package: str, on: str) -> None:
        with self.needs.open("a", encoding="utf-8") as file:
            file.write(f"{package} {on}\n")

    @property
    def installed(self) -> set[str]:
        return set(self.list.read_text(encoding="utf-8").split())


def add_programs(folder: Path, scripts: dict[str, str]) -> None:
    for name, script in scripts.items():
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInMachine:
    programs = tmp_path / "bin"
    programs.mkdir()
    add_programs(programs, {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET})
    found = StandInMachine(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(found.list))
    found.install("libc6", "python3")
    return found


def test_what_came_goes(packages: ModuleType, machine: StandInMachine) -> None:
    packages.begin(machine.notes)
    machine.install("jre", "libjpeg")
    packages.end(machine.notes)
    machine.install("users-own")
    assert packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3", "users-own"}
    assert not list(machine.notes.iterdir())


def test_two_installations(packages: ModuleType, machine: StandInMachine) -> None:
    for name in ("jre", "chrony"):
        packages.begin(machine.notes)
        machine.install(name)
        packages.end(machine.notes)
    packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3"}


def test_an_installation_that_was_cut_short_and_tried_again(packages: ModuleType, machine: StandInMachine) -> None:
    packages.begin(machine.notes)
    machine.install("half")
    packages.begin(machine.notes)
    machine.install("jre")
    assert packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3"}


def test_nothing_was_installed(packages: ModuleType, machine: StandInMachine) -> None:
    assert not packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3"}


def test_what_others_need_meanwhile_stays_and_so_do_they(packages: ModuleType, machine: StandInMachine) -> None:
    packages.begin(machine.notes)
    machine.install("jre:amd64", "libjpeg:amd64", "chrony", "libchrony")
    machine.depend("jre:amd64", on="libjpeg:amd64")
    machine.depend("chrony", on="libchrony")
    packages.end(machine.notes)
    machine.install("users-own")
    machine.depend("users-own", on="jre:amd64")
    assert packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3", "users-own", "jre:amd64", "libjpeg:amd64"}


def test_what_others_need_meanwhile_stays_with_rpm_too(
    packages: ModuleType, machine: StandInMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_programs(tmp_path / "bin", {"rpm": RPM, "dnf": DNF})
    which = packages.shutil.which
    monkeypatch.setattr(
        packages.shutil, "which", lambda name: None if name in ("dpkg-query", "apt-get") else which(name)
    )
    packages.begin(machine.notes)
    machine.install("chrony", "jre", "libchrony", "libjpeg")
    machine.depend("jre", on="libjpeg")
    machine.depend("chrony", on="libchrony")
    packages.end(machine.notes)
    machine.install("users-own")
    machine.depend("users-own", on="jre")
    assert packages.remove(machine.notes)
    assert machine.installed == {"libc6", "python3", "users-own", "jre", "libjpeg"}
