"""The plan: what a run will do, to the last key and seed, before anything is done. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from controller.databases.base import Database
from controller.errors import ConfigError
from controller.experiment import ContextPart, Experiment, PhaseSpec, WorkloadSpec
from controller.workloads import operation_counts, whole_number


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlannedNode(_Frozen):
    """A node of the inventory."""

    name: str
    address: str
    roles: tuple[Literal["master", "database", "client"], ...]


class PlannedShard(_Frozen):
    """One client's part of a phase. Keys are key numbers, ``[key_start, key_end)``; only a load has a range."""

    client: str
    shard: int
    shards: int
    threads: int
    target_ops_per_s: float | None
    seed: int
    key_start: int | None
    key_end: int | None
    operations: int
    planned: dict[str, int]


class PlannedPhase(_Frozen):
    """A load or a run over all clients."""

    name: str
    kind: Literal["load", "run"]
    workload: str
    table: str
    threads: int
    target: float | None
    record_count: int
    warmup_operations: int
    before: tuple[str, ...]
    properties: dict[str, str]
    shards: tuple[PlannedShard, ...]

    def client_properties(self, shard: PlannedShard) -> dict[str, str]:
        """What the client of a shard is given beside what it needs to find the database."""
        warmup = share(self.warmup_operations, shard.shard, shard.shards)
        return {**self.properties, "seed": str(shard.seed), "warmup.operations": str(warmup)}


class PlannedTrace(_Frozen):
    """What is traced on a node: its data's disk, or its database processes where the disk is shared."""

    node: str
    by: Literal["device", "process"]
    target: str


class Trace(_Frozen):
    """The tracing of a run; ``nodes`` is empty when it is off."""

    wanted: Literal["required", "preferred", "off"]
    nodes: tuple[PlannedTrace, ...]
    calls: bool = True
    context: bool = False
    context_without: tuple[ContextPart, ...] = ()


class PlannedDatabase(_Frozen):
    """The database, its settings, and the properties that every client gets."""

    name: str
    binding: str
    settings: dict[str, Any]


class Plan(_Frozen):
    """A frozen run (``plan.json``)."""

    schema_version: Literal[1] = 1
    experiment: str
    description: str
    seed: int
    bucket_ms: int
    deadline_s: int
    io_csv: bool
    database: PlannedDatabase
    nodes: tuple[PlannedNode, ...]
    phases: tuple[PlannedPhase, ...]
    trace: Trace

    @property
    def clients(self) -> list[PlannedNode]:
        """The nodes that send load, in shard order."""
        return [node for node in self.nodes if "client" in node.roles]

    @property
    def agents(self) -> list[PlannedNode]:
        """The nodes that have an agent."""
        return [node for node in self.nodes if {"client", "database"} & set(node.roles)]


def make_plan(
    experiment: Experiment,
    nodes: Sequence[PlannedNode],
    database: Database,
    workloads: Mapping[str, Mapping[str, str]],
) -> Plan:
    """Resolves an experiment. ``workloads``: the properties of each workload file by its name in the experiment.

    Raises ConfigError where the experiment, the inventory and the workloads do not fit together."""
    clients = [node.name for node in nodes if "client" in node.roles]
    servers = [node for node in nodes if "database" in node.roles]
    if not clients:
        raise ConfigError("the inventory has no client node", hint="add hosts to its group `clients`")
    if not servers:
        raise ConfigError("the inventory has no database node", hint=f"add hosts for {experiment.database.name}")
    table = database.table_properties()
    phases = [
        _phase(
            experiment,
            workload,
            kind,
            clients,
            {**table, **workloads[workload.workload], **_texts(workload.properties)},
        )
        for workload in experiment.workloads
        for kind in ("load", "run")
        if getattr(workload, kind) is not None
    ]
    by = database.trace_by()
    target = "the data's disk" if by == "device" else "the database's processes"
    traced = () if experiment.tracing == "off" else servers
    return Plan(
        experiment=experiment.name,
        description=experiment.description,
        seed=experiment.seed,
        bucket_ms=experiment.bucket_ms,
        deadline_s=experiment.deadline_s,
        io_csv=experiment.io_csv,
        database=PlannedDatabase(
            name=experiment.database.name, binding=database.binding, settings=experiment.database.settings
        ),
        nodes=tuple(nodes),
        phases=tuple(phases),
        trace=Trace(
            wanted=experiment.tracing,
            calls=experiment.calls,
            context=experiment.context,
            context_without=experiment.context_without,
            nodes=tuple(PlannedTrace(node=node.name, by=by, target=target) for node in traced),
        ),
    )


def _phase(
    experiment: Experiment,
    workload: WorkloadSpec,
    kind: Literal["load", "run"],
    clients: Sequence[str],
    inherited: Mapping[str, str],
) -> PlannedPhase:
    spec: PhaseSpec = getattr(workload, kind)
    properties = {**inherited, **_texts(spec.properties)}
    name = f"{workload.name}-{kind}"
    try:
        shards = _shards(experiment, spec, kind, clients, properties, name)
    except ConfigError as error:
        raise ConfigError(f"workload {workload.name}: {error.what}") from error
    properties.update(
        {
            "operation.mix": "exact",
            "warmup.operations": "0",  # set per shard
            "error.bound": repr(experiment.error_bound),
            "oplog": str(experiment.operation_log).lower(),
        }
    )
    return PlannedPhase(
        name=name,
        kind=kind,
        workload=workload.workload,
        table=properties.get("table", "usertable"),
        threads=spec.threads,
        target=spec.target_ops_per_s,
        record_count=whole_number(properties, "recordcount", "1000"),
        warmup_operations=spec.warmup_operations if kind == "run" else 0,
        # A load begins with an empty table; on a database that was just deployed there is nothing to drop.
        before=(("drop", *spec.before) if kind == "load" else spec.before),
        properties=properties,
        shards=shards,
    )


def _shards(
    experiment: Experiment,
    spec: PhaseSpec,
    kind: Literal["load", "run"],
    clients: Sequence[str],
    properties: Mapping[str, str],
    phase: str,
) -> tuple[PlannedShard, ...]:
    records = whole_number(properties, "recordcount", "1000")
    operations = records if kind == "load" else whole_number(properties, "operationcount", "1000")
    n = len(clients)
    if operations < n or spec.threads < n:
        raise ConfigError(
            f"{phase}: {operations} operations and {spec.threads} threads for {n} clients: each needs one"
        )
    shards = []
    for i, client in enumerate(clients):
        part = share(operations, i, n)
        keys = range(i * records // n, (i + 1) * records // n)
        shards.append(
            PlannedShard(
                client=client,
                shard=i,
                shards=n,
                threads=share(spec.threads, i, n),
                target_ops_per_s=spec.target_ops_per_s and spec.target_ops_per_s * part / operations,
                seed=experiment.seed,
                key_start=keys.start if kind == "load" else None,
                key_end=keys.stop if kind == "load" else None,
                operations=part,
                planned={"INSERT": part} if kind == "load" else operation_counts(properties, part),
            )
        )
    return tuple(shards)


def share(total: int, i: int, n: int) -> int:
    """The i-th of n parts of ``total``; the parts differ by one at most and add up to it exactly."""
    return (i + 1) * total // n - i * total // n


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
