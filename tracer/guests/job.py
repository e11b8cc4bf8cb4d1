"""What a guest runs: the workloads, then the tracer's own tests; and the tracer that they need."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tracer.guests.command import UnavailableError, run
from tracer.guests.guest import REPOSITORY, TCG
from tracer.guests.kernels import KERNELS, prepare_headers
from tracer.guests.layout import TESTS_UNTIL
from tracer.guests.roots import HERE, MACHINES, PACKAGES_AT, root_of
from tracer.guests.variants import Variant

# Of strata-bcc-compile, as in compile.c.
NO_LIBRARY = 3

# When time is short, those that say most about a kernel come first.
FIRST = ("test_trace.py", "test_driver.py", "test_vfs.py", "test_return.py", "test_uring.py", "test_attribution.py",
         "test_volumes.py")  # fmt: skip
# Emulation runs the guest's CPUs in turn. One may stand still for milliseconds: between the tracepoint of a completion
# and the kernel's own count of it, longer than the tracer waits for the two to agree under load; between fio's clock
# and the system call; between a task's switch and the kernel's own account of its waiting; or between two looks of a
# test at what changes all the time. No tracer is built there; hundreds of threads, or thousands of files, take minutes.
NOT_WHEN_EMULATED = (
    "tracer/tests/test_hidden.py",
    "tracer/tests/test_names.py::test_a_number_that_is_used_again_stands_for_the_new_file_only",
    "tracer/tests/test_names.py::test_a_file_that_is_read_all_the_time_does_not_keep_its_number",
    "tracer/tests/test_names.py::test_more_tasks_than_are_kept_in_mind",
    "tracer/tests/test_names.py::test_files_that_are_not_read_any_more_are_forgotten",
    "tracer/tests/test_names.py::test_memory_does_not_grow_with_the_files_that_were_read",
    "tracer/tests/test_names.py::test_numbers_of_tasks_are_used_again",
    "tracer/tests/test_trace.py::test_counts_agree_when_switched_under_load",
    "tracer/tests/test_trace.py::test_nothing_is_dropped_where_hundreds_of_threads_want_to_run",
    "tracer/tests/test_trace.py::test_whole_calls_are_most_of_what_fio_saw",
    "tracer/tests/test_return.py::test_more_tasks_than_places",
    "tracer/tests/test_return.py::test_what_completes_while_the_call_returns_was_not_waited_for",
    "tracer/tests/test_uring.py::test_others_bytes_do_not_stand_for_what_is_under_way",
    "tracer/tests/test_agreement.py::test_calls_that_wait_take_as_long_as_fio_says",
    "tracer/tests/test_context.py::test_more_tasks_that_wait_than_places",
    "tracer/tests/test_context.py::test_dirty_pages_and_those_that_are_written_back",
    "tracer/tests/test_spans.py::test_waiting_for_a_cpu",
    "tracer/tests/test_spans.py::test_a_trace_that_ends_in_a_span_counts_what_it_samples",
    "tracer/tests/test_spans.py::test_spans_of_more_processes_than_are_kept",
    "tracer/tests/test_backends.py::test_what_the_verifier_says_of_a_program_that_it_refuses_is_told",
    "tracer/tests/test_many_disks.py::test_too_many_are_told",
    "tracer/tests/test_coming_disks.py::test_no_room_for_those_that_come",
)


class BuildError(Exception):
    """What the guests are to run cannot be made of these sources: no guest is right, wherever it runs."""


def build(architecture: str) -> None:
    """The tracer, with a compiler of this machine's. May raise UnavailableError, and BuildError once it was built."""
    making: list[str | Path] = ["make", "-s", "-C", REPOSITORY / "tracer"]
    if architecture == HERE:
        _make(making, "build")
        return
    compiler = f"{MACHINES[architecture]}-linux-gnu-gcc"
    if not shutil.which(compiler):
        package = f"gcc-{MACHINES[architecture]}-linux-gnu"
        raise UnavailableError(f"{compiler} is not installed: install the package {package}")
    folder = _build_folder(architecture)
    _make([*making, f"BUILD={folder}", f"CC={compiler} --sysroot={root_of(architecture)}"], folder)


def _make(making: Sequence[str | Path], folder: str) -> None:
    try:
        run(*making)
    except UnavailableError as error:
        if (REPOSITORY / "tracer" / folder / "strata-iotrace").exists() and shutil.which("make"):
            raise BuildError(str(error)) from None
        raise


def _build_folder(architecture: str) -> str:
    return f"build-{architecture}"


def compile_bcc(headers: Path, compiled: Path) -> None:
    """What strata-bcc-compile makes of the programs: two seconds here, a minute in an emulated guest.

    May raise UnavailableError, without libbcc, and BuildError: then no kernel with these headers can be traced.
    """
    folder = REPOSITORY / "tracer" / "build"
    command = [folder / "strata-bcc-compile"]
    environment = {**os.environ, "BCC_KERNEL_SOURCE": str(headers)}
    compiled.parent.mkdir(parents=True, exist_ok=True)
    with (folder / "iotrace.bcc.c").open("rb") as text, compiled.open("wb") as output:
        done = subprocess.run(command, check=False, stdin=text, stdout=output, stderr=subprocess.PIPE, env=environment)
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == NO_LIBRARY:
        raise UnavailableError(f"strata-bcc-compile: {said}: install the package libbpfcc")
    if done.returncode != 0:
        raise BuildError(f"strata-bcc-compile: {said}")


def _tests(variant: Variant) -> str:
    """The files of tests, in the order in which they are run."""
    folder = Path("tracer/tests")
    rest = sorted(path.name for path in (REPOSITORY / folder).glob("test_*.py") if path.name not in FIRST)
    first = FIRST[::-1] if variant.backwards else FIRST
    return " ".join(str(folder / name) for name in (*first, *rest))


def _enter(architecture: str) -> list[str]:
    """Where the project is, with the tracer for this architecture, and `python`."""
    if architecture == HERE:
        return [f"cd {shlex.quote(str(REPOSITORY))}", f"python={shlex.quote(sys.executable)}"]
    return [
        "set -e",
        "mkdir -p /project",
        "mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose project /project",
        f"mount --bind /project/tracer/{_build_folder(architecture)} /project/tracer/build",
        f"export PYTHONPATH=/{PACKAGES_AT}",
        "cd /project",
        "python=python3",
        "set +e",
    ]


def job(variant: Variant, release: str, accelerator: str, tests_until_s: float) -> str:
    """The shell script; `release` is the kernel's. What the tests say is read from their XML."""
    deselected = " ".join(f"--deselect={test}" for test in NOT_WHEN_EMULATED if accelerator == TCG)
    kernel = KERNELS[variant.kernel]
    lines = [*_enter(kernel.architecture), f"export STRATA_TEST_BACKEND={variant.backend}"]
    if variant.backend == "bcc":
        headers = shlex.quote(str(prepare_headers(kernel, release)))
        lines += [
            f"export BCC_KERNEL_SOURCE={headers}",
            # Only in the guest's own layer of files.
            r"printf '#!/bin/sh\nexec cat /out/compiled\n' >tracer/build/strata-bcc-compile",
        ]
    lines.append('"$python" -m tracer.guests.workloads /out/workloads || exit 1')
    if tests_until_s:
        lines += [
            f"export {TESTS_UNTIL}={tests_until_s}",
            '"$python" -m pytest -q -m bpf -p no:cacheprovider --color=no --junitxml=/out/tests.xml '
            f"{deselected} {_tests(variant)}\n[ $? -le 1 ]",
        ]
    return "\n".join(lines) + "\n"
