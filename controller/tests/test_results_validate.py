"""Every contradiction that can be put into a run is found, and only that one."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.errors import DataError, RunError
from controller.results import schema
from controller.results.finish import finish
from controller.results.join import join
from controller.results.machines import check_machines, servers_share_a_machine
from controller.results.shapes import Each, Maybe, misfit
from controller.results.store import RunStore
from controller.results.validate import validate
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.judged import change, consistent_run, device, errors, only
from viz.run_data import load_run


def boot(store: RunStore, **boot_ids: str) -> None:
    for node, boot_id in boot_ids.items():
        change(store.node_dir(node) / "facts.json", partial(dict.update, boot_id=boot_id, cpus=2))


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return consistent_run(tmp_path)


def test_a_consistent_run_has_no_remark(store: RunStore) -> None:
    finished = finish(store.path)
    assert finished.findings == []
    assert finished.manifest["status"] == "complete"
    assert finished.manifest["lost_events"] == {"node1": 0, "node2": 0}
    assert finished.manifest["files"]["joined/ops.csv"]["rows"] > 0


@pytest.mark.parametrize("source", ["summary", "plan", "hdr", "log"])
def test_a_lost_operation_is_found_wherever_it_is_lost(store: RunStore, source: str) -> None:
    folder = store.client_dir("client2", "a-run")
    if source == "summary":
        change(folder / "summary.json", lambda s: s["operations"]["UPDATE"].update(count=8))
    elif source == "plan":
        change(store.path / "plan.json", lambda p: p["phases"][1]["shards"][1]["planned"].update(UPDATE=8))
    elif source == "hdr":
        lines = (folder / "UPDATE.hdr").read_text().splitlines()
        (folder / "UPDATE.hdr").write_text("\n".join(lines[:-1]) + "\n")
    else:
        content = (folder / "ops.bin").read_bytes()
        (folder / "ops.bin").write_bytes(content[:-1])
        wrong = errors(store)
        assert len(wrong) == 1 and "in the operation log" in wrong[0].what
        return
    only(errors(store), "client2/a-run", "UPDATE", "9 in")


def test_clients_that_doubt_themselves_are_one_warning(store: RunStore) -> None:
    for client in ("client1", "client2"):
        path = store.client_dir(client, "a-run") / "summary.json"
        change(path, lambda s: s["client"].update(warnings=["the client waited for a processor"]))
    found = [finding for finding in finish(store.path).findings if finding.severity == "warning"]
    assert [finding.where for finding in found] == ["client1/a-run"]
    assert "2 of 4 phases" in found[0].what
    assert "the client waited for a processor" in found[0].what


# Up to ten may be due in the last instants of any phase, and one in a thousand does not move the 99.9th percentile.
# `begun`: updates of one client; the two did 149 other operations.
@pytest.mark.parametrize(
    ("more", "begun", "warned"), [(6, 9, False), (16, 9, True), (16, 19_830, True), (16, 19_831, False)]
)
def test_operations_due_and_not_begun_are_a_warning_when_they_are_many(
    store: RunStore, more: int, begun: int, *, warned: bool
) -> None:
    for client, not_begun in (("client1", 4), ("client2", more)):
        path = store.client_dir(client, "a-run") / "summary.json"
        change(path, partial(set_not_begun, not_begun))
    change(path, lambda s: s["operations"]["UPDATE"].update(count=begun))
    found = [finding for finding in finish(store.path).findings if finding.severity != "error"]
    assert [(finding.severity, finding.where) for finding in found] == ([("warning", "a-run")] if warned else [])
    words = f"20 of {149 + begun + 20} ", "client1: 4, client2: 16"
    assert all(word in finding.what for finding in found for word in words)


def set_not_begun(count: int, summary: dict[str, Any]) -> None:
    summary["client"]["not_begun"] = count


def test_read_modify_writes_count_once_beside_their_parts(store: RunStore) -> None:
    folder = store.client_dir("client2", "a-run")
    (folder / "RMW-READ.hdr").write_bytes((folder / "UPDATE.hdr").read_bytes())
    (folder / "Intended-RMW-READ.hdr").write_bytes((folder / "UPDATE.hdr").read_bytes())
    assert [f for f in finish(store.path).findings if "operations" in f.what] == []


def test_a_run_without_operation_logs_is_fine(store: RunStore) -> None:
    for client, phase in store.client_phases():
        (store.client_dir(client, phase) / "ops.bin").unlink()
    assert finish(store.path).findings == []


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [(39, 80, "more than once"), (41, 80, "missing"), (40, 79, "missing"), (None, None, "do not say")],
)
def test_keys_are_loaded_once_and_completely(store: RunStore, start: int | None, end: int | None, words: str) -> None:
    path = store.client_dir("client2", "a-load") / "summary.json"
    change(path, lambda s: s.update(key_start=start, key_end=end))
    only(errors(store), "a-load", words, "the clients")
    change(path, lambda s: s.update(key_start=40, key_end=80))
    change(store.path / "plan.json", lambda p: p["phases"][0]["shards"][1].update(key_start=start, key_end=end))
    (found,) = (finding for finding in validate(store.path) if finding.where == "a-load")
    assert words in found.what and "the plan" in found.what


@pytest.mark.parametrize(
    ("name", "edit", "severity", "where", "words"),
    [
        (
            "clients/client2/a-run/summary.json",
            lambda s: s.update(status="aborted", reason="the deadline"),
            "error",
            "client2/a-run",
            "status aborted: the deadline",
        ),
        (
            "plan.json",
            lambda p: p["phases"][1]["shards"][1].pop("planned"),
            "warning",
            "client2/a-run",
            "the plan has no number of operations",
        ),
        (
            "nodes/node1/trace.json",
            lambda t: t.update(state="failed", reason="no memory"),
            "error",
            "node1",
            "did not stop in order (state failed: no memory)",
        ),
        (
            "nodes/node1/trace.json",
            device(excluded={"untracked": 1, "completion_not_seen": 2, "in flight at start": -1}),
            "warning",
            "node1/loop1",
            "3 of 263 requests have no row",
        ),
        (
            "nodes/node1/trace.json",
            device(layers_missing={"driver": "nothing tells"}),
            "info",
            "node1/loop1",
            "layer driver is missing: nothing tells",
        ),
        ("nodes/node1/trace.json", lambda t: t.update(schema_version=2), "error", "node1", "schema_version 2, not 1"),
    ],
)
def test_what_a_client_a_plan_or_a_tracer_lacks_is_said(
    store: RunStore, name: str, edit: Callable[[Any], None], severity: str, where: str, words: str
) -> None:
    change(store.path / name, edit)
    findings = finish(store.path).findings
    only(findings, where, words)
    assert findings[0].severity == severity


def test_a_client_that_left_nothing_is_missed(store: RunStore) -> None:
    shutil.rmtree(store.client_dir("client2", "a-run"))
    only(errors(store), "client2/a-run", "no results of this client")


def test_the_joined_operations_are_held_against_the_clients(store: RunStore) -> None:
    finish(store.path)
    path = store.path / schema.OPS.path
    text = path.read_text()
    first = next(row for row in csv.DictReader(text.splitlines()) if row["count"] != "0")
    row = f"{first['bucket_start_us']},{first['phase']},{first['op']},"
    path.write_text(text.replace(f"{row}{first['count']},", f"{row}{int(first['count']) + 1},", 1))
    only(
        [f for f in validate(store.path) if "sha256" not in f.what],
        schema.OPS.path,
        "a-load INSERT: 81 operations, not 80",
    )
    path.unlink()
    only([f for f in validate(store.path) if "is missing:" in f.what], schema.OPS.path, "was not joined")


def test_the_rows_of_a_table_are_those_of_the_manifest(store: RunStore) -> None:
    finish(store.path)
    change(store.path / "manifest.json", lambda m: m["files"]["joined/io.csv"].update(rows=3))
    only(validate(store.path), "joined/io.csv", "has not the 3 rows")


@pytest.mark.parametrize(("bound_ns", "warned"), [(50_000_000, False), (50_000_001, True)])
def test_a_clock_that_is_hardly_good_enough_is_a_warning(store: RunStore, bound_ns: int, *, warned: bool) -> None:
    """A twentieth of the bucket is comfortable."""
    path = store.node_dir("node1") / "clock.csv"
    path.write_text(path.read_text().replace(",150000\n", f",{bound_ns}\n"))
    said = [(finding.severity, finding.where, finding.what) for finding in finish(store.path).findings]
    assert said == [("warning", "node1", "the clock's error bound is 50 ms, buckets are 1000 ms")] * warned


def test_errors_come_first(store: RunStore) -> None:
    change(store.client_dir("client1", "a-load") / "summary.json", lambda s: s["client"].update(warnings=["w"]))
    change(store.node_dir("node1") / "trace.json", lambda t: t.update(limits=["l"]))
    change(store.node_dir("node2") / "trace.json", lambda t: t.update(state="running"))
    assert [finding.severity for finding in validate(store.path)][-2:] == ["warning", "info"]


def test_a_file_changed_after_collection_is_found(store: RunStore) -> None:
    finish(store.path)
    with (store.client_dir("client1", "a-run") / "stdout.log").open("a") as file:
        file.write("x")
    only(errors(store), "clients/client1/a-run/stdout.log", "sha256")
    (store.client_dir("client1", "a-run") / "stdout.log").unlink()
    only(errors(store), "clients/client1/a-run/stdout.log", "missing")


def test_a_killed_client_makes_the_run_partial_and_keeps_the_rest(store: RunStore) -> None:
    (store.client_dir("client2", "a-run") / "summary.json").unlink()
    finished = finish(store.path)
    assert not finished.trusted
    assert finished.manifest["status"] == "partial"
    assert any("no summary.json" in reason for reason in finished.manifest["reasons"])
    assert store.joined("ops.csv").is_file()


def test_a_phase_that_never_started_or_ended_is_found(store: RunStore) -> None:
    events = (store.path / "events.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in events if not ("phase_end" in line and "a-run" in line)]
    (store.path / "events.jsonl").write_text("".join(kept))
    only(errors(store), "a-run", "never ended")
    kept = [line for line in events if "a-run" not in line]
    (store.path / "events.jsonl").write_text("".join(kept))
    assert any("never started" in finding.what for finding in validate(store.path))


def test_nodes_on_one_machine_are_named(store: RunStore) -> None:
    boot(store, node1="a", client2="a", node2="b")
    only(finish(store.path).findings, "client2, node1", "one machine", "2 processors")
    boot(store, client2="c")
    assert check_machines(store) == []


@pytest.mark.parametrize(
    ("boot_ids", "shared"),
    [
        ({}, False),
        ({"node1": "a", "node2": "a"}, True),
        ({"node1": "a", "node2": "b"}, False),
        ({"node1": "a", "client1": "a", "client2": "a"}, False),
    ],
)
def test_whether_data_servers_share_a_machine(store: RunStore, boot_ids: dict[str, str], shared: bool) -> None:
    boot(store, **boot_ids)
    assert servers_share_a_machine(store) is shared


def test_a_clock_that_was_never_read_is_a_warning(store: RunStore) -> None:
    (store.node_dir("node1") / "clock.csv").unlink()
    findings = finish(store.path).findings
    assert [(f.severity, f.where) for f in findings] == [("warning", "node1")]


def set_clock(store: RunStore, node: str, seconds: int, *, stood_still: bool = False) -> None:
    """Readings as if the unix clock had been set by that behind the first one, or the machine had stood still for it.
    The whole run lies between the first and the second."""
    path = store.node_dir(node) / "clock.csv"
    head, first, *others = path.read_text().splitlines()
    lines = [head, first]
    for reading in others:
        unix, mono, offset, bound = map(int, reading.split(","))
        if stood_still:
            mono -= seconds * 10**9
        else:
            unix, offset = unix + seconds * 10**9, offset + seconds * 10**9
        lines.append(f"{unix},{mono},{offset},{bound}")
    path.write_text("\n".join([*lines, ""]))


def test_setting_a_clock_during_a_run_moves_no_time_and_is_a_warning(store: RunStore) -> None:
    finish(store.path)
    before = {path.name: path.read_bytes() for path in (store.path / "joined").iterdir()}
    set_clock(store, "client1", 2)
    set_clock(store, "node1", -3)
    findings = finish(store.path).findings
    warnings = [finding for finding in findings if "clock.csv" not in finding.where]
    assert [(f.severity, f.where) for f in warnings] == [("warning", "client1"), ("warning", "node1")]
    assert "was set by 2 s" in warnings[0].what and "was set by -3 s" in warnings[1].what
    assert {path.name: path.read_bytes() for path in (store.path / "joined").iterdir()} == before


def test_where_no_log_tells_by_which_clock_operations_were_timed_a_set_one_is_an_error(store: RunStore) -> None:
    (store.client_dir("client1", "a-run") / "ops.bin").unlink()
    set_clock(store, "client1", 2)
    only(errors(store), "client1", "was set by 2 s", "(a-run)")


def test_a_machine_that_stood_still_is_an_error(store: RunStore) -> None:
    set_clock(store, "node1", 2, stood_still=True)
    only(errors(store), "node1", "moved by 2 s")


@pytest.mark.parametrize(
    "victim",
    ["ops.bin", "READ.hdr", "summary.json", "plan.json", "events.jsonl", "trace.json", "io.parquet", "clock.csv"],
)
def test_damage_is_a_finding_never_a_traceback(store: RunStore, victim: str) -> None:
    path = next(iter(sorted(store.path.rglob(victim))))
    path.write_bytes(b'\xff\x00{"garbage')
    if path.suffix == ".hdr":
        path.write_text("1.0,1.0,1.0,HISTFgarbage\n")
    finished = finish(store.path)
    assert not finished.trusted
    assert finished.manifest["status"] == "partial"


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("manifest.json", "tracing"),
        ("manifest.json", "tracing.node1"),
        ("manifest.json", "tracing.node1.layers_missing"),
        ("manifest.json", "warnings"),
        ("manifest.json", "reasons"),
        ("manifest.json", "findings"),
        ("manifest.json", "files"),
        ("manifest.json", "versions"),
        ("trace.json", "devices"),
        ("trace.json", "devices.0"),
        ("trace.json", "devices.0.layers_missing"),
        ("trace.json", "devices.0.diskstats_after.reads"),
        ("trace.json", "probes"),
        ("trace.json", "program_misses"),
        ("trace.json", "returns"),
        ("trace.json", "emitted"),
        ("trace.json", "vfs"),
        ("trace.json", "vfs.read.cached"),
        ("plan.json", "database"),
        ("plan.json", "phases.1.name"),
        ("plan.json", "phases.1.shards.0.client"),
        ("plan.json", "io_csv"),
        ("summary.json", "operations.INSERT.count"),
    ],
)
def test_an_odd_member_is_a_data_error_that_names_it(store: RunStore, name: str, member: str) -> None:
    path = next(iter(sorted(store.path.rglob(name))))
    *above, last = [int(part) if part.isdigit() else part for part in member.split(".")]

    def edit(content: Any, odd: object) -> None:
        for part in above:
            content = content[part]
        content[last] = odd

    join(store.path)
    said = "lacks what every plan has: no" if name == "plan.json" else "has no"
    for odd in (7.5, None):
        change(path, partial(edit, odd=odd))
        with pytest.raises(DataError, match=re.escape(f"{path} {said} usable `{member}`")):
            load_run(store.path)
    if name != "manifest.json":
        assert any(f"`{member}`" in error.what for error in errors(store))


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"whole": 1, "part": 0.5, "names": [], "of": {}}, ""),
        ({"whole": 1, "part": 1, "names": ["a"], "of": {"x": None, "y": 2}, "more": [7]}, ""),  # as JSON writes 1.0
        ({"whole": 1.0, "part": 1, "names": [], "of": {}}, "whole"),
        ({"whole": True, "part": 1, "names": [], "of": {}}, "whole"),
        ({"whole": None, "part": 1, "names": [], "of": {}}, "whole"),
        ({"part": 1, "names": [], "of": {}}, "whole"),
        ({"whole": 1, "names": ["a", 3]}, "part"),
        ({"whole": 1, "part": True, "names": ["a"]}, "part"),
        ({"whole": 1, "part": 1, "names": ["a", 3], "of": {}}, "names.1"),
        ({"whole": 1, "part": 1, "names": "ab", "of": {}}, "names"),
        ({"whole": 1, "part": 1, "names": [], "of": {"x": 1, "y": "2"}}, "of.y"),
        ({"whole": 1, "part": 1, "names": [], "of": [1]}, "of"),
        ({"whole": 1, "part": 1, "names": [], "of": {}, "free": "x"}, "free"),
    ],
)
def test_the_first_member_that_does_not_fit_is_named(content: dict[str, Any], place: str) -> None:
    shape = {"whole": int, "part": float, "names": [str], "of": Each(Maybe(int)), "free?": int}
    assert misfit(content, shape) == place
    assert misfit([content], [shape], "all") == (f"all.0.{place}" if place else "")


@pytest.mark.parametrize(
    ("name", "member", "odd"),
    [
        ("plan.json", ("phases", 1, "shards", 0, "planned"), -1),
        ("plan.json", ("phases", 1, "shards", 0, "client"), ["c"]),
        ("summary.json", ("client",), 1.5),
        ("summary.json", ("client", "warnings"), 7),
        ("summary.json", ("client", "not_begun"), "many"),
    ],
)
def test_a_member_that_could_not_be_counted_with_is_a_finding(
    store: RunStore, name: str, member: tuple[str | int, ...], odd: object
) -> None:
    path = next(iter(sorted(store.path.rglob(name))))

    def edit(content: Any) -> None:
        for part in member[:-1]:
            content = content[part]
        content[member[-1]] = odd

    change(path, edit)
    where = ".".join(map(str, member))
    assert any(f"no usable `{where}`" in error.what for error in errors(store))


def test_a_failed_run_stays_failed(store: RunStore) -> None:
    change(store.path / "manifest.json", lambda m: m.update(status="failed", reasons=["node1: agent lost"]))
    finished = finish(store.path)
    assert finished.manifest["status"] == "failed"
    assert finished.manifest["reasons"] == ["node1: agent lost"]


@pytest.mark.parametrize(("years", "why"), [(0.01, "took 6 s"), (200, "took 6 s"), (900, "no clock shows")])
def test_a_client_that_measured_for_years_is_an_error_that_names_it(store: RunStore, years: float, why: str) -> None:
    """Each second of it would be a row of ops.csv; 900 years of nanoseconds are more than 64 bits hold."""
    folder = store.client_dir("client2", "a-run")
    end_ns = T0 + int(years * 365 * 86_400) * SECOND
    change(folder / "summary.json", lambda summary: summary.update(end_unix_ns=end_ns))
    assert [error.what for error in errors(store) if str(folder) in error.what and why in error.what]


@pytest.mark.parametrize("member", ["phases", "nodes"])
def test_a_plan_without_its_members_is_a_finding(store: RunStore, member: str) -> None:
    change(store.path / "plan.json", lambda plan: plan.update({member: [{}]}))
    assert any("plan.json lacks" in finding.what for finding in errors(store))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name", ["joined/ops.csv", "clients/client1/a-run/ops.parquet"])
def test_a_full_disk_while_joining_is_one_error_that_names_the_file(store: RunStore, name: str) -> None:
    (store.path / name).symlink_to("/dev/full")
    with pytest.raises(RunError, match=f"no space left.*{name}"):
        join(store.path)
