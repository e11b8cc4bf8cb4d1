"""What a workload's properties hold is known before anything is deployed: the load client itself is asked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from controller import cli, deploy, guard
from controller.databases import make_database
from controller.errors import ConfigError, DeployError
from controller.experiment import load_experiment
from controller.inventory import Inventory, load_inventory
from controller.plan import Plan
from controller.property_check import CLIENT, check_properties
from controller.workloads import parse_properties

INVENTORIES = Path(__file__).resolve().parents[2] / "inventories"
WRONG = {
    "workloads.content.properties.durability": "often",
    "workloads.content.run.properties.readproportoin": "0.3",
    "workloads.messenger.properties.fieldlength": "0",
}
DURABILITIES = "USE_DEFAULT, SKIP_WAL, ASYNC_WAL, SYNC_WAL, FSYNC_WAL"
SAID = f"""strata: the load client refuses properties:
  workload content (load, run): property durability=often must be one of {DURABILITIES}
  workload content (run): nobody has read the property readproportoin; is readproportion meant?
  workload messenger (load, run): property fieldlength=0 must lie between 1 and 1073741824
  do: change them in the experiment or in the workload's file; ycsb-fork/README.md lists them
"""
SERIES = ("hbase-scaleout", "-i", str(INVENTORIES / "local-5"), "--set", "scale=ci")

built = pytest.mark.skipif(
    shutil.which("java") is None or not list(CLIENT.parents[1].glob("core/target/ycsb-core-*.jar")),
    reason="the load client is not built here",
)


def sets(values: dict[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for results and state in which nothing is to appear: a deployment or a run that begins is a failure."""

    def begins(*_: object, **__: object) -> int:
        pytest.fail("something was begun")

    monkeypatch.setattr(guard, "guarded", begins)
    monkeypatch.setattr(deploy, "deploy", begins)
    monkeypatch.setattr(cli, "_state_dir", lambda _: tmp_path / "empty" / "state")
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@built
@pytest.mark.parametrize("verb", ["validate", "deploy", "run"])
def test_all_that_is_wrong_is_said_and_nothing_is_begun(
    untouched: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    places = {"validate": ["demo"], "deploy": ["--experiment", "demo"], "run": ["demo", "--output", str(untouched)]}
    assert cli.main([verb, *places[verb], *sets(WRONG)]) == 2
    assert capsys.readouterr() == ("", SAID)
    assert list(untouched.iterdir()) == []


@built
def test_a_series_is_not_begun_either(untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = load_experiment("hbase-scaleout", ["scale=ci"])[0].workloads[0].name
    wrong = ["--set", f"workloads.{workload}.properties.insertorder=random"]
    assert cli.main(["run", *SERIES, *wrong, "--output", str(untouched)]) == 2
    assert f"workload {workload} (load, run): property insertorder=random must be one of" in capsys.readouterr().err
    assert list(untouched.iterdir()) == []


def test_without_java_a_plan_can_be_validated_and_is_not_run(
    untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bash", "dirname", "readlink", "sed"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert cli.main(["validate", "demo", *sets(WRONG)]) == 0
    said = capsys.readouterr().out
    assert "6 phases" in said and "properties were not checked" in said and "java not found" in said
    assert "`strata run` does it before anything is deployed" in said
    assert cli.main(["plan", "demo", *sets(WRONG)]) == 0
    assert "properties were not checked; `strata validate` does it, and `strata run`" in capsys.readouterr().err
    assert cli.main(["run", "demo", "--output", str(untouched)]) == 3
    assert "java not found" in capsys.readouterr().err
    assert list(untouched.iterdir()) == []


@pytest.fixture
def demo(tmp_path: Path) -> tuple[Plan, Inventory, Path]:
    inventory = load_inventory(INVENTORIES / "local")
    return cli._make_plan(load_experiment("demo", [])[0], inventory), inventory, tmp_path / "state"


def stand_in(folder: Path, script: str) -> Path:
    """A STAND-IN for the client's program."""
    program = folder / "ycsb"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'error: core is not built; run: mvn' >&2; exit 3", "core is not built; run: mvn"),
        ("echo 'error: unknown option -check; usage: ycsb load|run' >&2; exit 2", "unknown option -check"),
        ("echo 'ycsb: 1: syntax error' >&2; exit 2", "syntax error"),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_a_client_that_cannot_say_is_not_taken_to_agree(
    demo: tuple[Plan, Inventory, Path], tmp_path: Path, script: str, said: str
) -> None:
    with pytest.raises(DeployError, match=said):
        check_properties(*demo, client=stand_in(tmp_path, script))
    with pytest.raises(DeployError, match="cannot be asked"):
        check_properties(*demo, client=tmp_path / "none")


def test_the_client_is_told_what_it_will_be_told_in_the_run_and_a_token_is_not_in_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "arangodb.jwt").write_text("secret")
    inventory = load_inventory(INVENTORIES / "example-arangodb-3")
    text = " a=b:c\\\n\t#é€ "
    experiment = load_experiment("arangodb-apps", ["scale=small"])[0]
    workload = experiment.workloads[0].model_copy(update={"properties": {text: text, "recordcount": 8}})
    plan = cli._make_plan(experiment.model_copy(update={"workloads": (workload,)}), inventory)
    told = tmp_path / "told"
    told.mkdir()
    client = stand_in(tmp_path, f'cat > {told}/$1; echo "$*" > {told}/$1.arguments')
    assert check_properties(plan, inventory, tmp_path, client=client) == []
    token = make_database(inventory, {}, tmp_path).settings()["arangodb.jwt"].rpartition(".")[0]
    assert len(token) > 20
    for phase in plan.phases:
        arguments = (told / f"{phase.kind}.arguments").read_text()
        properties = parse_properties((told / phase.kind).read_text())
        assert properties.pop("arangodb.jwt") and "arangodb.hosts" in properties and properties[text] == text
        assert phase.properties.keys() <= properties.keys()
        shard = phase.shards[0]
        assert (properties["seed"], properties["recordcount"]) == (str(shard.seed), "8")
        assert f"{phase.kind} arangodb -check " in arguments
        assert f"-threads {shard.threads} -shard 0/{len(phase.shards)}" in arguments
        assert not any(value in arguments for value in (token, "secret", text))


@built
def test_a_file_is_looked_for_where_the_clients_are(untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where they are on this machine it must be there, and where not it may be."""
    where = {"requestdistribution": "histogram", "requesthistogram": "no://me:hunter2@where/requests.hist"}
    given = sets({f"workloads.content.properties.{name}": value for name, value in where.items()})
    message = "property requesthistogram=no://me:***@where/requests.hist cannot be read"
    assert cli.main(["validate", "demo", *given]) == 2
    assert f"workload content (load, run): {message}" in capsys.readouterr().err
    assert cli.main(["validate", "demo", "-i", str(INVENTORIES / "example-hbase-5"), *given]) == 0
    out, err = capsys.readouterr()
    assert "valid" in out and f"strata: workload content (load, run): {message}" in err


@built
def test_what_ships_is_accepted(demo: tuple[Plan, Inventory, Path]) -> None:
    assert check_properties(*demo) == []
    plan, inventory, state = demo
    phase = plan.phases[0].model_copy(update={"properties": {**plan.phases[0].properties, "clients": "3"}})
    with pytest.raises(
        ConfigError, match=r"workload content \(load\): property clients=3 must be at least threadcount"
    ):
        wide: Any = [shard.model_copy(update={"threads": 4 + shard.shard}) for shard in phase.shards]
        check_properties(
            plan.model_copy(update={"phases": (phase.model_copy(update={"shards": tuple(wide)}),)}), inventory, state
        )
