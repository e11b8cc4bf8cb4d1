"""Runs inside a guest: each workload on each disk while the tracer runs; writes down what happened, judges nothing.

    python -m tracer.guests.workloads OUT

OUT/<workload>/trace.bin (and .json) is the trace of all disks, OUT/<workload>/tracer.json the `error` of the tracer,
OUT/<workload>/<disk>.json what fio and the kernel say: `fio` (the jobs that fio ran), `inode` (of their file; 0 = they
used the disk itself), `before` and `after` (the disk's line of /proc/diskstats), `error` (empty, or what went wrong).
Only the standard library is imported: everything here is read over a slow share and runs emulated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracer.guests.layout import DISKS
from tracer.tests.tracing import BACKEND, diskstats, fio, tracing

Jobs = list[dict[str, Any]]
Workload = Callable[[str], tuple[Jobs, int]]
SETTLE_TIMEOUT_S = 20


def _on_disk(disk: str, *arguments: str) -> tuple[Jobs, int]:
    return [fio(f"--filename=/dev/{disk}", "--direct=1", *arguments)], 0


def direct(disk: str) -> tuple[Jobs, int]:
    """Reads and writes of one block each, several at a time."""
    return _on_disk(disk, "--ioengine=libaio", "--iodepth=8", "--rw=randrw", "--bs=4k", "--number_ios=400")


def synchronous(disk: str) -> tuple[Jobs, int]:
    """One read at a time, from a system call that waits."""
    return _on_disk(disk, "--rw=randread", "--bs=4k", "--number_ios=200")


def io_uring(disk: str) -> tuple[Jobs, int]:
    return _on_disk(disk, "--ioengine=io_uring", "--iodepth=4", "--rw=randread", "--bs=4k", "--number_ios=200")


def split(disk: str) -> tuple[Jobs, int]:
    """Writes twice as large as what the disk takes in one request."""
    block_kb = 2 * int(Path(f"/sys/block/{disk}/queue/max_sectors_kb").read_text())
    return _on_disk(disk, "--ioengine=libaio", "--iodepth=4", "--rw=write", f"--bs={block_kb}k", "--number_ios=12")


def ext4(disk: str) -> tuple[Jobs, int]:
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", f"/dev/{disk}"], check=True)
    return _on_file_system(disk)


def xfs(disk: str) -> tuple[Jobs, int]:
    subprocess.run(["mkfs.xfs", "-q", "-f", f"/dev/{disk}"], check=True)
    return _on_file_system(disk)


def _on_file_system(disk: str) -> tuple[Jobs, int]:
    """Through the page cache with fsync, then past it; with discards, journal, write-back and metadata."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["mount", f"/dev/{disk}", directory], check=True)
        try:
            written = fio(f"--directory={directory}", "--rw=write", "--bs=4k", "--fsync=8", "--size=1M")
            read = fio(f"--directory={directory}", "--rw=randread", "--bs=4k", "--size=1M", "--direct=1")
            (file,) = Path(directory).glob("test.*")
            inode = file.stat().st_ino
        finally:
            subprocess.run(["umount", directory], check=True)
    return [written, read], inode


WORKLOADS: dict[str, Workload] = {run.__name__: run for run in (direct, synchronous, io_uring, split, ext4, xfs)}


def _settle(disk: str) -> None:
    """Until the disk has nothing to do."""
    inflight = Path(f"/sys/block/{disk}/inflight")
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while inflight.read_text().split() != ["0", "0"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{disk}: requests are still under way after {SETTLE_TIMEOUT_S} s")
        time.sleep(0.01)


def _observe(workload: Workload, disk: str) -> dict[str, Any]:
    _settle(disk)
    seen: dict[str, Any] = {"before": asdict(diskstats(disk)), "error": ""}
    try:
        seen["fio"], seen["inode"] = workload(disk)
    except (subprocess.CalledProcessError, OSError, AssertionError) as error:
        said = getattr(error, "stderr", "") or ""
        seen["error"] = f"{error} {said}".strip()
    _settle(disk)
    seen["after"] = asdict(diskstats(disk))
    return seen


def _run(workload: Workload, folder: Path) -> str:
    """On all disks, under one trace; returns what is wrong with the tracer, if anything is.

    Raises AssertionError when it does not start: no other workload would fare better.
    """
    try:
        with tracing(folder / "trace.bin", *(["--vfs"] if BACKEND == "core" else [])) as trace:
            for disk in DISKS.values():
                (folder / f"{disk}.json").write_text(json.dumps(_observe(workload, disk)))
            code = trace.stop()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error) or type(error).__name__
    return f"exit code {code}" if code else ""


def main(out: Path) -> None:
    os.environ["HOME"] = str(out)
    for name, workload in WORKLOADS.items():
        folder = out / name
        folder.mkdir(parents=True)
        (folder / "tracer.json").write_text(json.dumps({"error": _run(workload, folder)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
