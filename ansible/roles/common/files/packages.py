#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Remembers which system packages deployment has added, so that taking down removes these and no others.

``begin`` notes what is installed before, ``end`` what has come since, ``list`` names that, ``remove`` takes it away.
An installation that was cut short has a beginning only: ``list`` and ``remove`` then compare with what is there. One
JSON object on standard output. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

BEFORE, ADDED = "packages.before", "packages.added"


class PackageError(Exception):
    """The package manager has failed; the message is its own."""


def run(*command: str) -> str:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise PackageError(f"{command[0]}: {said[-1]}")
    return done.stdout


def installed() -> set[str]:
    """Names of the packages that have files or settings on this machine."""
    if shutil.which("dpkg-query"):
        lines = run("dpkg-query", "-W", "-f=${db:Status-Abbrev} ${binary:Package}\n").splitlines()
        return {line.split()[-1] for line in lines if line[1:2] not in ("n", " ", "")}
    if shutil.which("rpm"):
        return set(run("rpm", "-qa", "--qf", "%{NAME}\n").split())
    return set()


def begin(folder: Path) -> bool:
    """What was there before the first installation stays what it was, however often it is tried again."""
    note = folder / BEFORE
    if note.exists():
        return False
    note.write_text("\n".join(sorted(installed())), encoding="utf-8")
    return True


def end(folder: Path) -> bool:
    before = set((folder / BEFORE).read_text(encoding="utf-8").split())
    added = set((folder / ADDED).read_text(encoding="utf-8").split()) if (folder / ADDED).exists() else set()
    (folder / ADDED).write_text("\n".join(sorted(added | (installed() - before))), encoding="utf-8")
    (folder / BEFORE).unlink()
    return True


def ours(folder: Path) -> set[str]:
    if (folder / BEFORE).exists():
        end(folder)
    if not (folder / ADDED).exists():
        return set()
    return set((folder / ADDED).read_text(encoding="utf-8").split()) & installed()


def taken_away(names: list[str]) -> set[str]:
    """What apt-get would remove with these packages: they and all that need them, without the architecture."""
    lines = run("apt-get", "-s", "-q", "-y", "purge", *names).splitlines()
    return {line.split()[1] for line in lines if line.startswith(("Purg ", "Remv "))}


def needed_by_none(names: list[str]) -> list[str]:
    """Those that can go alone: what somebody has put on the others meanwhile is not ours and would go with them."""
    own = {name.partition(":")[0] for name in names}
    if not names or taken_away(names) <= own:
        return names
    return [name for name in names if taken_away([name]) <= own]


def can_go(names: list[str]) -> bool:
    """Whether no other package needs one of these (RPM)."""
    return subprocess.run(["rpm", "-e", "--test", *names], capture_output=True, check=False).returncode == 0


def needed_by_no_rpm(names: list[str]) -> list[str]:
    """The same of RPM, whose dnf takes what needs a package away with it, unasked."""
    if not names or can_go(names):
        return names
    going: list[str] = []
    while more := next((name for name in names if name not in going and can_go([*going, name])), None):
        going.append(more)
    return going


def remove(folder: Path) -> bool:
    wanted = sorted(ours(folder))
    if shutil.which("apt-get"):
        wanted = needed_by_none(wanted)
        if wanted:
            run("apt-get", "-q", "-y", "purge", *wanted)
    elif wanted := needed_by_no_rpm(wanted):
        run("dnf", "-q", "-y", "--setopt=clean_requirements_on_remove=0", "remove", *wanted)
    for note in (BEFORE, ADDED):
        (folder / note).unlink(missing_ok=True)
    return bool(wanted)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="packages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["begin", "end", "list", "remove"])
    parser.add_argument("--folder", type=Path, required=True, help="where the notes are")
    options = parser.parse_args(arguments)
    try:
        if options.verb == "list":
            print(json.dumps({"changed": False, "packages": sorted(ours(options.folder))}))
            return 0
        changed = {"begin": begin, "end": end, "remove": remove}[options.verb](options.folder)
    except (PackageError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"changed": changed}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
