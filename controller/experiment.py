"""Experiments: what a user writes. Validated strictly; an unknown key is an error that names the nearest known one."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.errors import ConfigError
from controller.results.clock import LEAST_BUCKET_MS

PRESETS = Path(__file__).parent / "presets"
WORKLOADS = Path(__file__).parent.parent / "ycsb-fork" / "workloads"

#: The setting of a database that says how many data servers it has.
SERVERS_SETTING = "regionservers"
#: Top-level keys of a file that say how it is read and are no part of the experiment: which of the named scales is
#: meant, and for each the top-level keys that differ.
SCALE, SCALES = "scale", "scales"
#: Where what follows in the key of ``--set`` is one name, be there dots in it: properties and settings have no members.
_NAMES = re.compile(r"(database\.settings|workloads\.[^.]+(?:\.load|\.run)?\.properties)\.(.+)", re.DOTALL)

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
Scalar = str | int | float | bool
#: What of the context a tracer can leave out; it then costs nothing.
ContextPart = Literal["run-queue", "tcp", "page-cache", "memory", "cpu-ticks", "pressure", "peers"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSpec(_Strict):
    """The database under test and how it is deployed."""

    name: Literal["hbase", "arangodb"]
    settings: dict[str, Any] = {}


class PhaseSpec(_Strict):
    """How one phase (load or run) of a workload is driven; numbers are totals over all clients."""

    threads: int = Field(default=4, ge=1, le=100_000)
    target_ops_per_s: float | None = Field(default=None, gt=0, le=1e8)
    warmup_operations: int = Field(default=0, ge=0)
    before: tuple[Literal["flush", "evict_page_cache"], ...] = ()
    properties: dict[str, Scalar] = {}


class WorkloadSpec(_Strict):
    """One workload: a YCSB property file, what is changed in it, and its two phases."""

    name: Name
    workload: str
    properties: dict[str, Scalar] = {}
    load: PhaseSpec | None = PhaseSpec()
    run: PhaseSpec | None = PhaseSpec()


class ScalingSpec(_Strict):
    """The same workloads on clusters of several sizes: numbers of data servers, and runs on each of them."""

    servers: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field(min_length=1)
    repeat: int = Field(default=3, ge=1, le=100)


class Experiment(_Strict):
    """The whole experiment."""

    name: Name
    description: str = ""
    database: DatabaseSpec
    tracing: Literal["required", "preferred", "off"] = "preferred"
    calls: bool = True
    context: bool = False
    context_without: tuple[ContextPart, ...] = ()
    bucket_ms: int = Field(default=1000, ge=LEAST_BUCKET_MS, le=3_600_000)
    seed: int = Field(default=1, ge=0, lt=2**63)
    error_bound: float = Field(default=0.0, ge=0, le=1)
    io_csv: bool = True
    operation_log: bool = True
    deadline_s: int = Field(default=3600, ge=1)
    workloads: tuple[WorkloadSpec, ...] = Field(min_length=1)
    scaling: ScalingSpec | None = None

    def on_servers(self, servers: int) -> Experiment:
        """The experiment on a cluster of so many data servers."""
        settings = {**self.database.settings, SERVERS_SETTING: servers}
        return self.model_copy(update={"database": self.database.model_copy(update={"settings": settings})})


def load_experiment(name: str, settings: list[str]) -> tuple[Experiment, str]:
    """An experiment by file or preset name with ``--set`` applied; returns it and its YAML. Raises ConfigError."""
    path = _find(name)
    try:
        raw = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: an experiment is a mapping, this is {type(raw).__name__}")
    scale = [setting for setting in settings if setting.startswith(f"{SCALE}=")]
    for setting in scale:
        _apply(raw, setting)
    _choose_scale(raw, str(path))
    for setting in settings:
        if setting not in scale:
            _apply(raw, setting)
    return validate_experiment(raw, str(path)), yaml.safe_dump(raw, sort_keys=False)


def _choose_scale(raw: dict[str, Any], where: str) -> None:
    """Puts the keys of the chosen scale in place of the file's own; `full` is the file as it stands."""
    scales = raw.pop(SCALES, {})
    if not isinstance(scales, dict) or not all(isinstance(keys, dict) for keys in scales.values()):
        raise ConfigError(f"{where}: {SCALES}: expected names and for each the keys that differ")
    name = str(raw.pop(SCALE, "full"))
    if name != "full" and name not in scales:
        raise ConfigError(f"{where}: no scale {name!r}{nearest(name, ['full', *scales])}")
    raw.update(scales.get(name, {}))


def validate_experiment(raw: dict[str, Any], where: str) -> Experiment:
    """Checks the parsed YAML. Raises ConfigError with one line per mistake."""
    try:
        experiment = Experiment.model_validate(raw)
    except ValidationError as error:
        lines = [_explain(dict(detail)) for detail in error.errors()]
        raise ConfigError(f"{where}: " + "; ".join(lines), hint="docs/experiments.md lists every key") from error
    names = [workload.name for workload in experiment.workloads]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"{where}: workloads: the name {sorted(twice)[0]!r} is used twice")
    if experiment.context_without and not experiment.context:
        raise ConfigError(f"{where}: context_without: there is no context to leave it out of; add context: true")
    if experiment.scaling and len(set(experiment.scaling.servers)) < len(experiment.scaling.servers):
        raise ConfigError(f"{where}: scaling.servers: a number is there twice")
    if experiment.scaling and experiment.database.name != "hbase":
        raise ConfigError(f"{where}: scaling: only clusters of hbase can be scaled")
    if experiment.scaling and SERVERS_SETTING in experiment.database.settings:
        raise ConfigError(f"{where}: both scaling.servers and the setting {SERVERS_SETTING} say how many servers")
    return experiment


def preset_names() -> list[str]:
    """The ready experiments."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def _find(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or "/" in name:
        if not path.is_file():
            raise ConfigError(f"no experiment file {name}")
        return path
    preset = PRESETS / f"{name}.yaml"
    if not preset.is_file():
        raise ConfigError(f"no preset {name!r}{nearest(name, preset_names())}", hint="give a preset or a .yaml file")
    return preset


def _apply(raw: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {setting!r}: expected key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {key}: not a YAML value: {text!r}") from error
    known = key == SCALE or key.split(".")[0] in Experiment.model_fields
    # else it is one of the database, or its plan refuses it
    whole = _NAMES.fullmatch(key if known else f"database.settings.{key}")
    *parents, last = [*whole[1].split("."), whole[2]] if whole else key.split(".")
    node: Any = raw
    for word in parents:
        node = _step(node, word, key)
    if isinstance(node, list):
        raise ConfigError(f"--set {key}: {last!r} would replace a whole list item; name a member of it")
    node[last] = value


def _step(node: Any, word: str, key: str) -> Any:
    if isinstance(node, list):
        for item in node:
            if isinstance(item, dict) and item.get("name") == word:
                return item
        names = [str(item.get("name")) for item in node if isinstance(item, dict)]
        raise ConfigError(f"--set {key}: nothing is called {word!r}{nearest(word, names)}")
    child = node.setdefault(word, {})
    if not isinstance(child, dict | list):
        raise ConfigError(f"--set {key}: {word!r} is a value and has no members")
    return child


def _explain(detail: dict[str, Any]) -> str:
    place = detail["loc"]
    dotted = ".".join(str(word) for word in place)
    if detail["type"] == "extra_forbidden":
        return f"unknown key {dotted!r}{nearest(str(place[-1]), _known_keys(place[:-1]))}"
    if detail["type"] == "missing":
        return f"missing key {dotted!r}"
    return f"{dotted}: {detail['msg'][0].lower()}{detail['msg'][1:]}, got {detail['input']!r}"


def _known_keys(place: tuple[Any, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {
        "database": DatabaseSpec,
        "workloads": WorkloadSpec,
        "load": PhaseSpec,
        "run": PhaseSpec,
        "scaling": ScalingSpec,
    }
    model: type[BaseModel] = Experiment
    for word in place:
        model = models.get(str(word), model)
    return list(model.model_fields)


def nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else f" (known: {', '.join(known)})" if known else ""
