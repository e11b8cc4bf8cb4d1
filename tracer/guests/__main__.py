"""The kernel matrix by hand.

    python -m tracer.guests [--variant 6.1]... [--output DIR] [--tests-until S] [--renew]

Prints a line per variant (kernel and backend), workload and disk. Exit: 0 all exact, 1 something is wrong, 3 no guests
can be had here.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path

from tracer.guests.command import UnavailableError
from tracer.guests.job import BuildError
from tracer.guests.kernels import KERNELS, prepare
from tracer.guests.matrix import LEAST_TESTS, GuestResult, cells, run_guests
from tracer.guests.variants import DEFAULT, VARIANTS

EXIT_WRONG = 1
EXIT_UNAVAILABLE = 3


def _report(result: GuestResult, *, tests_wanted: int) -> bool:
    print(f"{result.variant} (kernel {result.release}): {result.seconds:.0f} s")
    too_few = result.tests_run + result.tests_left_out < tests_wanted  # a slow machine leaves out some, for time is up
    right = not (result.error or result.test_failures or too_few)
    for workload, disk in cells():
        wrong = result.judge(workload, disk)
        right = right and not wrong
        print(f"  {'WRONG' if wrong else 'exact'} {workload:12} {disk:8} {'; '.join(wrong)}".rstrip())
    if result.tests_run or tests_wanted:
        left_out = f", {result.tests_left_out} left out, for time was up" if result.tests_left_out else ""
        few = f"  WRONG fewer than {tests_wanted}" if too_few else ""
        print(f"  tests of the tracer: {result.tests_run} ran, {len(result.test_failures)} failed{left_out}{few}")
    for failure in result.test_failures:
        print(f"  WRONG {failure}")
    if result.error:
        print(f"  WRONG {result.error}")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tracer.guests", description="Runs the tracer on other kernels.")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep what the guests wrote (emptied before)")
    parser.add_argument(
        "--tests-until",
        type=float,
        default=math.inf,
        metavar="S",
        help="only those of the tracer's own tests that begin within S seconds after their guest's start; 0: none",
    )
    parser.add_argument("--renew", action="store_true", help="fetch the newest kernels of the series")
    options = parser.parse_args()
    variants = options.variant or DEFAULT
    with tempfile.TemporaryDirectory() as scratch:
        out = options.output or Path(scratch)
        for name in variants:
            shutil.rmtree(out / name, ignore_errors=True)
        try:
            for name in variants if options.renew else ():
                prepare(KERNELS[VARIANTS[name].kernel], renew=True)
            results = run_guests(out.absolute(), variants, tests_until_s=options.tests_until)
        except UnavailableError as error:
            print(f"no guests: {error}", file=sys.stderr)
            return EXIT_UNAVAILABLE
        except BuildError as error:
            print(f"  WRONG {error}")
            return EXIT_WRONG
        tests_wanted = LEAST_TESTS if options.tests_until > 0 else 0
        right = [_report(result, tests_wanted=tests_wanted) for result in results]
        return 0 if all(right) else EXIT_WRONG


if __name__ == "__main__":
    sys.exit(main())
