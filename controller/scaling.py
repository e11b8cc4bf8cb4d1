"""A scaling experiment: the same run on clusters of several sizes, each several times, and what that says.

Every step is an ordinary run in a folder of its own; between the steps the cluster is scaled with its data kept. What
is there is what counts: a step whose run is complete is not repeated when the experiment is resumed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller import deploy
from controller.databases import make_database
from controller.errors import ConfigError, DeployError, InterruptedRunError, RunError, StrataError
from controller.inventory import Inventory
from controller.plan import Plan
from controller.progress import Progress
from controller.results.scaling import Scaling, analyse, data_servers, is_complete, read_runs, write_tables
from controller.results.store import MANIFEST, RunStore, new_folder, runs, write_atomically
from controller.runner import RunRequest, recover, run
from viz.scaling_report import write_scaling_report

EXPERIMENT = "experiment.yaml"


@dataclass(frozen=True)
class Series:
    """What the user asked for, resolved: the plan of each size, ``folder``, which holds every run, and whether the
    cluster is left running at the end (``keep``)."""

    plans: Mapping[int, Plan]
    repeat: int
    experiment_yaml: str
    inventory: Inventory
    state_dir: Path
    folder: Path
    keep: bool = False
    tags: dict[str, str] = field(default_factory=dict)

    def request(self, servers: int) -> RunRequest:
        """An ordinary run on so many servers, which leaves the cluster running."""
        return RunRequest(
            plan=self.plans[servers],
            experiment_yaml=self.experiment_yaml,
            inventory=self.inventory,
            state_dir=self.state_dir,
            output=self.folder,
            keep=True,
            tags=self.tags | {"servers": str(servers)},
            group=group(servers),
        )

    def missing(self, servers: int) -> int:
        """How many complete runs on so many servers are still to be had."""
        complete = sum(s.path.parent.name == group(servers) and is_complete(s) for s in runs(self.folder))
        return max(self.repeat - complete, 0)


@dataclass(frozen=True)
class SeriesVerdict:
    """How a series ended; ``outcome`` is of the complete runs, ``error`` of what ended it early."""

    folder: Path
    outcome: Scaling
    error: StrataError | None

    @property
    def exit_code(self) -> int:
        """0, or the error's."""
        return self.error.exit_code if self.error else 0


def group(servers: int) -> str:
    """The folder of the runs on so many servers."""
    return f"servers-{servers}"


def series_folder(output: Path, experiment: str, experiment_yaml: str, resume: Path | None) -> Path:
    """A new folder for a series, or the one that is resumed. ConfigError when that was another experiment."""
    if resume is None:
        folder = new_folder(output / experiment)
        write_atomically(folder / EXPERIMENT, experiment_yaml)
        return folder
    folder = resume.resolve()
    try:
        before = (folder / EXPERIMENT).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--resume {resume}: no scaling experiment: {error.strerror}") from error
    if before != experiment_yaml:
        raise ConfigError(
            f"--resume {resume}: it was begun with another experiment or other settings",
            hint=f"compare with {folder / EXPERIMENT}, or begin a new one without --resume",
        )
    return folder


def run_series(series: Series, progress: Progress, announce: Callable[[Path], None]) -> SeriesVerdict:
    """Does what is missing, from the smallest cluster to the largest, then the tables and the report. ``announce`` is
    told the folder of each run. The first failure ends the series; what was deployed for it is taken down."""
    error: StrataError | None = None
    try:
        for servers in sorted(series.plans):
            for number in range(series.repeat - series.missing(servers), series.repeat):
                progress.line(f"servers={servers}: run {number + 1} of {series.repeat}")
                _step(series, servers, progress, announce)
    except StrataError as failure:
        error = failure
    except KeyboardInterrupt:
        error = InterruptedRunError("interrupted", hint=_resume_hint(series))
    return _conclude(series, progress, error)


def recover_series(series: Series, last: Path | None, why: str, progress: Progress) -> SeriesVerdict:
    """Ends a series whose controller was killed: ``last`` is the run that it began last."""
    if last is not None and not is_complete(store := RunStore.open(last)):
        recover(series.request(data_servers(store)), last, why, progress)
    return _conclude(series, progress, RunError(why, hint=_resume_hint(series)))


def _step(series: Series, servers: int, progress: Progress, announce: Callable[[Path], None]) -> None:
    """One run on so many servers. Raises its error."""
    # The end of the run before took the guard's handler away: TERM interrupts a scaling like Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    request = series.request(servers)
    found = deploy.read_deployment(series.state_dir) if deploy.is_there(series.state_dir) else None
    if found is not None and len(found["servers"]) != servers:
        progress.line(f"servers={servers}: scaling from {len(found['servers'])}")
        settings = request.plan.database.settings
        database = make_database(series.inventory, settings, series.state_dir)
        deploy.scale(series.inventory, settings, state_dir=series.state_dir, progress=progress.line, database=database)
    verdict = run(request, progress, announce)
    progress.end()
    progress.line(f"run {verdict.store.run_id}: {verdict.store.manifest()['status']}")
    if verdict.error is not None:
        verdict.error.hint = verdict.error.hint or _resume_hint(series)
        raise verdict.error


def _conclude(series: Series, progress: Progress, error: StrataError | None) -> SeriesVerdict:
    if not series.keep and deploy.read_deployment(series.state_dir) is not None:
        try:
            deploy.destroy(series.inventory, state_dir=series.state_dir, progress=progress.line)
        except StrataError as failure:
            error = error or DeployError(f"not taken down: {failure.what}", hint="strata destroy")
    progress.status("drawing the report")
    outcome = tabulate(series.folder)
    try:
        write_scaling_report(series.folder, outcome)
    except StrataError as failure:
        error = error or failure
    return SeriesVerdict(series.folder, outcome, error)


def tabulate(folder: Path) -> Scaling:
    """What the complete runs of a scaling experiment say; its tables are written anew."""
    outcome = analyse(read_runs(folder))
    write_tables(outcome, folder)
    return outcome


def is_series(folder: Path) -> bool:
    """Whether this is the folder of a scaling experiment, and not of a run."""
    return (folder / EXPERIMENT).is_file() and not (folder / MANIFEST).exists()


def _resume_hint(series: Series) -> str:
    return f"the same command with --resume {series.folder} goes on where it ended"
