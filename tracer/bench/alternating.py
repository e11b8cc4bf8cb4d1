"""What tracing costs, told apart to a per cent on a machine that is not quiet; and whether one build is cheaper.

    python -m tracer.bench.alternating [--workload NAME] [--rounds N] [--starts N] [--floors [NAME...]]
                                       [--variant NAME=ARGUMENTS]... [--other BINARY]... [--arguments ARGUMENTS]
                                       [--directory DIR] [--output DIR]

All tools are started before, and detached. In each round each of them is attached for a tenth of a second, between two
such windows without any; its rate by the geometric mean of those two is one measurement. Then, with the kernel's
statistics of BPF programs on, the same once more for the time of each program. Ours is built so that it attaches and
detaches at a signal (make -C tracer alternating); BINARY is such a build of other sources. One program takes up to 20 %
more or less time by where it and its memory lie, and mostly least in the tool that was started first: with --starts all
are started anew so many times, another one first each time, and the intervals are those of the starts. Needs root;
fentry programs alternate, kprobes do not. Tables on stdout; with --output also alternating.json there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from tracer.bench import ratio
from tracer.bench.counters import bpf_statistics
from tracer.bench.load import WORKLOADS, Load, LoadError, ended_by_signals, running
from tracer.bench.memory import held
from tracer.bench.tools import TRACER, Attached, Tool, ToolError, control, floors, strata, variant
from tracer.bench.windows import Window, tool_attached, window

ALTERNATING = TRACER.with_name("strata-iotrace-alternating")
ALL = "all"
EXIT_UNAVAILABLE = 3
EXIT_OUTPUT = 4
R = TypeVar("R")


@dataclass(frozen=True)
class Plan:
    """`settle_s` passes after each attaching and detaching: longer than the tracer's reader ever pauses (50 ms).

    Behind each of the `starts` come so many rounds.
    """

    rounds: int
    window_s: float = 0.12
    settle_s: float = 0.06
    counted_rounds: int = 20
    counted_window_s: float = 0.3
    starts: int = 1

    def told(self) -> str:
        behind = f" behind each of {self.starts} starts" if self.starts > 1 else ""
        return f"{self.rounds} rounds{behind}, windows of {self.window_s:g} s"


@dataclass
class Result:
    """Of one tool. `windows`: before it was attached, with it, and after. `run_ns`: of each program, by run and window;
    of all together, by I/O.
    """

    tool: str
    windows: list[tuple[Window, Window, Window]] = field(default_factory=list)
    run_ns: dict[str, list[float]] = field(default_factory=dict)
    lost: int | None = None
    starts: int = 1

    def rates(self) -> ratio.Ratio:
        return ratio.of_blocks(self._blocks(), self.starts)

    def median_rates(self) -> ratio.Ratio:
        """By the window before it alone: by both, one window in which the load is slow, wherever it falls, would move
        more rounds up than down (1.011 on such a disk with nothing attached).
        """
        return ratio.median_of_blocks([(with_it.iops, before.iops) for before, with_it, _ in self.windows], self.starts)

    def cpu_us_per_io(self) -> tuple[float, float]:
        """Of the whole machine: without the tool and with it, over all windows, which are of one length."""
        without = [each for before, _, after in self.windows for each in (before, after)]
        return _cpu_us_per_io(without), _cpu_us_per_io([with_it for _, with_it, _ in self.windows])

    def beside(self, other: Result) -> ratio.Ratio:
        """Its rate by the other's of the same round."""
        both = zip(self._blocks(), other._blocks(), strict=True)
        return ratio.of_blocks([(mine[0] / mine[1], theirs[0] / theirs[1]) for mine, theirs in both], self.starts)

    def _blocks(self) -> list[tuple[float, float]]:
        return [ratio.between(*(window.iops for window in windows)) for windows in self.windows]


def _cpu_us_per_io(windows: list[Window]) -> float:
    return sum(each.cpu_ns_per_io * each.iops for each in windows) / sum(each.iops for each in windows) / 1000


def alternating(tool: Tool, binary: Path = ALTERNATING) -> Tool:
    """One of ours, by another binary."""

    def command(device: str, folder: Path) -> list[str]:
        return [str(binary) if word == str(TRACER) else word for word in tool.command(device, folder)]

    return replace(tool, command=command)


@contextmanager
def _attached(attached: Attached, settle_s: float) -> Iterator[None]:
    """Detached until now, and afterwards again."""
    attached.alternate()
    time.sleep(settle_s)
    yield
    attached.alternate()
    time.sleep(settle_s)


def in_turn(results: list[R], at_work: list[Attached], number: int) -> list[tuple[R, Attached]]:
    """Another order in each round: none is always measured behind the same one."""
    both = list(zip(results, at_work, strict=True))
    return [*both[number % len(both) :], *both[: number % len(both)]]


def _measure_rates(results: list[Result], at_work: list[Attached], load: Load, plan: Plan) -> None:
    for number in range(plan.rounds):
        before = window(load, plan.window_s)  # no round shares a window with another one
        for result, attached in in_turn(results, at_work, number):
            with _attached(attached, plan.settle_s):
                with_it = window(load, plan.window_s)
            after = window(load, plan.window_s)
            result.windows.append((before, with_it, after))
            before = after
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def count_run_times(run_ns: dict[str, list[float]], attached: Attached, load: Load, plan: Plan) -> None:
    """Adds one window to each program's nanoseconds a run, and to those of all together an I/O."""
    begin, begin_ios = attached.objects.run_times(), load.ios()
    time.sleep(plan.counted_window_s)
    end, ios = attached.objects.run_times(), load.ios() - begin_ios
    took = {name: (ns - begin[name][0], runs - begin[name][1]) for name, (ns, runs) in end.items()}
    for name, (ns, runs) in took.items():
        if runs > ios / 100:
            run_ns.setdefault(name, []).append(ns / runs)
    if ios and took:
        run_ns.setdefault(ALL, []).append(sum(ns for ns, _ in took.values()) / ios)


@contextmanager
def started(tools: Sequence[Tool], device: str, first: int) -> Iterator[list[Attached]]:
    """All of them attached, in their order; but the one with number `first`, counted around, is started first."""
    at_work = {}
    with ExitStack() as stack:
        for number in range(first, first + len(tools)):
            at = number % len(tools)
            at_work[at] = stack.enter_context(tool_attached(tools[at], device))
        yield [at_work[at] for at in range(len(tools))]


def measure(tools: Sequence[Tool], load: Load, plan: Plan) -> list[Result]:
    """All tools under one load. May raise ToolError or LoadError."""
    results = [Result(tool.name, starts=plan.starts) for tool in tools]
    for start in range(plan.starts):
        _measure_started(tools, results, load, plan, start)
    return results


def _measure_started(tools: Sequence[Tool], results: list[Result], load: Load, plan: Plan, start: int) -> None:
    with started(tools, load.device, start) as at_work:
        for attached in at_work:
            attached.alternate()
        _measure_rates(results, at_work, load, plan)
        with bpf_statistics():
            for number in range(plan.counted_rounds):
                for result, attached in in_turn(results, at_work, number):
                    with _attached(attached, plan.settle_s):
                        count_run_times(result.run_ns, attached, load, plan)
    for result, attached in zip(results, at_work, strict=True):
        if attached.lost is not None:
            result.lost = (result.lost or 0) + attached.lost


def _shown(found: ratio.Ratio) -> str:
    interval = f" ({found.low:.3f} to {found.high:.3f})" if found.low and found.high else ""
    return f"{found.value:.3f}{interval}"


def rate_table(results: list[Result]) -> str:
    head = "| tool | rate with / without | median | by the first | CPU us an I/O without, with | BPF us an I/O | lost |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for result in results:
        beside = _shown(result.beside(results[0])) if result is not results[0] else ""
        took = result.run_ns.get(ALL)
        bpf_us = f"{statistics.median(took) / 1000:.2f}" if took else ""
        lost = "" if result.lost is None else f"{result.lost:,}"
        rates = f"{_shown(result.rates())} | {_shown(result.median_rates())}"
        cpu_us = ", ".join(f"{us:.2f}" for us in result.cpu_us_per_io())
        lines.append(f"| {result.tool} | {rates} | {beside} | {cpu_us} | {bpf_us} | {lost} |")
    return "\n".join(lines)


def program_table(results: list[Result]) -> str:
    heads, found = [result.tool for result in results], [result.run_ns for result in results]
    return compared("ns", heads, found, results[0].starts)


def compared(unit: str, heads: Sequence[str], found: Sequence[Mapping[str, list[float]]], starts: int = 1) -> str:
    """Medians by name; behind the first column's, each one's by the first's of the same window with its interval."""
    lines = [f"| {unit} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in sorted({name for each in found for name in each}):
        cells = []
        for each in found:
            took, its = each.get(name, []), found[0].get(name, [])
            cell = f"{statistics.median(took):,.0f}" if took else ""
            if each is not found[0] and took and len(took) == len(its) and not len(took) % starts:
                cell += f"; {_shown(ratio.of_blocks(list(zip(took, its, strict=True)), starts))}"
            cells.append(cell)
        lines.append(f"| {name}{', per I/O' if name == ALL else ''} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def parser_of(module: str, description: str, rounds: int, window_s: float) -> argparse.ArgumentParser:
    """With what is said of rounds and tools; the rest of both modules' arguments is their own."""
    parser = argparse.ArgumentParser(prog=f"python -m tracer.bench.{module}", description=description)
    parser.add_argument("--rounds", type=_count, default=rounds, help=f"in each, each tool once (default: {rounds})")
    parser.add_argument("--starts", type=_count, default=1, metavar="N",
                        help="of all tools, with as many rounds behind each (default: 1)")  # fmt: skip
    parser.add_argument("--window", type=float, default=window_s, help=f"seconds (default: {window_s})")
    parser.add_argument("--settle", type=float, default=Plan.settle_s,
                        help=f"seconds after each change that are not measured (default: {Plan.settle_s})")  # fmt: skip
    parser.add_argument("--arguments", default="", help="of our tracer and of each --other, as one text")
    parser.add_argument("--variant", action="append", default=[], type=variant, metavar="NAME=ARGUMENTS",
                        help="our tracer with other arguments, too")  # fmt: skip
    parser.add_argument("--other", action="append", default=[], type=Path, metavar="BINARY", help="another build, too")
    parser.add_argument("--floors", nargs="*", choices=[tool.name for tool in floors()], metavar="NAME",
                        help="nothing, and what being attached and the least cost, too; or only these")  # fmt: skip
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="on the disk to measure (default: here)")
    return parser


def tools_of(options: argparse.Namespace) -> list[Tool]:
    arguments = tuple(shlex.split(options.arguments))
    this = strata(f"strata-iotrace {options.arguments}".strip(), arguments)
    others = [alternating(strata(str(path), arguments), path.resolve(strict=True)) for path in options.other]
    ours = [*map(alternating, [this, *options.variant]), *others]
    if options.floors is None:
        return ours
    return [*ours, control(), *(tool for tool in floors() if tool.name in (options.floors or [tool.name]))]


def _arguments() -> argparse.Namespace:
    parser = parser_of("alternating", "What tracing costs.", 150, Plan.window_s)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="loop32")
    parser.add_argument("--counted-rounds", type=int, default=Plan.counted_rounds, metavar="N",
                        help=f"for the time of each program (default: {Plan.counted_rounds})")  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="for alternating.json")
    return parser.parse_args()


def printed(measured: Callable[[], str], build: Path = ALTERNATING, goal: str = "alternating") -> int:
    """The exit code; what was measured goes to stdout, or to stderr why nothing was. `build` comes of that goal."""
    if not build.exists():
        print(f"bench: no {build} (make -C {TRACER.parents[1]} {goal})", file=sys.stderr)
        return EXIT_UNAVAILABLE
    try:
        with ended_by_signals(), held():
            print(measured())
    except (LoadError, ToolError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0


def main() -> int:
    options = _arguments()
    workload = WORKLOADS[options.workload]
    counted = options.counted_rounds
    plan = Plan(options.rounds, options.window, options.settle, counted_rounds=counted, starts=options.starts)
    results: list[Result] = []

    def measured() -> str:
        with running(workload, options.directory) as load:
            results.extend(measure(tools_of(options), load, plan))
        head = f"{workload.title}; {plan.told()}"
        return f"{head}\n\n{rate_table(results)}\n\n{program_table(results)}"

    code = printed(measured)
    if not (options.output and results):
        return code
    content = {"schema_version": 2, "plan": asdict(plan), "tools": [asdict(result) for result in results]}
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "alternating.json").write_text(json.dumps(content, indent=1))
    except OSError as error:
        print(f"bench: the results above could not be written: {error}", file=sys.stderr)
        return EXIT_OUTPUT
    return code


if __name__ == "__main__":
    sys.exit(main())
