"""The command ``strata``. Verbs only: each parses, calls one function, prints."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controller import deploy, doctor, guard, screens
from controller.databases import make_database
from controller.errors import ConfigError, DataError, DeployError, InterruptedRunError, RunError, StrataError
from controller.experiment import WORKLOADS, Experiment, load_experiment, preset_names
from controller.inventory import Inventory, load_inventory
from controller.plan import Plan, PlannedNode, make_plan
from controller.progress import Progress
from controller.property_check import check_properties
from controller.results.finish import finish
from controller.results.store import MANIFEST, RunStore, disk_errors, runs
from controller.runner import RunRequest, Verdict, recover, run
from controller.scaling import (
    Series,
    SeriesVerdict,
    is_series,
    recover_series,
    run_series,
    series_folder,
    tabulate,
)
from controller.streams import complain, reopen, result, tell
from controller.thresholds import Threshold, check_thresholds, parse_threshold, require_planned
from controller.workloads import load_workload
from viz.report import write_report
from viz.scaling_report import write_scaling_report

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Exit codes: 0 ok, 1 threshold, 2 usage or configuration, 3 preflight or deploy, 4 run failed,
    5 incomplete data, 130 interrupted."""
    reopen()
    options, unknown = _parser().parse_known_args(arguments)
    try:
        if unknown:
            verb = options.verb.__name__.removeprefix("_")
            hint = f"`strata {verb} --help` says what it takes"
            raise ConfigError(f"{verb} does not take {' '.join(unknown)}", hint=hint)
        return int(options.verb(options))
    except StrataError as error:
        return complain(error)
    except OSError as error:
        tell(f"strata: {error.filename or ''}: {error.strerror}".replace(" : ", " "))
        return RunError.exit_code
    except KeyboardInterrupt:
        by_half = options.verb in (_deploy, _scale, _destroy)
        hint = "the same command goes on where it ended; `strata destroy` takes down what is there" if by_half else ""
        return complain(InterruptedRunError("interrupted", hint=hint))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="strata", description="Benchmarks database clusters and traces every I/O below them."
    )
    parser.add_argument("--version", action="version", version=f"strata {metadata.version('stratabench')}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, do: Any, text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(verb=do)
        return sub

    experiment = argparse.ArgumentParser(add_help=False)
    experiment.add_argument("experiment", metavar="EXP", help=f"a .yaml file or a preset ({', '.join(preset_names())})")
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument(
        "-i", "--inventory", default=str(ROOT / "inventories" / "local"), help="inventory file or folder"
    )
    common = argparse.ArgumentParser(add_help=False, parents=[place])
    common.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="instead of the experiment's own",
    )
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="where results lie")
    shown = argparse.ArgumentParser(add_help=False, parents=[output])
    shown.add_argument("--format", choices=("table", "json", "csv"), default="table")
    target = argparse.ArgumentParser(add_help=False)
    target.add_argument("run", metavar="RUN", nargs="?", default="latest", help="a run's folder or id, or `latest`")

    verb("doctor", _doctor, "say what this machine can do, and what is missing")
    for name, do, text in (
        ("validate", _validate, "check an experiment"),
        ("plan", _plan, "print the plan of an experiment"),
    ):
        verbs.add_parser(name, help=text, description=text, parents=[experiment, common]).set_defaults(verb=do)
    sub = verbs.add_parser("deploy", help="deploy the database and the agents", parents=[common])
    sub.add_argument(
        "--experiment", metavar="EXP", help="whose database; its workloads are checked before (default: the demo's)"
    )
    sub.set_defaults(verb=_deploy)
    sub = verbs.add_parser("scale", help="grow or shrink what was deployed, its data kept", parents=[place])
    sub.add_argument("servers", type=int, metavar="N", help="how many data servers there shall be")
    sub.set_defaults(verb=_scale)
    verbs.add_parser("destroy", help="take down what was deployed", parents=[place]).set_defaults(verb=_destroy)
    sub = verbs.add_parser("run", help="run an experiment", parents=[experiment, common, shown])
    sub.add_argument("--repeat", type=int, default=1, metavar="N", help="run it N times")
    sub.add_argument("--tag", action="append", default=[], metavar="K=V", help="a label kept in the manifest")
    sub.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    sub.add_argument("--keep", action="store_true", help="leave the cluster running")
    sub.add_argument("--resume", type=Path, metavar="DIR", help="go on with a scaling experiment that was cut short")
    sub.add_argument("--fail-on", action="append", default=[], metavar="COND", help="e.g. content-run.read.p99_us>5000")
    sub.set_defaults(verb=_run)
    verbs.add_parser("list", help="list the runs", parents=[shown]).set_defaults(verb=_list)
    verbs.add_parser("show", help="show a run's summary", parents=[target, shown]).set_defaults(verb=_show)
    verbs.add_parser("join", help="make a run's joined tables again", parents=[target, output]).set_defaults(verb=_join)
    text = "pack a run or a scaling experiment into one file, in the folder where you are"
    verbs.add_parser("export", help=text, description=text, parents=[target, output]).set_defaults(verb=_export)
    verbs.add_parser(
        "report", help="draw the report of a run or a scaling experiment again", parents=[target, output]
    ).set_defaults(verb=_report)
    return parser


def _doctor(_: argparse.Namespace) -> int:
    findings = doctor.examine()
    result(screens.doctor(findings))
    return 3 if any(finding.needed and not finding.ok for finding in findings) else 0


def _validate(options: argparse.Namespace) -> int:
    experiment, _ = load_experiment(options.experiment, options.settings)
    inventory = load_inventory(Path(options.inventory))
    plans = _make_plans(experiment, inventory)
    plan = plans[-1]
    unchecked = ""
    try:
        _preflight(plan, inventory)
    except DeployError as error:
        unchecked = (
            f"\nThe workloads' properties were not checked ({error.what}); "
            "`strata run` does it before anything is deployed."
        )
    times = f", {len(plans)} sizes, {experiment.scaling.repeat} runs each" if experiment.scaling else ""
    result(f"{experiment.name}: valid, {len(plan.phases)} phases on {len(plan.nodes)} nodes{times}{unchecked}")
    return 0


def _preflight(plan: Plan, inventory: Inventory) -> None:
    """What can be known to fail before anything is deployed. Of a scaling experiment the largest plan is enough: the
    others differ in the regions of a table only, of which they have fewer."""
    for unseen in check_properties(plan, inventory, _state_dir(inventory)):
        tell(f"strata: {unseen}")


def _plan(options: argparse.Namespace) -> int:
    experiment, _ = load_experiment(options.experiment, options.settings)
    return _print_plans(_make_plans(experiment, load_inventory(Path(options.inventory))))


def _print_plans(plans: list[Plan]) -> int:
    """A JSON object for each plan, one after the other."""
    for plan in plans:
        result(plan.model_dump_json(indent=1))
    text = "the workloads' properties were not checked; `strata validate` does it, and `strata run`, before it deploys"
    tell(f"strata: {text}")
    return 0


def _make_plans(experiment: Experiment, inventory: Inventory) -> list[Plan]:
    """One plan; for a scaling experiment one for each number of servers, the largest last."""
    if experiment.scaling is None:
        return [_make_plan(experiment, inventory)]
    most, available = max(experiment.scaling.servers), len(inventory.database_nodes)
    if most > available:
        raise ConfigError(
            f"scaling.servers: {most} data servers are asked for, the inventory has {available}",
            hint="--set scaling.servers=[1,2], or another inventory",
        )
    return [_make_plan(experiment.on_servers(n), inventory) for n in sorted(experiment.scaling.servers)]


def _make_plan(experiment: Experiment, inventory: Inventory) -> Plan:
    spec = experiment.database
    database = make_database(inventory, spec.settings, _state_dir(inventory), spec.name)
    database.shape()  # refuses a cluster that cannot be: now, and not when it is deployed
    unused = {node.name for node in inventory.database_nodes} - {node.name for node in database.servers}
    used = [node for node in inventory.nodes if node.name not in unused]
    nodes = [PlannedNode(name=node.name, address=node.address, roles=node.roles) for node in used]
    workloads = {w.workload: load_workload(w.workload, WORKLOADS) for w in experiment.workloads}
    return make_plan(experiment, nodes, database, workloads)


def _deploy(options: argparse.Namespace) -> int:
    experiment, _ = load_experiment(options.experiment or "demo", options.settings)
    inventory = load_inventory(Path(options.inventory))
    if options.experiment:
        _preflight(_make_plan(experiment, inventory), inventory)
    progress = Progress()
    settings = experiment.database.settings
    state_dir = _state_dir(inventory)
    database = make_database(inventory, settings, state_dir, experiment.database.name)
    outcome = deploy.deploy(inventory, settings, state_dir=state_dir, progress=progress.line, database=database)
    result(
        f"{database.name} {database.version} serves on {', '.join(database.live_servers())}; changed={outcome.changed}"
    )
    return 0


def _scale(options: argparse.Namespace) -> int:
    inventory = load_inventory(Path(options.inventory))
    if inventory.database != "hbase":
        raise ConfigError(f"only clusters of hbase can be scaled, the inventory is for {inventory.database}")
    state_dir = _state_dir(inventory)
    settings = deploy.deployed_settings(state_dir) | {"regionservers": options.servers}
    outcome = deploy.scale(inventory, settings, state_dir=state_dir, progress=Progress().line)
    servers = make_database(inventory, settings, state_dir).live_servers()
    result(f"{len(servers)} servers: {', '.join(servers)}; changed={outcome.changed}")
    return 0


def _destroy(options: argparse.Namespace) -> int:
    inventory = load_inventory(Path(options.inventory))
    deploy.destroy(inventory, state_dir=_state_dir(inventory), progress=Progress().line)
    result("taken down")
    return 0


def _state_dir(inventory: Inventory) -> Path:
    return ROOT / ".strata" / inventory.name


def _run(options: argparse.Namespace) -> int:
    experiment, text = load_experiment(options.experiment, options.settings)
    thresholds = [parse_threshold(condition) for condition in options.fail_on]
    tags = dict(_tag(tag) for tag in options.tag)
    if options.repeat < 1:
        raise ConfigError(f"--repeat {options.repeat}: at least 1")
    inventory = load_inventory(Path(options.inventory))
    plans = _make_plans(experiment, inventory)
    for threshold in thresholds:
        require_planned(threshold, plans[-1])
    if options.dry_run:
        return _print_plans(plans)
    if experiment.scaling is not None:
        return _run_series(options, experiment, text, inventory, plans, tags)
    if options.resume:
        raise ConfigError(f"--resume: {experiment.name} is no scaling experiment", hint="it has no key `scaling`")
    _preflight(plans[0], inventory)
    progress = Progress()
    codes = []
    for number in range(options.repeat):
        form = screens.ROWS if number and options.format == "csv" else options.format  # one table of all
        keep = _stays(options, inventory)
        request = RunRequest(plans[0], text, inventory, _state_dir(inventory), options.output, keep, tags)
        code = guard.guarded(
            partial(_run_once, request, progress, form, thresholds),
            partial(_recover, request, progress, form),
        )
        codes.append(code)
        if code not in (0, 1):
            break
    return max(codes)


def _stays(options: argparse.Namespace, inventory: Inventory) -> bool:
    """Whether the cluster is left running: asked for, or it was there before, with data that are not ours to remove.
    Seen before the guard forks, for only then whoever ends the run in its place knows it, too."""
    return deploy.is_there(_state_dir(inventory)) or bool(options.keep)


def _run_series(
    options: argparse.Namespace,
    experiment: Experiment,
    text: str,
    inventory: Inventory,
    plans: list[Plan],
    tags: dict[str, str],
) -> int:
    if experiment.scaling is None or options.repeat != 1 or options.fail_on:
        raise ConfigError(
            f"{experiment.name} is a scaling experiment: it takes neither --repeat nor --fail-on",
            hint="--set scaling.repeat=N says how often each size is run",
        )
    _preflight(plans[-1], inventory)
    series = Series(
        plans=dict(zip(sorted(experiment.scaling.servers), plans, strict=True)),
        repeat=experiment.scaling.repeat,
        experiment_yaml=text,
        inventory=inventory,
        state_dir=_state_dir(inventory),
        folder=series_folder(options.output, experiment.name, text, options.resume),
        keep=_stays(options, inventory),
        tags=tags,
    )
    progress = Progress()

    def show(verdict: SeriesVerdict) -> int:
        progress.end()
        return _last_screen(screens.scaling(verdict, options.format), verdict.error)

    return guard.guarded(
        lambda announce: show(run_series(series, progress, announce)),
        lambda last, why: show(recover_series(series, last, why, progress)),
    )


def _run_once(
    request: RunRequest, progress: Progress, form: str, thresholds: list[Threshold], announce: guard.Announce
) -> int:
    return _show_verdict(run(request, progress, announce), progress, form, thresholds)


def _recover(request: RunRequest, progress: Progress, form: str, folder: Path | None, why: str) -> int:
    if folder is None:
        tell(f"strata: {why} before the run began")
        return RunError.exit_code
    return _show_verdict(recover(request, folder, why, progress), progress, form, [])


def _show_verdict(verdict: Verdict, progress: Progress, form: str, thresholds: list[Threshold]) -> int:
    progress.end()
    code = _last_screen(screens.verdict(verdict, form), verdict.error)
    if verdict.error is None:
        check_thresholds(verdict.store, thresholds)
    return code


def _last_screen(text: str, error: StrataError | None) -> int:
    """What a run has found and what has ended it early, each also when the other cannot be written."""
    try:
        result(text)
    finally:
        code = complain(error) if error else 0
    return code


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--tag {text!r}: expected k=v")
    return key, value


def _find(options: argparse.Namespace) -> RunStore:
    """A run by its folder, from here or from where results lie, or by its id."""
    name = str(options.run)
    where = "" if options.output == RESULTS else f" --output {shlex.quote(str(options.output))}"
    hint = f"`strata list{where}` shows the runs"
    if name == "latest":
        if not (found := runs(options.output)):
            raise ConfigError(f"there is no run in {options.output}/", hint="`strata run demo` makes one")
        return found[-1]
    for folder in (Path(name), options.output / name):
        if (folder / MANIFEST).is_file():
            return RunStore.open(folder)
    if Path(name).is_dir():
        raise ConfigError(f"{name!r} is no run's folder: it has no {MANIFEST}", hint=hint)
    if "/" in name:
        raise ConfigError(f"no run's folder {name!r}", hint=hint)
    for store in runs(options.output):
        if store.run_id == name:
            return store
    raise ConfigError(f"no run {name!r} in {options.output}/", hint=hint)


def _list(options: argparse.Namespace) -> int:
    found = runs(options.output)
    result(screens.run_list(found, options.format))
    if not found:
        tell(f"strata: there is no run in {options.output}/")
    return 0


def _show(options: argparse.Namespace) -> int:
    result(screens.run(_find(options), options.format))
    return 0


def _join(options: argparse.Namespace) -> int:
    store = _find(options)
    finished = finish(store.path, io_csv=bool(store.plan().get("io_csv", True)))
    result(store.joined("joined.csv"))
    for finding in finished.findings:
        tell(f"strata: {finding.severity}: {finding}")
    return 0 if finished.trusted else DataError.exit_code


def _report(options: argparse.Namespace) -> int:
    folder = Path(options.run).resolve()
    result(write_scaling_report(folder, tabulate(folder)) if is_series(folder) else write_report(_find(options).path))
    return 0


def _export(options: argparse.Namespace) -> int:
    folder = Path(options.run).resolve()
    if not is_series(folder):
        folder = _find(options).path
    name = f"{folder.parent.name}-{folder.name}"
    archive = Path(f"{name}.tar.gz").resolve()
    if folder in archive.parents:
        raise ConfigError(f"the archive of {folder} would lie in it", hint="go to another folder, and name this one")
    with disk_errors(archive), TemporaryDirectory(prefix=".export-", dir=archive.parent) as beside:
        made = shutil.make_archive(f"{beside}/{name}", "gztar", root_dir=folder.parent, base_dir=folder.name)
        Path(made).replace(archive)  # whole, or not there
    result(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
