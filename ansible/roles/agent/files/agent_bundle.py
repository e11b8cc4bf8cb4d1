#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gathers what an agent needs on another machine: its code, Python packages, tracer and load client.

The folder looks like the repository, so that one configuration fits both, and has ``packages/`` besides: wheels for
the node's Python, in the versions and with the checksums that the project pins. It is made once for each kind of
node and kept while nothing of it changes. One JSON object on standard output: changed, folder. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# What `agent` imports, and what these import.
PACKAGES = ("grpcio", "prometheus-client", "protobuf", "psutil", "typing-extensions")
# Oldest first; pip takes a wheel of any of them.
PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_17", "manylinux_2_28")
BINDINGS = "core/src/main/resources/org/stratabench/ycsb/bindings.properties"
REQUIREMENTS = ".ci/requirements.txt"


class BundleError(Exception):
    """Something is missing; the message says what and how to get it."""


def pinned(requirements: str) -> str:
    """The blocks of the packages above: a name, its version, and the checksums behind it."""
    blocks = re.findall(r"^[a-z0-9](?:[^\n]*\\\n)*[^\n]*", requirements, re.M)
    wanted = {block.partition("==")[0]: block for block in blocks}
    missing = [name for name in PACKAGES if name not in wanted]
    if missing:
        raise BundleError(f"{REQUIREMENTS} does not name {', '.join(missing)}")
    return "\n".join(wanted[name] for name in PACKAGES) + "\n"


def install_packages(folder: Path, requirements: str, python: str, machine: str) -> None:
    """Wheels only: nothing is compiled, nothing of this machine is run."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        pins = Path(temporary) / "requirements.txt"
        pins.write_text(requirements, encoding="utf-8")
        fresh = Path(temporary) / "packages"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        command += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--target", str(fresh), "-r", str(pins)]
        command += ["--implementation", "cp", "--python-version", python]
        command += [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = next((line for line in done.stderr.splitlines() if "ERROR" in line), done.stderr.strip()[-200:])
            raise BundleError(f"the agent's Python packages could not be fetched (Python {python}, {machine}): {said}")
        try:
            fresh.rename(folder)
        except OSError:
            # The cache is shared: a deployment of another inventory may have been faster.
            if not folder.is_dir():
                raise


def sources(repository: Path, machine: str) -> Iterator[Path]:
    """The files that a node needs, relative to the repository."""
    for path in (repository / "agent").rglob("*.py"):
        if "tests" not in path.parts:
            yield path.relative_to(repository)
    for name in ("strata-iotrace", "strata-bcc-compile"):
        program = repository / "tracer/build" / name
        if program.exists() and machine == platform.machine():
            yield program.relative_to(repository)
    client = repository / "ycsb-fork"
    yield from (path.relative_to(repository) for path in (client / "bin").iterdir())
    yield (client / BINDINGS).relative_to(repository)
    patterns = ("*/target/ycsb-*.jar", "*/target/dependency/*.jar", "*/jvm.options")
    jars = [path for pattern in patterns for path in client.glob(pattern)]
    if not any(path.name.startswith("ycsb-") for path in jars):
        raise BundleError(f"the load client is not built in {client}: make setup")
    yield from (path.relative_to(repository) for path in jars)


def fingerprint(repository: Path, files: list[Path], more: str) -> str:
    """By size and time: what was built again is packed again, and the archive's own name is by content."""
    digest = hashlib.sha256(more.encode())
    for path in files:
        status = (repository / path).stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def gather(repository: Path, cache: Path, output: Path, python: str, machine: str) -> dict[str, object]:
    folder = output / f"agent-{python}-{machine}"
    output.mkdir(parents=True, exist_ok=True)
    with (output / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        requirements = pinned((repository / REQUIREMENTS).read_text(encoding="utf-8"))
        packages = cache / f"packages-{python}-{machine}-{hashlib.sha256(requirements.encode()).hexdigest()[:12]}"
        if not packages.is_dir():
            install_packages(packages, requirements, python, machine)
        files = sorted(set(sources(repository, machine)))
        stamp, mark = output / f"{folder.name}.made", fingerprint(repository, files, packages.name)
        if stamp.exists() and stamp.read_text(encoding="ascii") == mark and folder.is_dir():
            return {"changed": False, "folder": str(folder)}
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / path, folder / path)
        shutil.copytree(packages, folder / "packages")
        stamp.write_text(mark, encoding="ascii")
        return {"changed": True, "folder": str(folder)}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="agent-bundle", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="where wheels are kept")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--python", required=True, help="the node's Python, such as 3.11")
    parser.add_argument("--machine", required=True, help="the node's architecture, such as x86_64")
    options = parser.parse_args(arguments)
    try:
        answer = gather(options.repository, options.cache, options.output, options.python, options.machine)
        print(json.dumps(answer))
    except (BundleError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
