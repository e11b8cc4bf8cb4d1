"""Is one build of the tracer cheaper than another?

    python -m tracer.bench.versions OTHER [--workload NAME] [--blocks N] [--arguments ARGUMENTS]

OTHER is another strata-iotrace. Both are attached in turn under one load, in blocks *this, other, other, this*, with
the kernel's statistics of BPF programs on; so drift of the machine cancels, and what each program takes is told apart.
Printed: nanoseconds of each program per run (medians), and this by other with its 95 % interval. Needs root.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tracer.bench import ratio
from tracer.bench.counters import bpf_statistics
from tracer.bench.load import WORKLOADS, Load, running
from tracer.bench.tools import TRACER, Tool, strata
from tracer.bench.windows import tool_attached

SETTLE_S = 0.2
WINDOW_S = 0.5
ALL = "all, per I/O"
RATE = "I/Os per second"


@dataclass(frozen=True)
class Costs:
    """Of one window, or the mean of two: nanoseconds by program, and the load's rate."""

    values: dict[str, float]

    def mean(self, other: Costs) -> Costs:
        """Of what only one of the two has, that."""
        both = (other.values | self.values, self.values | other.values)
        return Costs({name: (both[0][name] + both[1][name]) / 2 for name in both[0]})


def _other(binary: Path, arguments: tuple[str, ...]) -> Tool:
    ours = strata("other", arguments)

    def command(device: str, folder: Path) -> list[str]:
        return [str(binary) if word == str(TRACER) else word for word in ours.command(device, folder)]

    return replace(ours, command=command)


def _window(tool: Tool, load: Load) -> Costs:
    with tool_attached(tool, load) as attached:
        time.sleep(SETTLE_S)
        begin_ns, begin, begin_ios = time.monotonic_ns(), attached.objects.run_times(), load.ios()
        time.sleep(WINDOW_S)
        end, ios = attached.objects.run_times(), load.ios() - begin_ios
        seconds = (time.monotonic_ns() - begin_ns) / 1e9
    took = {name: (ns - begin[name][0], runs - begin[name][1]) for name, (ns, runs) in end.items()}
    costs = {name: ns / runs for name, (ns, runs) in took.items() if runs > ios / 100}
    return Costs(costs | {ALL: sum(ns for ns, _ in took.values()) / ios, RATE: ios / seconds})


def compare(this: Tool, other: Tool, load: Load, blocks: int) -> list[tuple[Costs, Costs]]:
    pairs = []
    with bpf_statistics():
        for _ in range(blocks):
            first, second, third, fourth = (_window(tool, load) for tool in (this, other, other, this))
            pairs.append((first.mean(fourth), second.mean(third)))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return pairs


def table(pairs: list[tuple[Costs, Costs]]) -> str:
    """Programs that only one of the two has, have no ratio."""
    lines = ["| | this | other | this by other | 95 % interval |", "|---|---|---|---|---|"]
    for name in sorted({name for pair in pairs for costs in pair for name in costs.values}):
        mine, theirs = ([c.values[name] for c in side if name in c.values] for side in zip(*pairs, strict=True))
        shown = [f"{statistics.median(values):,.0f}" if values else "" for values in (mine, theirs)]
        both = [(a.values[name], b.values[name]) for a, b in pairs if name in a.values and name in b.values]
        found = ratio.of_blocks(both) if both else None
        interval = f"{found.low:.3f} to {found.high:.3f}" if found and found.low and found.high else ""
        lines.append(f"| {name} | {shown[0]} | {shown[1]} | {f'{found.value:.3f}' if found else ''} | {interval} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tracer.bench.versions", description="Compares two tracers.")
    parser.add_argument("other", type=Path, help="another strata-iotrace")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="loop32")
    parser.add_argument("--blocks", type=int, default=20, help="of four windows each (default: 20)")
    parser.add_argument("--arguments", default="", help="for both, as one text")
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="on the disk to measure (default: here)")
    options = parser.parse_args()
    arguments = tuple(shlex.split(options.arguments))
    this, other = strata("this", arguments), _other(options.other.resolve(strict=True), arguments)
    with running(WORKLOADS[options.workload], options.directory) as load:
        print(table(compare(this, other, load, options.blocks)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
