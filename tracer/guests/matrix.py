"""The matrix: each kernel with a backend of the tracer in its guest, then every workload on every disk judged."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tracer.guests.command import UnavailableError, run
from tracer.guests.guest import TCG, GuestError, Limits, check, choose_accelerator, run_guest
from tracer.guests.judge import judge
from tracer.guests.kernels import KERNELS, Bootable, prepare, prepare_headers
from tracer.guests.layout import DISKS, LEFT_OUT, TESTS_UNTIL
from tracer.guests.workloads import WORKLOADS

REPOSITORY = Path(__file__).resolve().parents[2]
# Beside two others on two CPUs of a slow host, all of its tests took an emulated guest 2,590 s of its time (6.1), and
# more than 2,400 s of CPU time (6.12).
LIMITS = Limits(cpu_s=4800, wall_s=7200)
# When time is short, those that say most about a kernel come first.
FIRST = ("test_trace.py", "test_driver.py", "test_vfs.py", "test_return.py", "test_uring.py", "test_attribution.py",
         "test_volumes.py")  # fmt: skip
# Emulation runs the guest's CPUs in turn. One may stand still for milliseconds: between the tracepoint of a completion
# and the kernel's own count of it, longer than the tracer waits for the two to agree under load; between fio's clock
# and the system call; or between a task's switch and the kernel's own account of its waiting. No tracer is built there,
# and hundreds of threads take minutes.
NOT_WHEN_EMULATED = (
    "tracer/tests/test_hidden.py",
    "tracer/tests/test_names.py::test_a_number_that_is_used_again_stands_for_the_new_file_only",
    "tracer/tests/test_names.py::test_more_tasks_than_are_kept_in_mind",
    "tracer/tests/test_trace.py::test_counts_agree_when_switched_under_load",
    "tracer/tests/test_trace.py::test_nothing_is_dropped_where_hundreds_of_threads_want_to_run",
    "tracer/tests/test_trace.py::test_whole_calls_are_most_of_what_fio_saw",
    "tracer/tests/test_return.py::test_more_tasks_than_places",
    "tracer/tests/test_return.py::test_what_completes_while_the_call_returns_was_not_waited_for",
    "tracer/tests/test_uring.py::test_others_bytes_do_not_stand_for_what_is_under_way",
    "tracer/tests/test_agreement.py::test_calls_that_wait_take_as_long_as_fio_says",
    "tracer/tests/test_spans.py::test_waiting_for_a_cpu",
    "tracer/tests/test_spans.py::test_a_trace_that_ends_in_a_span_counts_what_it_samples",
    "tracer/tests/test_backends.py::test_what_the_verifier_says_of_a_program_that_it_refuses_is_told",
    "tracer/tests/test_many_disks.py::test_too_many_are_told",
)


@dataclass(frozen=True)
class Variant:
    """A kernel and one of the tracer's backends."""

    name: str
    series: str
    backend: str
    backwards: bool = False  # when time is short, two kernels with one backend leave out different tests


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("6.1", "6.1", "core"),
        Variant("6.12", "6.12", "core", backwards=True),
        Variant("6.1-bcc", "6.1", "bcc"),
        # Tracepoints and structures as they were before 5.11. Not in DEFAULT: an old suite may leave the archive.
        Variant("5.10-bcc", "5.10", "bcc"),
    )
}
DEFAULT = ("6.1", "6.12", "6.1-bcc")


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


def _compile(headers: Path, compiled: Path) -> None:
    """What strata-bcc-compile makes of the programs: two seconds here, a minute in an emulated guest."""
    build = REPOSITORY / "tracer" / "build"
    command = [build / "strata-bcc-compile"]
    environment = {**os.environ, "BCC_KERNEL_SOURCE": str(headers)}
    compiled.parent.mkdir(parents=True, exist_ok=True)
    with (build / "iotrace.bcc.c").open("rb") as text, compiled.open("wb") as output:
        done = subprocess.run(command, check=False, stdin=text, stdout=output, stderr=subprocess.PIPE, env=environment)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"strata-bcc-compile: {said}; is the package libbpfcc installed?")


def _tests(variant: Variant) -> str:
    """The files of tests, in the order in which they are run."""
    folder = Path("tracer/tests")
    rest = sorted(path.name for path in (REPOSITORY / folder).glob("test_*.py") if path.name not in FIRST)
    first = FIRST[::-1] if variant.backwards else FIRST
    return " ".join(str(folder / name) for name in (*first, *rest))


def _job(variant: Variant, accelerator: str, tests_until_s: float) -> str:
    """The tracer's own tests run after the workloads; what they say is read from their XML."""
    deselected = " ".join(f"--deselect={test}" for test in NOT_WHEN_EMULATED if accelerator == TCG)
    python = shlex.quote(sys.executable)
    lines = [f"cd {shlex.quote(str(REPOSITORY))}", f"export STRATA_TEST_BACKEND={variant.backend}"]
    if variant.backend == "bcc":
        headers = shlex.quote(str(prepare_headers(KERNELS[variant.series])))
        lines += [
            f"export BCC_KERNEL_SOURCE={headers}",
            # Only in the guest's own layer of files.
            r"printf '#!/bin/sh\nexec cat /out/compiled\n' >tracer/build/strata-bcc-compile",
        ]
    lines.append(f"{python} -m tracer.guests.workloads /out/workloads || exit 1")
    if tests_until_s:
        lines += [
            f"export {TESTS_UNTIL}={tests_until_s}",
            f"{python} -m pytest -q -m bpf -p no:cacheprovider --color=no --junitxml=/out/tests.xml "
            f"{deselected} {_tests(variant)}\n[ $? -le 1 ]",
        ]
    return "\n".join(lines) + "\n"


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
        job = _job(variant, accelerator, tests_until_s)
        result.seconds = run_guest(bootable, accelerator, job, out, LIMITS)
        if tests_until_s:
            _read_tests(out / "tests.xml", result)
    except (GuestError, OSError, ElementTree.ParseError) as error:
        result.error = str(error)
    return result


def run_guests(out: Path, names: Sequence[str] = DEFAULT, *, tests_until_s: float = math.inf) -> list[GuestResult]:
    """Runs the guests side by side, results below `out`. May raise UnavailableError.

    The tracer's own tests run as well, those that begin within `tests_until_s` seconds after their guest's start.
    """
    check()
    run("make", "-s", "-C", REPOSITORY / "tracer")
    variants = [VARIANTS[name] for name in names]
    bootable = {variant.series: prepare(KERNELS[variant.series]) for variant in variants}
    for variant in variants:
        if variant.backend == "bcc":
            _compile(prepare_headers(KERNELS[variant.series]), out / variant.name / "compiled")
    accelerator = choose_accelerator(next(iter(bootable.values())))
    with ThreadPoolExecutor(len(variants)) as pool:
        running = [
            pool.submit(_run_one, variant, bootable[variant.series], accelerator, out / variant.name, tests_until_s)
            for variant in variants
        ]
        return [future.result() for future in running]


def cells() -> list[tuple[str, str]]:
    """Every workload on every disk."""
    return [(workload, disk) for workload in WORKLOADS for disk in DISKS.values()]
