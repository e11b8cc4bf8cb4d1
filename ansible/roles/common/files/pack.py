#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a folder of this machine into one archive for the nodes, named by what is in it.

``NAME-HASH.tar`` holds the folder's files below ``NAME-HASH/`` and, as its last member, ``complete``: a node that has
this file has all others. One JSON object on standard output: changed, archive, name. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

COMPLETE = "complete"


def files_of(folder: Path) -> list[Path]:
    """Every file and every empty folder, in the same order on every machine."""
    return sorted(path for path in folder.rglob("*") if path.is_file() or not any(path.iterdir()))


def fingerprint(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder)}\0{is_program(path)}\0".encode())
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def is_program(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & 0o100)


def write(archive: Path, folder: Path, files: list[Path]) -> None:
    """Under its name only when it is complete; the same bytes for the same files."""
    top = archive.stem
    unfinished = archive.with_suffix(".new")
    with tarfile.open(unfinished, "w") as tar:
        for path in files:
            entry = tar.gettarinfo(str(path.resolve()), f"{top}/{path.relative_to(folder)}")
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = "root"
            entry.mode = 0o755 if path.is_dir() or is_program(path) else 0o644
            if path.is_file():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
        tar.addfile(tarfile.TarInfo(f"{top}/{COMPLETE}"), io.BytesIO())
    unfinished.replace(archive)


def pack(folder: Path, name: str, output: Path) -> dict[str, object]:
    output.mkdir(parents=True, exist_ok=True)
    with (output / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files = files_of(folder)
        archive = output / f"{name}-{fingerprint(folder, files)}.tar"
        missing = not archive.exists()
        if missing:
            write(archive, folder, files)
        return {"changed": missing, "archive": str(archive), "name": archive.stem}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="pack", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        print(json.dumps(pack(options.folder, options.name, options.output)))
    except OSError as error:
        print(f"{error.filename or options.folder}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
