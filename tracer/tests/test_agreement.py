"""The tracer and fio about the same I/O."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tracer.bench.agreement import FILE_BYTES, JOBS, TOLERANCE_NS, Agreement, Job, compare, fio_says, gaps_ns, markdown
from tracer.bench.load import lay_out


def said(tracer_us: float, *, ios: int = 10) -> Agreement:
    return Agreement(JOBS[0], 10, ios, (50e3, 100e3), (50e3, tracer_us * 1000), lost=10 - ios)


def test_three_percent_or_two_microseconds_is_near_enough() -> None:
    assert [said(us).holds for us in (100, 97, 103, 96.9, 103.1)] == [True, True, True, False, False]
    short = replace(said(100), fio_ns=(3e3, 5e3), tracer_ns=(1.1e3, 6.9e3))
    assert short.holds
    assert not replace(short, tracer_ns=(0.9e3, 6.9e3)).holds
    assert not said(100, ios=9).holds, "an I/O is missing"
    assert "| 10 / 9 (1 lost) | 50.0 / 50.0 (+0.0%) | 100.0 / 100.0 (+0.0%) | yes |" in markdown([said(100, ios=9)])


def test_calls_are_paired_in_order_though_some_have_no_record() -> None:
    fio = np.array([[50, 0], [60, 4096], [70, 0], [80, 8192], [90, 4096]])
    tracer = np.array([[49, 0], [68, 0], [87, 4096]])
    assert gaps_ns(fio, tracer).tolist() == [1, 2, 3]
    with pytest.raises(LookupError, match="12288"):
        gaps_ns(fio, np.array([[49, 0], [50, 12288]]))


def without_waiting_ns() -> float:
    """The median that fio says of a read that finds all in the cache: where the machine is slow, this is as well."""
    job = Job("cached", "memory", 20_000, True, ("--rw=randread", "--ioengine=psync", "--invalidate=0"))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="strata-bench-") as folder:
        lay_out(Path(folder, "file"), FILE_BYTES)
        _, (median_ns, _), _ = fio_says(job, Path(folder, "file"), Path(folder))
    return median_ns


@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.usefixtures("can_trace")
def test_calls_that_wait_take_as_long_as_fio_says(tmp_path: Path) -> None:
    (job,) = (job for job in JOBS if job.medium == "memory" and job.waits and job.threads == 1)
    found = compare(replace(job, ios=20_000), tmp_path)
    assert found.fio_ios == found.tracer_ios + found.lost == 20_000
    # fio's time contains each call whole, and the way into the kernel and back, which no tracer sees.
    assert found.gaps_ns is not None and found.gaps_ns.min() > 0
    around_ns = float(np.median(found.gaps_ns))
    assert around_ns < max(TOLERANCE_NS, 2 * without_waiting_ns())
    assert replace(found, fio_ns=tuple(ns - around_ns for ns in found.fio_ns)).near, (around_ns, markdown([found]))
