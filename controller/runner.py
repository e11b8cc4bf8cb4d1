"""One run from the plan to the verdict: deploy, measure, take down, join, judge, report.

The order of the end is fixed: whatever failed, the nodes are cleaned first, then the data that exist are joined and
judged, and the manifest says what can be trusted.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller import deploy, provenance
from controller.client import Certificates
from controller.databases import make_database
from controller.databases.base import Database
from controller.errors import DataError, DeployError, InterruptedRunError, RunError, StrataError
from controller.fleet import Fleet
from controller.inventory import Inventory
from controller.phases import Measurement
from controller.pki import CONTROLLER, identity
from controller.plan import Plan
from controller.progress import Progress
from controller.results.findings import Finding
from controller.results.finish import finish, note_lack
from controller.results.store import UNWRITTEN, RunStore, write_atomically
from viz.report import write_report


@dataclass(frozen=True)
class RunRequest:
    """What the user asked for, resolved. ``keep``: the cluster is left running. ``group``: the folder below ``output``
    that holds the run's, else one of the experiment's name."""

    plan: Plan
    experiment_yaml: str
    inventory: Inventory
    state_dir: Path
    output: Path
    keep: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    group: str | None = None


@dataclass(frozen=True)
class Verdict:
    """How a run ended: its manifest says the rest. ``error`` is what ended it early, or what its data lack."""

    store: RunStore
    error: StrataError | None

    @property
    def exit_code(self) -> int:
        """0, or the error's."""
        return self.error.exit_code if self.error else 0


def run(request: RunRequest, progress: Progress, announce: Callable[[Path], None]) -> Verdict:
    """Does the whole run. ``announce`` is told the results folder as soon as it exists. Raises DeployError where
    there can be none; afterwards every failure is in the verdict."""
    fresh = not deploy.is_there(request.state_dir)
    store = _create(request)
    announce(store.path)
    database = make_database(request.inventory, request.plan.database.settings, request.state_dir)
    error: StrataError | None = None
    facts: dict[str, Any] = {}
    try:
        settings = request.plan.database.settings
        deploy.ensure_deployed(
            request.inventory, settings, state_dir=request.state_dir, progress=progress.line, database=database
        )
        progress.line(f"{database.name} {database.version} serves on {len(database.live_servers())} servers")
        facts = asyncio.run(_measure(request, database, store, progress, fresh=fresh))
    except StrataError as failure:
        error = failure
    except OSError as failure:
        error = RunError(f"{failure.filename or store.path}: {failure.strerror}", hint="see space and rights there")
    except KeyboardInterrupt:
        error = InterruptedRunError("interrupted before the measurement began")
    return _finish(request, database, store, progress, error, facts)


def _create(request: RunRequest) -> RunStore:
    """The results folder with what is known before the run. Its manifest is true even if nobody writes it again."""
    try:
        store = RunStore.create(request.output, request.group or request.plan.experiment)
        write_atomically(store.path / "experiment.yaml", request.experiment_yaml)
        write_atomically(store.path / "plan.json", request.plan.model_dump_json(indent=1))
        store.write_manifest(
            {
                "run_id": store.run_id,
                "experiment": request.plan.experiment,
                "started_unix_ns": time.time_ns(),
                "status": "failed",
                "reasons": ["the run has not ended"],
                "tags": request.tags,
                "inventory": {
                    "path": str(request.inventory.path),
                    "variables": provenance.inventory_variables(request.inventory),
                },
            }
        )
    except RunError as error:
        raise DeployError(f"no place for the results: {error.what}", hint="make room, or give --output") from error
    except OSError as error:
        what = f"no place for the results: {error.filename}: {error.strerror}"
        raise DeployError(what, hint="give another --output") from error
    return store


def recover(request: RunRequest, folder: Path, why: str, progress: Progress) -> Verdict:
    """Ends a run whose controller was killed: fetches what the agents still have, cleans up, judges."""
    store = RunStore.open(folder)
    database = make_database(request.inventory, request.plan.database.settings, request.state_dir)
    progress.line(f"{why}; collecting what there is")
    facts = asyncio.run(_collect_after(request, database, store, progress))
    return _finish(request, database, store, progress, RunError(why), facts)


async def _measure(
    request: RunRequest, database: Database, store: RunStore, progress: Progress, *, fresh: bool
) -> dict[str, Any]:
    fleet = _fleet(request)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: fleet.fail(InterruptedRunError("interrupted")))
    measurement = Measurement(request.plan, fleet, database, store, progress, fresh=fresh)

    def server_lost(server: str) -> None:
        error = RunError(
            f"{database.name}: the server {server} is gone", hint="see the server's log, in the results or on its node"
        )
        loop.call_soon_threadsafe(fleet.fail, error)

    try:
        await fleet.unless_failed(measurement.prepare())
        with database.watch_servers(server_lost):
            await measurement.run()
    finally:
        await fleet.close()
        _note(store, measurement)
    return measurement.facts


async def _collect_after(
    request: RunRequest, database: Database, store: RunStore, progress: Progress
) -> dict[str, Any]:
    fleet = _fleet(request)
    measurement = Measurement(request.plan, fleet, database, store, progress)
    try:
        await measurement.adopt()
    except StrataError as error:
        progress.line(f"not collected: {error}")
    finally:
        await fleet.close()
        _note(store, measurement)
    return measurement.facts


def _fleet(request: RunRequest) -> Fleet:
    pki = identity(request.state_dir / "pki", CONTROLLER)
    addresses = {
        node.name: f"{node.address}:{request.inventory.node(node.name).agent_port}" for node in request.plan.agents
    }
    return Fleet(addresses, Certificates(pki.ca, pki.certificate, pki.key))


def _note(store: RunStore, measurement: Measurement) -> None:
    store.update_manifest(tracing=measurement.tracing, measured_phases=measurement.measured_phases)


def _finish(
    request: RunRequest,
    database: Database,
    store: RunStore,
    progress: Progress,
    error: StrataError | None,
    facts: dict[str, Any],
) -> Verdict:
    reasons = [str(error).splitlines()[0]] if error else []
    if not request.keep:
        try:
            logs_to = store.path / "nodes" if error else None
            deploy.destroy(request.inventory, state_dir=request.state_dir, progress=progress.line, logs_to=logs_to)
        except StrataError as failure:
            error = error or failure
            reasons.append(f"not taken down: {failure}")
    try:
        error = _judge(request, database, store, progress, error, facts, reasons)
    except StrataError as failure:  # the manifest cannot be written: what it said before stays true
        if error is not None:
            progress.line(f"not judged: {failure.what}")
        error = error or failure
    if error is not None and _had_no_room(store, error.what):
        where = shlex.quote(str(store.path))
        error.hint = f"make room, then `strata join {where}` and `strata report {where}` finish what is there"
    return Verdict(store, error)


def _had_no_room(store: RunStore, what: str) -> bool:
    """Whether it is this folder that could not be written, and not one of a node."""
    here = any(str(path) in what for path in (store.path, store.path.resolve()))
    return here and any(text in what.lower() for text in UNWRITTEN)


def _judge(
    request: RunRequest,
    database: Database,
    store: RunStore,
    progress: Progress,
    error: StrataError | None,
    facts: dict[str, Any],
    reasons: list[str],
) -> StrataError | None:
    """Joins, judges and reports. Returns what ended the run early, or what its data lack."""
    store.update_manifest(
        ended_unix_ns=time.time_ns(),
        versions=provenance.versions(database, facts),
        git_revision=provenance.git_revision(),
        durability=database.durability(),
        settings=request.plan.database.settings,
    )
    if not store.client_phases():
        store.update_manifest(status="complete" if error is None else "failed", reasons=reasons)
        store.record_files()
        return error
    note_lack(store, reasons)
    progress.status("joining")
    finished = finish(store.path, io_csv=request.plan.io_csv)
    if error is None and not finished.trusted:
        what = next(str(finding) for finding in finished.findings if finding.severity == "error")
        error = DataError(what, hint="see `reasons` in manifest.json; the raw files are kept")
    progress.status("drawing the report")
    try:
        store.record_files([write_report(store.path)])
    except StrataError as failure:
        error = error or failure
        note_lack(store, finished.manifest["reasons"], Finding("error", "report", failure.what))
    return error
