"""The end of a run: what its manifest says whatever interrupts it."""

from __future__ import annotations

import errno
import json
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from controller import cli, deploy, guard, runner
from controller.databases.hbase import HBase
from controller.errors import DeployError, RunError
from controller.inventory import load_inventory
from controller.progress import Progress
from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.clients import Phase
from controller.tests.synthetic.run import write_run

PHASES = (Phase("a-load", "load", "a", 0.6, 1.7, {"INSERT": 40}, {"INSERT": 30.0}),)


def end(store: RunStore, error: RunError | None) -> runner.Verdict:
    request: Any = SimpleNamespace(keep=True, plan=SimpleNamespace(database=SimpleNamespace(settings={}), io_csv=True))
    database: Any = SimpleNamespace(name="stand-in", version="1", durability=dict)
    return runner._finish(request, database, store, Progress(), error, {})


@pytest.mark.parametrize(
    ("error", "status", "reasons"),
    [(None, "complete", []), (RunError("a client failed"), "partial", ["a client failed"])],
)
def test_a_run_that_was_not_judged_is_never_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RunError | None, status: str, reasons: list[str]
) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        end(store, error)
    manifest = store.manifest()
    assert manifest["status"] == "partial"
    assert manifest["reasons"] == [*reasons, "run: its data have not been joined and judged"]
    judged = finish(store.path).manifest  # as `strata join` does
    assert (judged["status"], judged["reasons"]) == (status, reasons)


@pytest.mark.parametrize("full", ["a joined table", "the manifest", "the report"])
def test_what_a_full_disk_had_no_room_for_is_made_by_the_commands_that_the_hint_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    store = write_run(tmp_path / "my results", phases=PHASES, nodes=("node1",)).store
    names = {"a joined table": "summary.csv", "the manifest": "manifest.json", "the report": "report.html"}
    opened = Path.open

    def no_room(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "w" in mode and names[full] in path.name:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return opened(path, mode, *arguments, **options)

    with monkeypatch.context() as disk:
        disk.setattr(Path, "open", no_room)
        verdict = end(store, None)
    assert verdict.exit_code in (4, 5) and verdict.error is not None
    assert "no space left on device" in verdict.error.what
    commands = re.findall("`(.+?)`", verdict.error.hint)
    assert [shlex.split(command)[:2] for command in commands] == [["strata", "join"], ["strata", "report"]]
    assert [cli.main(shlex.split(command)[1:]) for command in commands] == [0, 0]
    manifest = store.manifest()
    assert (manifest["status"], manifest["reasons"]) == ("complete", [])
    assert (store.path / "report.html").exists()


def test_a_full_disk_of_a_node_is_not_that_of_the_results(tmp_path: Path) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store
    what = f"cannot write /var/lib/stratabench/agent/{store.run_id}/io.bin: No space left on device"
    error = end(store, RunError(what, node="node1", hint="make room on the node")).error
    assert error is not None and error.hint == "make room on the node"


@pytest.mark.parametrize(
    ("options", "before", "stays"),
    [
        ([], "nothing", False),
        (["--keep"], "nothing", True),
        ([], "a cluster", True),
        ([], "half of one", False),
        (["--keep"], "half of one", True),
    ],
)
def test_whoever_ends_a_run_knows_whether_its_cluster_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], before: str, stays: bool
) -> None:
    """Also the guard, which recovers in the place of a controller that was killed and can tell it nothing any more.
    What a deployment has left that was cut short, nobody has used yet: the run completes it, and it is the run's."""
    kept: list[bool] = []

    def guarded(work: Any, recover: Any) -> int:
        kept.extend(of.args[0].keep for of in (work, recover))
        return 0

    def play(*_: object, **__: object) -> list[tuple[str, str]]:
        if before == "half of one":
            raise DeployError("the power is cut")
        return []

    monkeypatch.setattr(guard, "guarded", guarded)
    monkeypatch.setattr(cli, "_state_dir", lambda _: tmp_path)
    monkeypatch.setattr(deploy, "run_playbook", play)
    monkeypatch.setattr(HBase, "wait_ready", lambda *_: None)
    monkeypatch.setattr(HBase, "live_servers", lambda _: ())
    if before != "nothing":
        assert cli.main(["deploy"]) == (0 if before == "a cluster" else 3)
    assert cli.main(["run", "demo", "--output", str(tmp_path / "results"), *options]) == 0
    assert kept == [stays, stays]


def test_the_tables_of_repeated_runs_are_one_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = RunStore.create(tmp_path, "synthetic")
    columns = "run,phase,op,metric,unit,value,ci_low,ci_high,n"
    store.joined("summary.csv").write_text(f"{columns}\nr,app-run,READ,count,operations,3000,,,1\n")
    store.write_manifest({"status": "complete"})
    monkeypatch.setattr(guard, "guarded", lambda work, _: work(lambda _: None))
    monkeypatch.setattr(cli, "run", lambda *_: runner.Verdict(store, None))
    assert cli.main(["run", "demo", "--repeat", "3", "--format", "csv", "--output", str(tmp_path)]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == columns and rows == ["r,app-run,READ,count,operations,3000,,,1"] * 3


def test_the_manifest_says_what_the_inventory_decides_and_no_secret(tmp_path: Path) -> None:
    """The heap of a region server decides its cache, and stands nowhere else."""
    hosts = yaml.safe_load((cli.ROOT / "inventories/local/hosts.yml").read_text())
    hosts["all"]["vars"] = {
        "hbase_regionserver_heap_mb": 384,
        "hbase_settings": {"hbase.wal.hsync": True, "ssl.keystore.password": "hidden1"},
        "ansible_become_password": "hidden2",
        "agent_token": "hidden3",
    }
    hosts["all"]["children"]["clients"]["hosts"]["client2"]["agent_port"] = 7777
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump(hosts))
    plan: Any = SimpleNamespace(experiment="x", model_dump_json=lambda **_: "{}")
    store = runner._create(runner.RunRequest(plan, "name: x\n", load_inventory(path), tmp_path, tmp_path / "results"))
    kept = store.manifest()["inventory"]
    assert kept["path"] == str(path)
    settings = {"hbase.wal.hsync": True}
    every = {"hbase_regionserver_heap_mb": 384, "hbase_settings": settings}
    assert kept["variables"]["node3"] == every and kept["variables"]["client2"] == {**every, "agent_port": 7777}
    assert "hidden" not in json.dumps(kept)


def test_an_export_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write_run(tmp_path, phases=PHASES, nodes=("node1",)).store
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    made = shutil.make_archive

    def full(*arguments: Any, **options: Any) -> str:
        with Path(made(*arguments, **options)).open("r+b") as archive:
            archive.truncate(100)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "make_archive", full)
    name = f"{store.path.parent.name}-{store.run_id}.tar.gz"
    assert cli.main(["export", str(store.path)]) == 4
    assert f"no space left on device while writing {tmp_path}/here/{name}" in capsys.readouterr().err
    assert list(Path().iterdir()) == []
    monkeypatch.undo()
    monkeypatch.chdir(store.joined(""))
    assert cli.main(["export", str(store.path)]) == 2, "it would pack itself"
    monkeypatch.chdir(tmp_path / "here")
    assert cli.main(["export", str(store.path)]) == 0
    assert [path.name for path in Path().iterdir()] == [name]
    shutil.unpack_archive(name)
    for path in store.files():
        assert (Path(store.run_id) / store.relative(path)).read_bytes() == path.read_bytes()
