"""The plan against what must hold whatever the numbers are."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.databases import make_database
from controller.errors import ConfigError
from controller.experiment import validate_experiment
from controller.inventory import CLIENT_GROUP, Inventory, Node
from controller.plan import Plan, PlannedNode, make_plan, share
from controller.workloads import load_workload, operation_counts, parse_properties


def inventory(clients: int, servers: int = 3) -> Inventory:
    groups = [("master", "hbase_master")]
    groups += [(f"node{i}", "hbase_regionserver") for i in range(servers)]
    groups += [(f"client{i}", CLIENT_GROUP) for i in range(clients)]
    nodes = tuple(Node(name, f"127.0.0.{i + 1}", frozenset({g}), {}) for i, (name, g) in enumerate(groups))
    return Inventory(Path("x"), nodes)


def plan(clients: int, properties: dict[str, Any], threads: int = 8, servers: int = 3, **members: Any) -> Plan:
    raw = {
        "name": "test",
        "database": {"name": "hbase"},
        "workloads": [
            {
                "name": "w",
                "workload": "w",
                "properties": properties,
                "load": {"threads": threads},
                "run": {"threads": threads},
            }
        ],
        **members,
    }
    where = inventory(clients, servers)
    nodes = [PlannedNode(name=n.name, address=n.address, roles=n.roles) for n in where.nodes]
    return make_plan(
        validate_experiment(raw, "test"), nodes, make_database(where, {}, Path("state"), "hbase"), {"w": {}}
    )


@given(clients=st.integers(1, 8), records=st.integers(8, 10**12), operations=st.integers(8, 10**12))
def test_shards_load_every_key_once_and_share_all_operations(clients: int, records: int, operations: int) -> None:
    made = plan(clients, {"recordcount": records, "operationcount": operations})
    load, run = made.phases
    ends = [0, *(shard.key_end for shard in load.shards)]
    assert [shard.key_start for shard in load.shards] == ends[:-1]
    assert ends[-1] == records
    assert sum(shard.planned["INSERT"] for shard in load.shards) == records
    assert sum(shard.operations for shard in run.shards) == operations
    assert sum(shard.threads for shard in run.shards) == 8
    assert all(sum(shard.planned.values()) == shard.operations for shard in run.shards)
    assert [shard.client for shard in run.shards] == [f"client{i}" for i in range(clients)]


@given(total=st.integers(0, 10**15), n=st.integers(1, 1000))
def test_shares_differ_by_one_and_add_up(total: int, n: int) -> None:
    parts = [share(total, i, n) for i in range(n)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


@given(
    weights=st.lists(st.integers(0, 1000), min_size=5, max_size=5).filter(any),
    operations=st.integers(0, 10**9),
)
def test_operation_counts_are_the_nearest_whole_numbers(weights: list[int], operations: int) -> None:
    names = ["readproportion", "updateproportion", "insertproportion", "deleteproportion", "scanproportion"]
    properties = {name: str(weight / 1000) for name, weight in zip(names, weights, strict=True)}
    counts = operation_counts(properties, operations)
    assert sum(counts.values()) == operations
    for name, weight in zip(["READ", "UPDATE", "INSERT", "DELETE", "SCAN"], weights, strict=True):
        assert abs(counts.get(name, 0) - Fraction(weight * operations, sum(weights))) < 1


def test_the_messenger_mix_is_the_studys() -> None:
    """60 % read, 34 % write, 6 % delete (published study of the messenger)."""
    mix = {"readproportion": "0.6", "updateproportion": "0", "insertproportion": "0.34", "deleteproportion": "0.06"}
    assert operation_counts(mix, 20_000) == {"READ": 12_000, "INSERT": 6_800, "DELETE": 1_200}


def test_the_plan_has_what_the_experiment_asks_for() -> None:
    """Every member differs from its default. 1001 operations a second, 2001 in all, on two clients."""
    asked: dict[str, Any] = {
        "description": "why",
        "bucket_ms": 2000,
        "seed": 7,
        "io_csv": False,
        "deadline_s": 60,
    }
    trace: dict[str, Any] = {"calls": False, "context": True, "context_without": ["tcp"]}
    load = {"threads": 5, "target_ops_per_s": 30, "before": ["flush"], "warmup_operations": 9}
    run = {**load, "threads": 7, "target_ops_per_s": 1001, "properties": {"x": True, "y": 2}}
    properties = {"recordcount": 21, "operationcount": 2001, "table": "t", "y": 1}
    workload = {"name": "w", "workload": "w", "properties": properties, "load": load, "run": run}
    more: dict[str, Any] = {"tracing": "required", "error_bound": 0.25, "operation_log": False, "workloads": [workload]}
    made = plan(2, {}, **asked, **trace, **more)
    assert {name: getattr(made, name) for name in asked} == asked
    assert made.trace.model_dump(exclude={"nodes"}) == {**trace, "wanted": "required", "context_without": ("tcp",)}
    assert [traced.node for traced in made.trace.nodes] == ["node0", "node1", "node2"]
    assert [node.name for node in made.clients] == ["client0", "client1"]
    assert [node.name for node in made.agents] == ["node0", "node1", "node2", "client0", "client1"]
    loading, running = made.phases
    assert (loading.name, loading.before, loading.warmup_operations) == ("w-load", ("drop", "flush"), 0)
    assert (running.name, running.before, running.warmup_operations) == ("w-run", ("flush",), 9)
    assert [(phase.threads, phase.target, phase.table, phase.record_count) for phase in made.phases] == [
        (5, 30, "t", 21),
        (7, 1001, "t", 21),
    ]
    own = {"x": "true", "y": "2", "oplog": "false", "error.bound": "0.25", "operation.mix": "exact"}
    assert running.properties.items() >= own.items() and loading.properties["y"] == "1"
    assert [shard.seed for phase in made.phases for shard in phase.shards] == [7] * 4
    assert [shard.threads for phase in made.phases for shard in phase.shards] == [2, 3, 3, 4]
    assert [shard.operations for shard in running.shards] == [1000, 1001]
    rates = [Fraction(shard.target_ops_per_s or 0).limit_denominator(10**6) for shard in running.shards]
    assert rates == [Fraction(1001 * 1000, 2001), Fraction(1001 * 1001, 2001)], "all end together"
    assert {(shard.key_start, shard.key_end) for shard in running.shards} == {(None, None)}
    untraced = plan(2, {}, tracing="off")
    assert untraced.trace.nodes == () and untraced.phases[0].shards[0].target_ops_per_s is None
    only_run = {**workload, "load": None}
    assert [phase.name for phase in plan(2, {}, workloads=[only_run]).phases] == ["w-run"]


def test_the_plan_is_the_same_each_time_and_frozen() -> None:
    first, second = (plan(2, {"recordcount": 100}) for _ in range(2))
    assert first.model_dump_json() == second.model_dump_json()
    with pytest.raises(ValueError, match="frozen"):
        first.seed = 2
    assert Plan.model_validate_json(first.model_dump_json()) == first


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"recordcount": -5}, "recordcount=-5 is negative"),
        ({"operationcount": "many"}, "operationcount='many' is not a whole number"),
        ({"readproportion": -1}, "readproportion=-1 is negative"),
        ({"readproportion": 0, "updateproportion": 0}, "proportions are all 0"),
        ({"readproportion": "half"}, "readproportion='half' is not a number"),
        ({"recordcount": 1}, "each needs one"),
    ],
)
def test_what_cannot_be_planned_is_named(properties: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match="workload w: .*" + word):
        plan(2, properties)


def test_fewer_threads_than_clients() -> None:
    with pytest.raises(ConfigError, match="1 threads for 2 clients"):
        plan(2, {}, threads=1)


def test_no_client() -> None:
    with pytest.raises(ConfigError, match="no client node"):
        plan(0, {})


def test_properties_as_java_reads_them() -> None:
    text = "a=1\n# no\n! no\nb : 2\nc 3\nd=x\\\n    y\ne\\ f=\\u0041\ng=a=b\nh=\n  i = j k \nw=c:\\\\d\n"
    expected = {"a": "1", "b": "2", "c": "3", "d": "xy", "e f": "A", "g": "a=b", "h": "", "i": "j k", "w": "c:\\d"}
    assert parse_properties(text) == expected


def test_an_unknown_workload_names_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "messenger.properties").write_text("")
    with pytest.raises(ConfigError, match="known: messenger"):
        load_workload("messanger", tmp_path)
