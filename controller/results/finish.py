"""The last step of a run, and of `strata join`: join, complete the manifest, validate, decide the status."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controller.errors import StrataError
from controller.results.convert import Run
from controller.results.findings import Finding
from controller.results.join import join
from controller.results.store import RunStore
from controller.results.validate import validate
from controller.results.validate_trace import read_trace, unseen_requests

#: What a manifest says of a run from its end until it is judged.
_NOT_JUDGED = Finding("error", "run", "its data have not been joined and judged")


@dataclass(frozen=True)
class FinishedRun:
    """A run with its final manifest. `trusted` is false when a finding is an error (exit code 5)."""

    store: RunStore
    manifest: dict[str, Any]
    findings: list[Finding]

    @property
    def trusted(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)


def finish(run_dir: Path, *, io_csv: bool = True) -> FinishedRun:
    """Join a run and write what it is worth into its manifest. What cannot be joined becomes a finding.

    The runner has written `manifest.json` before, with the status as far as it knows. Here a `complete` run
    becomes `partial` when its data contradict each other; a `failed` one stays failed.
    """
    store = RunStore.open(run_dir)
    broken: list[Finding] = []
    try:
        outcome = join(store.path, io_csv=io_csv)
        _record_traces(store, outcome.run)
        store.record_files(outcome.written)
    except StrataError as error:
        broken.append(Finding("error", error.node or "join", error.what))
        store.record_files()
    findings = [*broken, *(finding for finding in validate(store.path) if finding not in broken)]
    return FinishedRun(store, _conclude(store, findings), findings)


def note_lack(store: RunStore, reasons: list[str], finding: Finding = _NOT_JUDGED) -> None:
    """Before `finish`, which takes it back: who is interrupted in between leaves a run that says what it lacks.

    `reasons`: why else the run is not complete.
    """
    store.update_manifest(
        status="partial",
        reasons=[*reasons, str(finding)],
        findings=[*store.manifest().get("findings", []), asdict(finding)],
    )


def _record_traces(store: RunStore, run: Run) -> None:
    """Counters and missing layers of every trace, and the events that each node lost."""
    manifest = store.manifest()
    tracing: dict[str, Any] = dict(manifest.get("tracing", {}))
    for node in store.node_names():
        if not (store.node_dir(node) / "trace.json").is_file():
            continue
        trace = read_trace(run, node)
        missing = {layer: why for device in trace["devices"] for layer, why in device.get("layers_missing", {}).items()}
        counters = {
            name: sum(device[name] for device in trace["devices"]) for name in ("completions", "emitted", "dropped")
        }
        counters["unseen"] = sum(unseen_requests(device) for device in trace["devices"])
        before = {"state": "traced", "reason": "", **tracing.get(node, {})}
        tracing[node] = {**before, "layers_missing": missing, **counters}
    lost = {node: entry["dropped"] for node, entry in tracing.items() if "dropped" in entry}
    store.update_manifest(tracing=tracing, lost_events=lost)


def _conclude(store: RunStore, findings: list[Finding]) -> dict[str, Any]:
    """Replace what the last validation said by what this one says; the runner's own reasons stay."""
    manifest = store.manifest()
    outdated = {str(Finding(**entry)) for entry in manifest.get("findings", [])}
    reasons, cautions = (
        [text for text in manifest.get(name, []) if text not in outdated] for name in ("reasons", "warnings")
    )
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    warnings = [str(finding) for finding in findings if finding.severity == "warning"]
    status = manifest.get("status", "complete")
    if status != "failed":
        only_outdated = status == "partial" and outdated and not reasons
        status = "partial" if errors or (status == "partial" and not only_outdated) else "complete"
    return store.update_manifest(
        status=status,
        reasons=[*reasons, *errors],
        warnings=[*cautions, *warnings],
        findings=[asdict(finding) for finding in findings],
    )
