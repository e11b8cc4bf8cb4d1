"""``strata doctor``: what this machine can do, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
_MEMORY_BYTES = 4 << 30
_DISK_BYTES = 8 << 30
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``needed``: without it no run is possible."""

    name: str
    ok: bool
    needed: bool
    detail: str
    hint: str = ""


def examine() -> list[Finding]:
    """Looks at everything; never fails itself."""
    return [
        _program("java", ["java", "-version"], needed=True, hint="install openjdk-17-jdk-headless"),
        _program("mvn", ["mvn", "-v"], needed=True, hint="install maven"),
        _program("setpriv", ["setpriv", "--version"], needed=True, hint="install util-linux"),
        _file("load client", ROOT / "ycsb-fork" / ".built", needed=True),
        _tracing(),
        _own_disks(),
        _amount("memory", psutil.virtual_memory().available, _MEMORY_BYTES, "the demo's cluster needs 4 GiB"),
        _amount("disk", shutil.disk_usage(ROOT).free, _DISK_BYTES, "jars, node disks and results need 8 GiB"),
    ]


def _program(name: str, command: list[str], *, needed: bool, hint: str) -> Finding:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, ok=False, needed=needed, detail=f"not found: {error}", hint=hint)
    # Maven writes in colour, terminal or not.
    lines = _COLOUR.sub("", answer.stdout or answer.stderr).splitlines()
    return Finding(name, ok=answer.returncode == 0, needed=needed, detail=lines[0] if lines else "", hint=hint)


def _file(name: str, path: Path, *, needed: bool) -> Finding:
    there = path.exists()
    return Finding(name, ok=there, needed=needed, detail="built" if there else "not built", hint="run `make setup`")


def _tracing() -> Finding:
    tracer = ROOT / "tracer" / "build" / "strata-iotrace"
    if not tracer.exists():
        return Finding("tracer", ok=False, needed=False, detail="not built", hint="run `make setup` as root")
    try:
        answer = subprocess.run([tracer, "--check"], capture_output=True, text=True, timeout=20, check=False)
        check = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Finding("tracer", ok=False, needed=False, detail=f"no answer: {error}", hint="run `make setup`")
    layers = ", ".join(check.get("layers", []))
    missing = "; ".join(f"{layer} missing: {why}" for layer, why in check.get("layers_missing", {}).items())
    detail = f"layers {layers}. {missing}".strip() if check["can_trace"] else str(check.get("reason"))
    hint = "run as root; kernels before 5.15 or without BTF need libbcc and their headers (docs/tracer-kernels.md)"
    return Finding("tracer", ok=check["can_trace"], needed=False, detail=detail, hint=hint)


def _own_disks() -> Finding:
    root = os.geteuid() == 0
    ok = root and Path("/dev/loop-control").exists()
    detail = "each local node gets a disk of its own" if ok else "local nodes share one disk"
    return Finding("node disks", ok=ok, needed=False, detail=detail, hint="run as root, with loop devices")


def _amount(name: str, there: int, wanted: int, hint: str) -> Finding:
    return Finding(name, ok=there >= wanted, needed=False, detail=f"{there / 2**30:.1f} GiB free", hint=hint)
