"""Whether the tracer and fio agree about the same I/O, each by its own clock readings.

    python -m tracer.bench.agreement [--directory DIR] [--output FILE.md]

fio logs the latency of every I/O; the tracer, with --vfs, records the same. For calls that wait (psync, fsync) fio's
time is the call's: the rows' total_ns + return_ns. For libaio it is from the end of io_submit to the reaping of the
completion, which the tracer cannot know: there total_ns stands beside it, from the request's start to its completion.
Wanted: as many I/Os, and for calls that wait p50 and p99 within 3 % or 2 us. Exit: 0 so it is, 1 it is not, 3 cannot
be tried here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracer.bench.load import LoadError, device_of, lay_out, loop_device
from tracer.bench.tools import Attached, ToolError, strata
from tracer.decode import read_table

TOLERANCE, TOLERANCE_NS = 0.03, 2000
QUANTILES = (50, 99)
FILE_BYTES = 256 << 20


@dataclass(frozen=True)
class Job:
    """So many I/Os, by so many threads of fio. `waits`: each I/O is a system call that returns when it is done."""

    title: str
    medium: str
    ios: int
    waits: bool
    fio: tuple[str, ...]
    syncs: bool = False
    threads: int = 1


JOBS = (
    Job("disk, 4 KiB reads, psync", "disk", 50_000, True, ("--rw=randread", "--direct=1", "--ioengine=psync")),
    Job("disk, 4 KiB writes, psync", "disk", 50_000, True, ("--rw=randwrite", "--direct=1", "--ioengine=psync")),
    Job("disk, fsync after a 4 KiB write", "disk", 5_000, True,
        ("--rw=randwrite", "--ioengine=psync", "--fsync=1"), syncs=True),
    Job("disk, 4 KiB reads, psync, 32 threads", "disk", 200_000, True,
        ("--rw=randread", "--direct=1", "--ioengine=psync"), threads=32),
    Job("disk, 4 KiB reads, libaio depth 32", "disk", 200_000, False,
        ("--rw=randread", "--direct=1", "--ioengine=libaio", "--iodepth=32")),
    Job("loop device, 4 KiB reads, psync", "memory", 50_000, True, ("--rw=randread", "--direct=1", "--ioengine=psync")),
    Job("loop device, 4 KiB reads, psync, 32 threads", "memory", 500_000, True,
        ("--rw=randread", "--direct=1", "--ioengine=psync"), threads=32),
    Job("loop device, 4 KiB reads, libaio depth 32", "memory", 500_000, False,
        ("--rw=randread", "--direct=1", "--ioengine=libaio", "--iodepth=32")),
)  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """What both say about one job: I/Os, and latencies in ns by percentile. `lost`: records that have no row.

    `gaps_ns`: fio's time less the tracer's, call by call, of one thread that waits on a raw disk; else None.
    """

    job: Job
    fio_ios: int
    tracer_ios: int
    fio_ns: tuple[float, ...]
    tracer_ns: tuple[float, ...]
    lost: int
    gaps_ns: NDArray[np.int64] | None = None

    @property
    def near(self) -> bool:
        """Whether the latencies agree."""
        return all(
            abs(mine - theirs) <= max(TOLERANCE * theirs, TOLERANCE_NS)
            for mine, theirs in zip(self.tracer_ns, self.fio_ns, strict=True)
        )

    @property
    def holds(self) -> bool:
        """What is wanted."""
        return self.fio_ios == self.tracer_ios and (self.near or not self.job.waits)


def quantiles_ns(values: NDArray[np.int64]) -> tuple[float, ...]:
    """Exact ones: each is a value that occurred."""
    return tuple(float(v) for v in np.percentile(values, QUANTILES, method="inverted_cdf"))


def fio_says(job: Job, target: Path, folder: Path) -> tuple[int, tuple[float, ...], NDArray[np.int64] | None]:
    """Runs the job; returns how many I/Os fio did, the quantiles of their latency in ns, and its log.

    The log holds latency in ns and offset in bytes of every I/O, thread by thread. fio logs no syncs and counts them in
    buckets (at most 1.6 % wide), so there the quantiles are not exact, and the log is None. May raise LoadError.
    """
    command = ["fio", "--name=agreement", "--thread", f"--filename={target}", f"--size={FILE_BYTES}", "--bs=4k",
               f"--numjobs={job.threads}", f"--io_size={job.ios // job.threads * 4096}", "--norandommap",
               "--randrepeat=1", "--overwrite=1", "--output-format=json", f"--write_lat_log={folder}/fio",
               "--log_offset=1", *job.fio]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise LoadError(f"fio ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    if job.syncs:
        (said,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
        sync = said["sync"]["lat_ns"]
        return sync["N"], tuple(float(sync["percentile"][f"{q:.6f}"]) for q in QUANTILES), None
    logs = [folder / f"fio_clat.{thread}.log" for thread in range(1, job.threads + 1)]
    log = np.concatenate([np.loadtxt(each, delimiter=",", usecols=(1, 4), dtype=np.int64, ndmin=2) for each in logs])
    return len(log), quantiles_ns(log[:, 0]), log


def tracer_says(job: Job, trace: Path) -> NDArray[np.int64]:
    """Latency in ns and offset on the disk in bytes of each I/O in order: of a call that waited, or of a request."""
    rows = read_table(trace).sort_by("t_unix_ns")
    latency = rows["total_ns"]
    if job.waits:
        rows = rows.filter(pc.is_valid(rows["return_ns"]))
        latency = pc.add(rows["total_ns"], rows["return_ns"])
    return np.column_stack([latency.cast(pa.int64()).to_numpy(), rows["sector"].cast(pa.int64()).to_numpy() * 512])


def gaps_ns(fio: NDArray[np.int64], tracer: NDArray[np.int64]) -> NDArray[np.int64]:
    """fio's latency less the tracer's, of the calls that both have: the tracer's are fio's in order, some left out.

    Both: latency in ns, offset in bytes. LookupError when the tracer has a call that fio has not.
    """
    calls = iter(fio.tolist())
    found: list[int] = []
    for mine, offset in tracer.tolist():
        theirs = next((latency for latency, at in calls if at == offset), None)
        if theirs is None:
            raise LookupError(f"fio knows nothing of call {len(found)} of the tracer's, at {offset}")
        found.append(theirs - mine)
    return np.array(found, np.int64)


def compare(job: Job, directory: Path) -> Agreement:
    """Runs one job under the tracer. May raise LoadError and ToolError."""
    with ExitStack() as stack:
        memory = Path("/dev/shm")  # noqa: S108  (the trace must not become I/O of the disk under test)
        home = memory if job.medium == "memory" else directory
        file = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=home, prefix="strata-bench-"))) / "file"
        lay_out(file, FILE_BYTES)
        target = stack.enter_context(loop_device(file)) if job.medium == "memory" else file
        device = target.name if job.medium == "memory" else device_of(file)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory, prefix="strata-bench-")))
        attached = Attached(strata(arguments=("--vfs", "--comm", "fio")), device, folder)
        try:
            fio_ios, fio_ns, log = fio_says(job, target, folder)
        finally:
            attached.detach()
        rows = tracer_says(job, folder / "io.bin")
        status = json.loads((folder / "io.bin.json").read_text())
        (disk,) = [disk for disk in status["devices"] if disk["device"] == device]
        lost = status["dropped"] + disk["excluded"].get("completion_not_seen", 0)
        in_order = job.waits and job.threads == 1 and job.medium == "memory"
        gaps = gaps_ns(log, rows) if log is not None and in_order else None
        return Agreement(job, fio_ios, len(rows), fio_ns, quantiles_ns(rows[:, 0]), lost, gaps)


def markdown(found: Sequence[Agreement]) -> str:
    """The table: microseconds, fio / tracer."""
    lines = [
        "| job | I/Os, fio / tracer | p50 us, fio / tracer | p99 us, fio / tracer | within 3 % or 2 us |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        cells = [
            f"{theirs / 1000:,.1f} / {mine / 1000:,.1f} ({mine / theirs - 1:+.1%})"
            for theirs, mine in zip(one.fio_ns, one.tracer_ns, strict=True)
        ]
        ios = f"{one.fio_ios:,} / {one.tracer_ios:,}" + (f" ({one.lost} lost)" if one.lost else "")
        lines.append(f"| {one.job.title} | {ios} | {cells[0]} | {cells[1]} | {'yes' if one.near else '**no**'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tracer.bench.agreement", description="Do fio and the tracer agree?"
    )
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="on the disk to measure (default: here)")
    parser.add_argument("--output", type=Path, metavar="FILE.md")
    options = parser.parse_args()
    found = []
    try:
        for job in JOBS:
            print(f"agreement: {job.title}", file=sys.stderr)
            found.append(compare(job, options.directory))
    except (LoadError, ToolError, OSError) as error:
        print(f"agreement: {error}", file=sys.stderr)
        return 3
    table = markdown(found)
    print(table, end="")
    if options.output:
        options.output.write_text(table)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
