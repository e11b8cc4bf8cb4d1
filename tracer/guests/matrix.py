"""The matrix: all kernels at once, each in its guest, then every workload on every disk judged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tracer.guests.command import run
from tracer.guests.guest import TCG, GuestError, Limits, check, choose_accelerator, run_guest
from tracer.guests.judge import judge
from tracer.guests.kernels import KERNELS, Bootable, prepare
from tracer.guests.layout import DISKS
from tracer.guests.workloads import WORKLOADS

REPOSITORY = Path(__file__).resolve().parents[2]
# Twice what an emulated guest takes by itself.
LIMITS = Limits(cpu_s=600, wall_s=1500)
# Emulation runs the guest's CPUs in turn. One may stand still for milliseconds between the tracepoint of a completion
# and the kernel's own count of it, longer than the tracer waits for the two to agree under load.
NOT_WHEN_EMULATED = ("tracer/tests/test_trace.py::test_counts_agree_when_switched_under_load",)


@dataclass
class GuestResult:
    """What came out of one guest. `error` is empty when it ran to its end."""

    series: str
    release: str
    out: Path
    seconds: float = 0.0
    error: str = ""
    test_failures: list[str] = field(default_factory=list)
    tests_run: int = 0

    def judge(self, workload: str, disk: str) -> list[str]:
        """What was written down counts, also when the guest came to harm later."""
        return judge(self.series, workload, disk, self.out / "workloads")


def _job(accelerator: str, with_tests: bool) -> str:
    """The tracer's own tests run after the workloads; what they say is read from their XML."""
    deselected = " ".join(f"--deselect={test}" for test in NOT_WHEN_EMULATED if accelerator == TCG)
    python = shlex.quote(sys.executable)
    lines = [f"cd {shlex.quote(str(REPOSITORY))}", f"{python} -m tracer.guests.workloads /out/workloads || exit 1"]
    if with_tests:
        lines.append(
            f"{python} -m pytest -q -m bpf -p no:cacheprovider --color=no --junitxml=/out/tests.xml {deselected} "
            "tracer/tests\n[ $? -le 1 ]"
        )
    return "\n".join(lines) + "\n"


def _read_tests(path: Path) -> tuple[int, list[str]]:
    """How many tests ran (skipped ones did not), and those that failed."""
    failures, ran = [], 0
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  (written by our own pytest)
        bad = [*case.iter("failure"), *case.iter("error")]
        ran += not [*case.iter("skipped")]
        if bad:
            failures.append(f"{case.get('name')}: {bad[0].get('message', '')}")
    return ran, failures


def _run_one(series: str, bootable: Bootable, accelerator: str, out: Path, with_tests: bool) -> GuestResult:
    result = GuestResult(series, bootable.release, out)
    try:
        result.seconds = run_guest(bootable, accelerator, _job(accelerator, with_tests), out, LIMITS)
        if with_tests:
            result.tests_run, result.test_failures = _read_tests(out / "tests.xml")
    except (GuestError, OSError, ElementTree.ParseError) as error:
        result.error = str(error)
    return result


def run_guests(out: Path, kernels: Sequence[str] = tuple(KERNELS), *, with_tests: bool = True) -> list[GuestResult]:
    """Runs the guests side by side, results below `out`. May raise UnavailableError."""
    check()
    run("make", "-s", "-C", REPOSITORY / "tracer")
    bootable = {series: prepare(KERNELS[series]) for series in kernels}
    accelerator = choose_accelerator(next(iter(bootable.values())))
    with ThreadPoolExecutor(len(bootable)) as pool:
        running = [
            pool.submit(_run_one, series, kernel, accelerator, out / series, with_tests)
            for series, kernel in bootable.items()
        ]
        return [future.result() for future in running]


def cells() -> list[tuple[str, str]]:
    """Every workload on every disk."""
    return [(workload, disk) for workload in WORKLOADS for disk in DISKS.values()]
