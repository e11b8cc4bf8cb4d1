"""What tracing costs, ours and others'.

    python -m tracer.bench [--quick] [--workload NAME]... [--variant NAME=ARGUMENTS]... [--no-peers] [--floors]
                           [--directory DIR] [--output DIR]

Needs root. Progress on stderr, the table on stdout; with --output also bench.json and bench.md there.
Exit: 0 measured, 3 cannot be measured here, 4 our own tracer did not run or lost records.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tracer.bench import report
from tracer.bench.load import WORKLOADS, LoadError, ended_by_signals, running
from tracer.bench.memory import held
from tracer.bench.tools import TRACER, Tool, beside, floors, ours, peers, variant
from tracer.bench.windows import FULL, QUICK, Plan, ToolResult, measure

EXIT_UNAVAILABLE = 3
EXIT_TRACER = 4


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tracer.bench", description="Measures what tracing costs.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.blocks} short blocks instead of {FULL.blocks}")
    parser.add_argument("--blocks", type=int, help="blocks of four windows per tool")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), help="default: all")
    parser.add_argument("--variant", action="append", default=[], type=variant, metavar="NAME=ARGUMENTS",
                        help="measure the tracer with other arguments, too")  # fmt: skip
    parser.add_argument("--no-peers", action="store_true", help="our tracer only")
    parser.add_argument(
        "--floors", action="store_true", help="what being attached costs, and the least that a tracer does, too"
    )
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="on the disk to measure (default: here)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="for bench.json and bench.md")
    return parser.parse_args()


def _tools(name: str, options: argparse.Namespace) -> list[Tool]:
    """Our own ones come first. What others time, disks, there is little of under a load on TCP."""
    if WORKLOADS[name].medium == "network":
        return [*beside(), *options.variant]
    others = [*(floors() if options.floors else []), *([] if options.no_peers else peers())]
    return [*ours(), *options.variant, *others]


def _measure(name: str, tools: list[Tool], plan: Plan, directory: Path) -> list[ToolResult]:
    results = []
    with held(), running(WORKLOADS[name], directory) as load:
        for tool in tools:
            print(f"bench: {name}: {tool.name}", file=sys.stderr)
            results.append(measure(tool, load, plan))
            if results[-1].error:
                print(f"bench: {name}: {tool.name}: {results[-1].error}", file=sys.stderr)
    return results


def main() -> int:
    options = _arguments()
    if os.geteuid() != 0 or not TRACER.exists():
        print(f"bench: needs root, and the tracer (make -C {TRACER.parents[1]})", file=sys.stderr)
        return EXIT_UNAVAILABLE
    plan = QUICK if options.quick else FULL
    if options.blocks:
        plan = Plan(options.blocks, plan.window_s, plan.settle_s)
    names = options.workload or list(WORKLOADS)
    try:
        with ended_by_signals():
            results = {name: _measure(name, _tools(name, options), plan, options.directory) for name in names}
    except LoadError as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    workloads = [WORKLOADS[name] for name in names]
    table = report.markdown(plan, workloads, results)
    print(table, end="")
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "bench.md").write_text(table)
        (options.output / "bench.json").write_text(json.dumps(report.as_json(plan, workloads, results), indent=1))
    own_results = [result for name in names for result in results[name] if result.own]
    return EXIT_TRACER if any(result.error or result.lost for result in own_results) else 0


if __name__ == "__main__":
    sys.exit(main())
