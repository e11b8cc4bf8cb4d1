#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts HBase's jars into a folder once, by Maven, and checks quickly at every later call that they are there.

The folder holds ``lib/*.jar``, ``webroot/`` (what the NameNode expects on its class path) and
``distribution.json`` with the size and SHA-256 of every jar. Jars that are missing or cut short are fetched
again, and must then be what they were. One JSON object on standard output: changed, jars. Standard library
only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STAMP = "distribution.json"
# The NameNode refuses to start without these folders, which Hadoop's own archive has and its jars have not.
WEB_FOLDERS = ("hdfs", "datanode", "static", "secondary")

Jars = dict[str, dict[str, object]]


class ResolveError(Exception):
    """The distribution is not complete and could not be made so."""


def read_stamp(folder: Path, version: str) -> Jars:
    """The jars as they were resolved; empty when there is no stamp for this version."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    jars: Jars = stamp["jars"] if stamp.get("version") == version else {}
    return jars


def damaged(folder: Path, jars: Jars) -> list[str]:
    """Names of the jars that are missing or have another size than when they were resolved."""
    sizes = {path.name: path.stat().st_size for path in (folder / "lib").glob("*.jar")}
    return sorted(name for name, jar in jars.items() if sizes.get(name) != jar["size"])


def describe(lib: Path) -> Jars:
    return {
        path.name: {"size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in sorted(lib.glob("*.jar"))
    }


def maven(mvn: str, pom: Path, version: str, lib: Path) -> None:
    # -U: Maven would repeat yesterday's failure from its memory.
    command = [
        mvn,
        "-q",
        "-B",
        "-U",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
    ]
    command += [f"-Dhbase.version={version}", f"-DoutputDirectory={lib}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ResolveError(f"Maven cannot be started ({mvn}: {error.strerror}): install maven") from error
    if done.returncode != 0:
        raise ResolveError(first_error(done.stdout) or f"Maven ended with code {done.returncode}")


def first_error(output: str) -> str:
    """Maven's first error without colours, without the goal before and the pointers to help behind it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    errors = [line.removeprefix("[ERROR] ").strip() for line in plain.splitlines() if line.startswith("[ERROR] ")]
    text = re.sub(r"^Failed to execute goal .*?hbase-distribution:pom:1: ", "", errors[0] if errors else "")
    return re.sub(r" -> \[Help.*", "", text)


def resolve(folder: Path, pom: Path, version: str, mvn: str, known: Jars) -> Jars:
    """Fetches into a new folder beside the wanted one and swaps them when all is complete."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        fresh = Path(temporary) / "dist"
        maven(mvn, pom, version, fresh / "lib")
        jars = describe(fresh / "lib")
        changed = sorted(name for name in known if jars.get(name) != known[name])
        if changed:
            raise ResolveError(f"the repository now gives another {changed[0]} than before")
        for name in WEB_FOLDERS:
            (fresh / "webroot" / "webapps" / name / "WEB-INF").mkdir(parents=True)
        (fresh / STAMP).write_text(json.dumps({"version": version, "jars": jars}, indent=1), encoding="utf-8")
        # Running JVMs keep their open jars; the old folder goes only when the new one is complete.
        if folder.exists():
            folder.rename(Path(temporary) / "old")
        fresh.rename(folder)
    return jars


def ensure(folder: Path, pom: Path, version: str, mvn: str) -> dict[str, object]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars = read_stamp(folder, version)
        missing = damaged(folder, jars)
        if jars and not missing:
            return {"changed": False, "jars": len(jars)}
        try:
            jars = resolve(folder, pom, version, mvn, jars)
        except ResolveError as error:
            what = f"missing or damaged in {folder}: {', '.join(missing)}; " if missing else ""
            raise ResolveError(f"{what}HBase {version} could not be fetched: {error}") from error
        return {"changed": True, "jars": len(jars)}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="resolve-jars", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pom", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--mvn", default="mvn")
    options = parser.parse_args(arguments)
    if shutil.which(options.mvn) is None and not (options.folder / STAMP).exists():
        print(f"Maven is missing ({options.mvn}): install maven", file=sys.stderr)
        return 1
    try:
        print(json.dumps(ensure(options.folder, options.pom, options.version, options.mvn)))
    except (ResolveError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
