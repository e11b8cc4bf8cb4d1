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
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tracer.bench import ratio
from tracer.bench.alternating import Plan, alternating, count_run_times, printed, shown
from tracer.bench.counters import BpfObjects, bpf_statistics
from tracer.bench.load import WORKLOADS, Load, running
from tracer.bench.tools import Tool, ToolError, strata
from tracer.bench.windows import tool_attached, window

SECTION = ".data.form"
RATE = "I/Os a second"
SETTLE_S = 0.02  # programs ask each time that they run; what is under way in the other form is over by then


class Form:
    """One of them, and what was measured with it: nanoseconds a run of each program, and rates, by window."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.found: dict[str, list[float]] = {}


class Switch:
    """Of the programs at work."""

    def __init__(self, objects: BpfObjects) -> None:
        listing = subprocess.run(["bpftool", "map", "show", "-j"], check=True, capture_output=True, text=True).stdout
        ids = [each["id"] for each in json.loads(listing) if each["id"] in objects.maps and each["name"] == SECTION]
        if not ids:
            raise ToolError(f"this build has one form only: no variable in a section {SECTION}")
        self._id = str(ids[0])

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
            form.found.setdefault(RATE, []).append(window(load, plan.window_s).iops)
        with bpf_statistics():
            for form in rounds(plan.counted_rounds):
                switch.to(form)
                count_run_times(form.found, attached, load, plan)
    return forms


def table(forms: Sequence[Form]) -> str:
    """Medians; behind the first form's, each one's by the first's of the same round with its interval."""
    first = forms[0].found
    lines = [f"| | {' | '.join(f'form {form.number}' for form in forms)} |", "|---" * (len(forms) + 1) + "|"]
    for name in sorted({name for form in forms for name in form.found}):
        cells = []
        for form in forms:
            found, its = form.found.get(name, []), first.get(name, [])
            cell = f"{statistics.median(found):,.0f}" if found else ""
            if form is not forms[0] and found and len(found) == len(its):
                cell += f"; {shown(ratio.of_blocks(list(zip(found, its, strict=True))))}"
            cells.append(cell)
        lines.append(f"| {name if name == RATE else f'{name}, ns'} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
    arguments = tuple(shlex.split(options.arguments))
    tool = alternating(strata(str(options.binary), arguments), options.binary.resolve())

    def measured() -> str:
        with running(WORKLOADS[options.workload], options.directory) as load:
            forms = measure(tool, options.forms, load, plan)
        return f"{WORKLOADS[options.workload].title}; {plan.rounds} and {plan.counted_rounds} rounds\n\n{table(forms)}"

    return printed(measured, options.binary, "all, of the sources with the forms")


if __name__ == "__main__":
    sys.exit(main())
