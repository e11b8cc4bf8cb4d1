#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a node's folders, with owner and mode.

All in one step, for a module of Ansible's for each costs half a second of a CPU.

``node_folders.py [--check] FOLDERS``: a JSON list of ``{"path", "mode", "user", "marker"}``. Without ``user`` the owner
stays; ``marker`` is the name of a file that says whose folder it is. With ``--check`` nothing is changed, and a user
that is missing is one who will be made. One JSON object on standard output says whether anything was, or would be,
changed; a failure is one message on standard error and exit code 1. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

MARK = "Made by stratabench; `strata destroy` removes this folder.\n"


def settle(folder: Mapping[str, str], check: bool) -> bool:
    """One folder as it is wanted; True when it was not, or would not be, so."""
    path, mode = Path(folder["path"]), int(folder["mode"], 8)
    changed = not path.is_dir()
    if changed and not check:
        path.mkdir(parents=True)
    changed |= own(path, mode, folder.get("user", ""), check)
    if name := folder.get("marker"):
        changed |= mark(path / name, check)
    return changed


def own(path: Path, mode: int, user: str, check: bool) -> bool:
    try:
        found = path.stat()
        entry = pwd.getpwnam(user) if user else None
    except (FileNotFoundError, KeyError):
        if check:
            return True
        raise
    owner = (entry.pw_uid, entry.pw_gid) if entry else (found.st_uid, found.st_gid)
    if (found.st_uid, found.st_gid) == owner and stat.S_IMODE(found.st_mode) == mode:
        return False
    if not check:
        os.chown(path, *owner)
        path.chmod(mode)
    return True


def mark(path: Path, check: bool) -> bool:
    if path.is_file() and path.read_text(encoding="utf-8") == MARK:
        return False
    if not check:
        path.write_text(MARK, encoding="utf-8")
        path.chmod(0o644)
    return True


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folders", type=json.loads)
    options = parser.parse_args(arguments)
    try:
        changed = [folder["path"] for folder in options.folders if settle(folder, options.check)]
    except KeyError as error:
        print(f"there is no user {error}: nobody can own the node's folders", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(json.dumps({"changed": bool(changed), "folders": changed}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
