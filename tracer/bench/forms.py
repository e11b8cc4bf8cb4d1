"""Forms of a program in one build, switched while the load runs: is one cheaper? To two per cent in a minute.

    python -m tracer.bench.forms BINARY [--forms 0,1,...] [--workload NAME] [--rounds N] [--counted-rounds N]
                                        [--arguments ARGUMENTS] [--directory DIR]

Two builds of the same code differ by 5 to 7 %, by where they lie in memory, and hide what a change is worth. So all
forms are compiled into BINARY, a strata-iotrace whose programs ask a variable in a section of its own, for the time of
the experiment:

    volatile __u32 form SEC(".data.form") = 0;

In each round each form is on for a window. What it takes by what the first one takes in the same round is one
measurement. Times are taken with the kernel's statistics of BPF programs on, rates with them off. Needs root. A table
on stdout.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracer.bench.alternating import Plan, alternating, compared, count_run_times, printed
from tracer.bench.counters import BpfObjects, bpf_statistics
from tracer.bench.load import WORKLOADS, Load, running
from tracer.bench.tools import Tool, ToolError, strata
from tracer.bench.windows import tool_attached, window

SECTION = ".data.form"
#: What it writes to memory: in alternating.py it is attached for a part of the time only.
BOUNDED = ("--rotate-bytes", "67108864", "--keep-files", "1")
SETTLE_S = 0.02  # programs ask each time that they run; what is under way in the other form is over by then


@dataclass
class Form:
    """One of them, and what was measured with it, by window; `run_ns` as in alternating.py."""

    number: int
    iops: list[float] = field(default_factory=list)
    run_ns: dict[str, list[float]] = field(default_factory=dict)


class Switch:
    """Of the programs at work."""

    def __init__(self, objects: BpfObjects) -> None:
        number = objects.map_named(SECTION)
        if number is None:
            raise ToolError(f"this build has one form only: no variable in a section {SECTION}")
        self._id = str(number)

    def to(self, form: Form) -> None:
        value = (f"{byte:02x}" for byte in form.number.to_bytes(4, sys.byteorder))
        subprocess.run(
            ["bpftool", "map", "update", "id", self._id, "key", "hex", *["00"] * 4, "value", "hex", *value], check=True
        )
        time.sleep(SETTLE_S)


def measure(tool: Tool, numbers: Sequence[int], load: Load, plan: Plan) -> list[Form]:
    """May raise ToolError or LoadError."""
    forms = [Form(number) for number in numbers]

    def rounds(count: int) -> list[Form]:
        """Another order in each."""
        starts = (number % len(forms) for number in range(count))
        return [form for start in starts for form in [*forms[start:], *forms[:start]]]

    with tool_attached(tool, load.device) as attached:
        switch = Switch(attached.objects)
        for form in rounds(plan.rounds):
            switch.to(form)
            form.iops.append(window(load, plan.window_s).iops)
        with bpf_statistics():
            for form in rounds(plan.counted_rounds):
                switch.to(form)
                count_run_times(form.run_ns, attached, load, plan)
    return forms


def table(forms: Sequence[Form]) -> str:
    heads = [f"form {form.number}" for form in forms]
    rates = compared("", heads, [{"I/Os a second": form.iops} for form in forms])
    return f"{rates}\n\n{compared('ns', heads, [form.run_ns for form in forms])}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tracer.bench.forms", description="Which form of a program costs less."
    )
    parser.add_argument("binary", type=Path, metavar="BINARY")
    parser.add_argument("--forms", default="0,1", type=lambda text: [int(each) for each in text.split(",")],
                        help="values of the variable, the first one to compare with (default: 0,1)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=150, help="for the rate (default: 150)")
    parser.add_argument("--counted-rounds", type=int, default=100, metavar="N",
                        help="for the time of each program (default: 100)")  # fmt: skip
    parser.add_argument("--workload", choices=list(WORKLOADS), default="loop32")
    parser.add_argument("--arguments", default="", help="of the tracer, as one text")
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="on the disk to measure (default: here)")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    plan = Plan(options.rounds, counted_rounds=options.counted_rounds, counted_window_s=Plan.window_s)
    arguments = (*BOUNDED, *shlex.split(options.arguments))
    tool = alternating(strata(str(options.binary), arguments), options.binary.resolve())

    def measured() -> str:
        with running(WORKLOADS[options.workload], options.directory) as load:
            forms = measure(tool, options.forms, load, plan)
        return f"{WORKLOADS[options.workload].title}; {plan.rounds} and {plan.counted_rounds} rounds\n\n{table(forms)}"

    return printed(measured, options.binary, "all, of the sources with the forms")


if __name__ == "__main__":
    sys.exit(main())
