"""What a tool adds to the latency of one I/O, to fifty nanoseconds on a machine that is not quiet.

    python -m tracer.bench.latency [--workload read|fsync] [--rounds N] [--starts N] [--floors [NAME...]]
                                   [--variant NAME=ARGUMENTS]... [--other BINARY]... [--arguments ARGUMENTS]
                                   [--directory DIR]

4 KiB reads (O_DIRECT), or writes with an fsync after each, one at a time, on the CPU that gets the disk's interrupts.
Most of it is the device's time, and moves by more than any tool takes, so it is taken out: a program that is attached
all the time tells how long it was from each issue to its interrupt (peers/device_time.py). The rest is what software
takes, and what a tool adds to it is the median, over all windows with it, of the window's median by that of the window
before. Tools alternate as in alternating.py. Needs root and a disk with interrupts of its own (virtio, NVMe). A table
on stdout.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tracer.bench import ratio
from tracer.bench.alternating import Plan, in_turn, parser_of, printed, started, tools_of
from tracer.bench.load import LoadError, device_of, lay_out
from tracer.bench.tools import TRACER, Attached, Tool, device_time
from tracer.bench.windows import OUTPUT_ROOT, tool_attached

LOAD = TRACER.with_name("one-at-a-time")
FILE_BYTES = {"read": 1 << 30, "fsync": 64 << 20}
MOST = 16384
#: As in one_at_a_time.c.
SHARED = np.dtype(
    [("window", "u4"), ("seen", "u4"), ("count", "u4"), ("not_told", "u4"),
     ("software_ns", "u4", MOST), ("whole_ns", "u4", MOST)]
)  # fmt: skip
SEEN_TIMEOUT_S = 10
WINDOW_TRIES = 3


@dataclass(frozen=True)
class Window:
    """Medians of its I/Os; `whole_ns` as the caller sees them, `software_ns` without the device's time."""

    software_ns: float
    whole_ns: float


@dataclass
class Result:
    """Of one tool. `windows`: before it was attached, with it, and after."""

    tool: str
    windows: list[tuple[Window, Window, Window]] = field(default_factory=list)
    starts: int = 1

    def software(self) -> ratio.Ratio:
        """What software takes with the tool by what it takes without: medians as those of alternating.py."""
        return ratio.median_of_blocks(
            [(with_it.software_ns, before.software_ns) for before, with_it, _ in self.windows], self.starts
        )


class OneAtATime:
    """The load at work: `window` measures."""

    def __init__(self, shared: Path, reference: Attached) -> None:
        self._shared = np.memmap(shared, SHARED, "r+", shape=(1,))[0]
        self._reference = reference
        self._number = 0

    def window(self, seconds: float) -> Window:
        """Measured again, a few times, when it has no I/O that tells: a disk may stand still for longer."""
        for _ in range(WINDOW_TRIES):
            self._number += 1
            self._set(self._number)
            time.sleep(seconds)
            self._set(0)
            if count := int(self._shared["count"]):
                return Window(*(float(np.median(self._shared[name][:count])) for name in ("software_ns", "whole_ns")))
        raise LoadError(
            f"of {self._shared['not_told']} I/Os none had an interrupt of its own, in each of {WINDOW_TRIES} windows"
        )

    def tool_has_changed(self) -> None:
        """The reference's program at the issue comes behind all others again."""
        self._reference.alternate()

    def _set(self, number: int) -> None:
        self._shared["window"] = number
        deadline = time.monotonic() + SEEN_TIMEOUT_S
        while self._shared["seen"] != number:
            if time.monotonic() > deadline:
                raise LoadError(f"the load has done nothing for {SEEN_TIMEOUT_S} s")
            time.sleep(0.001)


def interrupts_of(device: str) -> list[int]:
    """Numbers of the interrupts of the disk's controller."""
    for folder in Path(f"/sys/block/{device}").resolve().parents:
        if (folder / "msi_irqs").is_dir():
            return sorted(int(each.name) for each in (folder / "msi_irqs").iterdir())
    raise LoadError(f"{device} has no interrupts of its own (no msi_irqs above it in sysfs)")


def cpu_that_gets(interrupts: Sequence[int], counts: str) -> int:
    """The CPU to which most of them went. `counts`: as in /proc/interrupts, the CPUs' numbers in its first line."""
    cpus = [int(each) for each in re.findall(r"CPU(\d+)", counts)]
    had = [0] * len(cpus)
    for line in counts.splitlines()[1:]:
        words = line.split()
        if words[0].rstrip(":") in {str(each) for each in interrupts}:
            had = [before + int(more) for before, more in zip(had, words[1:], strict=False)]
    return cpus[had.index(max(had))]


@contextmanager
def one_at_a_time(workload: str, directory: Path) -> Iterator[tuple[OneAtATime, str]]:
    """The load (read or fsync), and the disk that it is on; nothing is left of it."""
    device = device_of(directory)
    interrupts = interrupts_of(device)
    with ExitStack() as stack:
        file, shared = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place, prefix="strata-bench-"))) / "file"
            for place in (directory, OUTPUT_ROOT)
        )
        lay_out(file, FILE_BYTES[workload])
        shared.write_bytes(bytes(SHARED.itemsize))
        cpu = cpu_that_gets(interrupts, Path("/proc/interrupts").read_text())
        reference = device_time(cpu, interrupts, [str(LOAD), workload, str(file), str(shared)])
        yield OneAtATime(shared, stack.enter_context(tool_attached(reference, device))), device


def measure(tools: Sequence[Tool], load: OneAtATime, device: str, plan: Plan) -> list[Result]:
    """All tools under one load. May raise ToolError or LoadError."""
    results = [Result(tool.name, starts=plan.starts) for tool in tools]
    for start in range(plan.starts):
        _measure_started(tools, results, load, device, plan, start)
    print(file=sys.stderr)
    return results


def _measure_started(
    tools: Sequence[Tool], results: list[Result], load: OneAtATime, device: str, plan: Plan, start: int
) -> None:
    def change(attached: Attached) -> None:
        attached.alternate()
        load.tool_has_changed()
        time.sleep(plan.settle_s)

    with started(tools, device, start) as at_work:
        for attached in at_work:
            change(attached)
        for number in range(plan.rounds):
            before = load.window(plan.window_s)
            for result, attached in in_turn(results, at_work, number):
                change(attached)
                with_it = load.window(plan.window_s)
                change(attached)
                after = load.window(plan.window_s)
                result.windows.append((before, with_it, after))
                before = after
            print(".", end="", file=sys.stderr, flush=True)


def table(results: list[Result]) -> str:
    without = [each for result in results for before, _, after in result.windows for each in (before, after)]
    software_ns, whole_ns = (
        statistics.median(getattr(each, name) for each in without) for name in ("software_ns", "whole_ns")
    )
    lines = [
        f"Without a tool {whole_ns / 1000:.1f} us, of which software takes {software_ns / 1000:.1f} (medians).\n",
        "| tool | adds ns to an I/O | leaves of the rate |",
        "|---|---|---|",
    ]
    for result in results:
        found = result.software()
        adds = [(each - 1) * software_ns for each in (found.value, found.low, found.high) if each is not None]
        left = [whole_ns / (whole_ns + each) for each in (adds[0], *reversed(adds[1:]))]
        both = [f"{x[0]:{form}}" + (f" ({x[1]:{form}} to {x[2]:{form}})" if len(x) == 3 else "")
                for x, form in ((adds, ".0f"), (left, ".4f"))]  # fmt: skip
        lines.append(f"| {result.tool} | {both[0]} | {both[1]} |")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = parser_of("latency", "What tracing adds to one I/O.", 300, 0.05)
    parser.add_argument("--workload", choices=list(FILE_BYTES), default="read")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    plan = Plan(options.rounds, options.window, options.settle, starts=options.starts)

    def measured() -> str:
        with one_at_a_time(options.workload, options.directory) as (load, device):
            results = measure(tools_of(options), load, device, plan)
        head = f"disk, {options.workload} of 4 KiB, one at a time; {plan.told()}"
        return f"{head}\n\n{table(results)}"

    return printed(measured)


if __name__ == "__main__":
    sys.exit(main())
