"""The matrix: each kernel with a backend of the tracer in its guest, then every workload on every disk judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tracer.guests.guest import GuestError, Limits, check, choose_accelerator, run_guest
from tracer.guests.job import build, compile_bcc, job
from tracer.guests.judge import judge
from tracer.guests.kernels import KERNELS, Bootable, prepare, prepare_headers
from tracer.guests.layout import DISKS, LEFT_OUT
from tracer.guests.roots import HERE
from tracer.guests.variants import DEFAULT, VARIANTS, Variant
from tracer.guests.workloads import WORKLOADS

# Beside two others on two CPUs of a slow host, all of its tests took an emulated guest 2,590 s of its time (6.1), and
# more than 2,400 s of CPU time (6.12).
LIMITS = Limits(cpu_s=4800, wall_s=7200)

# Where fewer of the tracer's own tests ran, or were left out for time was up, nobody has looked at why.
LEAST_TESTS = 20


@dataclass
class GuestResult:
    """What came out of one guest. `error` is empty when it ran to its end."""

    variant: str
    release: str
    out: Path
    seconds: float = 0.0
    error: str = ""
    test_failures: list[str] = field(default_factory=list)
    tests_run: int = 0
    tests_left_out: int = 0

    def judge(self, workload: str, disk: str) -> list[str]:
        """What was written down counts, also when the guest came to harm later."""
        return judge(self.variant, workload, disk, self.out / "workloads")


def _read_tests(path: Path, result: GuestResult) -> None:
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  (written by our own pytest)
        bad = [*case.iter("failure"), *case.iter("error")]
        skipped = [str(reason.get("message")) for reason in case.iter("skipped")]
        result.tests_run += not skipped
        result.tests_left_out += LEFT_OUT in skipped
        if bad:
            result.test_failures.append(f"{case.get('name')}: {bad[0].get('message', '')}")


def _run_one(variant: Variant, bootable: Bootable, accelerator: str, out: Path, tests_until_s: float) -> GuestResult:
    result = GuestResult(variant.name, bootable.release, out)
    try:
        script = job(variant, bootable.release, accelerator, tests_until_s)
        result.seconds = run_guest(bootable, accelerator, script, out, LIMITS)
        if tests_until_s:
            _read_tests(out / "tests.xml", result)
    except (GuestError, OSError, ElementTree.ParseError) as error:
        result.error = str(error)
    return result


def run_guests(out: Path, names: Sequence[str] = DEFAULT, *, tests_until_s: float = math.inf) -> list[GuestResult]:
    """Runs the guests side by side, results below `out`. May raise UnavailableError and BuildError.

    The tracer's own tests run as well, those that begin within `tests_until_s` seconds after their guest's start.
    """
    variants = [VARIANTS[name] for name in names]
    kernels = {variant.kernel: KERNELS[variant.kernel] for variant in variants}
    architectures = {HERE, *(kernel.architecture for kernel in kernels.values())}
    check(*architectures)
    for architecture in architectures:
        build(architecture)
    bootable = {name: prepare(kernel) for name, kernel in kernels.items()}
    for variant in variants:
        if variant.backend == "bcc":
            headers = prepare_headers(kernels[variant.kernel], bootable[variant.kernel].release)
            compile_bcc(headers, out / variant.name / "compiled")
    accelerators = {guest.architecture: choose_accelerator(guest) for guest in bootable.values()}
    with ThreadPoolExecutor(len(variants)) as pool:
        running = [
            pool.submit(_run_one, variant, guest, accelerators[guest.architecture], out / variant.name, tests_until_s)
            for variant in variants
            for guest in [bootable[variant.kernel]]
        ]
        return [future.result() for future in running]


def cells() -> list[tuple[str, str]]:
    """Every workload on every disk."""
    return [(workload, disk) for workload in WORKLOADS for disk in DISKS.values()]
