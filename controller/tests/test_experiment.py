"""Bad input of every kind: one clear line, the right exit code, never a traceback."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from controller import cli, deploy
from controller.errors import ConfigError
from controller.experiment import load_experiment, preset_names

GOOD = """
name: mine
database: {name: hbase}
workloads: [{name: w, workload: messenger}]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_valid(preset: str) -> None:
    assert load_experiment(preset, [])[0].name == preset


def test_defaults_and_settings(tmp_path: Path) -> None:
    settings = ["seed=7", "workloads.w.run.threads=64", "hbase.storage=local", "workloads.w.properties.table=t"]
    experiment, text = load_experiment(write(tmp_path, GOOD), settings)
    assert experiment.seed == 7
    assert experiment.workloads[0].run is not None
    assert experiment.workloads[0].run.threads == 64
    assert experiment.workloads[0].properties["table"] == "t"
    assert experiment.database.settings == {"hbase.storage": "local"}
    (tmp_path / "again.yaml").write_text(text)
    assert load_experiment(str(tmp_path / "again.yaml"), [])[0] == experiment, "what is kept is what was run"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "context_without: [tcp]", "there is no context to leave it out of"),
        (GOOD + "context: true\ncontext_without: [tpc]", "got 'tpc'"),
        # The clients' histograms have intervals of 1 s: a join would refuse it, hours later.
        (GOOD + "bucket_ms: 999", "bucket_ms: input should be greater than or equal to 1000, got 999"),
        (GOOD + "sead: 1", "unknown key 'sead' (did you mean 'seed'?)"),
        (GOOD.replace("workload: messenger", "workload: m, run: {thread: 3}"), "(did you mean 'threads'?)"),
        (GOOD.replace("workload: messenger", "workload: m, run: {threads: -3}"), "greater than or equal to 1, got -3"),
        (GOOD.replace("name: mine\n", ""), "missing key 'name'"),
        (GOOD.replace("hbase", "hbse"), "got 'hbse'"),
        (GOOD.replace("[{", "[{name: w, workload: a}, {"), "the name 'w' is used twice"),
        ("- 1", "an experiment is a mapping"),
        ("a: [", "not YAML"),
        ("", "an experiment is a mapping"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_experiment(write(tmp_path, text), [])
    assert words in str(refused.value)


CI = ("--set", "scale=ci", "-i", "inventories/local-5")
SCALED = (
    GOOD
    + """
seed: 3
scaling: {servers: [1, 2, 3]}
scales:
  tiny: {seed: 5, scaling: {servers: [1, 2], repeat: 1}}
"""
)


def test_a_scale_replaces_top_level_keys_before_other_settings(tmp_path: Path) -> None:
    name = write(tmp_path, SCALED)
    full, tiny = (load_experiment(name, settings)[0] for settings in ([], ["seed=9", "scale=tiny"]))
    assert full.scaling is not None and tiny.scaling is not None
    assert (full.seed, full.scaling.servers, full.scaling.repeat) == (3, (1, 2, 3), 3)
    assert (tiny.seed, tiny.scaling.servers, tiny.scaling.repeat) == (9, (1, 2), 1)
    text = load_experiment(name, ["scale=tiny"])[1]
    assert load_experiment(write(tmp_path, text), [])[0] == tiny.model_copy(update={"seed": 5})
    assert tiny.on_servers(2).database.settings == {"regionservers": 2}


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (SCALED, ["scale=tinny"], "no scale 'tinny' (did you mean 'tiny'?)"),
        (GOOD + "scales: [1]", [], "scales: expected names"),
        (GOOD + "scaling: {servers: []}", [], "scaling.servers"),
        (GOOD + "scaling: {servers: [0, 1]}", [], "greater than or equal to 1"),
        (GOOD + "scaling: {servers: [2, 2]}", [], "twice"),
        (GOOD + "scaling: {servers: [2], repeats: 3}", [], "(did you mean 'repeat'?)"),
        (SCALED, ["regionservers=2"], "both scaling.servers and the setting regionservers"),
    ],
)
def test_a_mistake_about_scaling_is_named(tmp_path: Path, text: str, settings: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_experiment(write(tmp_path, text), settings)
    assert words in str(refused.value)


def test_the_name_of_a_property_or_setting_may_have_dots(tmp_path: Path) -> None:
    # a workload may be called like the member of one
    path = write(tmp_path, GOOD.replace("name: w,", "name: properties,"))
    settings = [
        "workloads.properties.properties.zipfian.scattered=false",
        "workloads.properties.run.properties.value.compressibility=0.5",
        "workloads.properties.load.properties.run.properties.x=1",
        "workloads.properties.run.threads=3",
        "database.settings.hbase.storage=local",
        "hbase.settings.hbase.wal.hsync=true",
    ]
    experiment = load_experiment(path, settings)[0]
    workload = experiment.workloads[0]
    assert workload.name == "properties"
    assert workload.properties == {"zipfian.scattered": False}
    assert workload.run is not None and workload.load is not None
    assert (workload.run.threads, workload.run.properties) == (3, {"value.compressibility": 0.5})
    assert workload.load.properties == {"run.properties.x": 1}
    assert experiment.database.settings == {"hbase.storage": "local", "hbase.settings.hbase.wal.hsync": True}


@pytest.mark.parametrize("setting", ["seed", "=3", "workloads.x.run.threads=1", "name.a=1", "workloads.w=3", "seed=["])
def test_a_bad_setting_is_named(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_experiment(write(tmp_path, GOOD), [setting])


@pytest.mark.parametrize("database", ["hbase", "[hbase]", "{name: hbase, settings: }", "{name: hbase, settings: [a]}"])
def test_a_database_that_is_no_mapping_takes_no_setting(tmp_path: Path, database: str) -> None:
    text = f"name: x\ndatabase: {database}\nworkloads: [{{name: w, workload: workloada}}]\n"
    with pytest.raises(ConfigError, match=r"--set hbase\.storage"):
        load_experiment(write(tmp_path, text), ["hbase.storage=local"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan", "demoo"], 2, "did you mean 'demo'"),
        (["plan", "nowhere.yaml"], 2, "no experiment file"),
        (["plan", "demo", "--set", "sead=1"], 2, "'sead'"),
        (["plan", "demo", "--set", "hbase.storrage=x"], 2, "hbase.storage"),
        (["plan", "demo", "--set", "workloads.content.properties.recordcount=-1"], 2, "is negative"),
        (["plan", "demo", "-i", "nowhere"], 2, "no inventory"),
        (["validate", "demo", "--set", "regionservers=9"], 2, "9 region servers are asked for, the inventory has 3"),
        (["validate", "demo", "--set", "hdfs.replication=9"], 2, "--set hdfs.replication=3"),
        (["run", "demo", "--set", "regionservers=1", "--dry-run"], 2, "need as many DataNodes, 1 are deployed"),
        (["run", "demo", "--repeat", "0", "--dry-run"], 2, "--repeat"),
        (["run", "demo", "--tag", "x", "--dry-run"], 2, "--tag"),
        (["run", "demo", "--fail-on", "fast", "--dry-run"], 2, "--fail-on"),
        (["run", "demo", "--fail-on", "raed.p99_us>5", "--dry-run"], 2, "no operation RAED in any phase (did you mean"),
        (["run", "demo", "--fail-on", "contnt-run.read.p99_us>5", "--dry-run"], 2, "no phase 'contnt-run'"),
        (["run", "demo", "--fail-on", "content-load.read.p99_us>5", "--dry-run"], 2, "no operation READ in"),
        (["run", "demo", "--fail-on", "read.p99>5", "--dry-run"], 2, "no metric 'p99' (did you mean 'p99_us'?)"),
        (["run", "demo", "--resume", "/nowhere"], 2, "no scaling experiment"),
        (["run", "hbase-scaleout", *CI, "--resume", "/nowhere"], 2, "--resume /nowhere"),
        (["run", "hbase-scaleout", *CI, "--repeat", "2"], 2, "neither --repeat nor --fail-on"),
        (["plan", "hbase-scaleout"], 2, "5 data servers are asked for, the inventory has 3"),
        (["scale", "2", "-i", "inventories/example-hbase-5"], 3, "no cluster is deployed"),
        (["scale", "two"], 2, "invalid int value"),
        (["list", "--output", "/nowhere"], 2, "no results in /nowhere: No such file or directory"),
        (["list", "--output", "README.md"], 2, "no results in README.md: Not a directory"),
        (["show", "--output", "/nowhere"], 2, "no results in /nowhere"),
        (["join", "--output", "/nowhere"], 2, "no results in /nowhere"),
        (["report", "--output", "inventories"], 2, "there is no run in inventories/"),
        (["show", "/nowhere/run"], 2, "no run's folder '/nowhere/run'"),
        (["show", "x", "--output", "inventories"], 2, "`strata list --output inventories` shows the runs"),
        (["show", ""], 2, "'' is no run's folder"),
        (["join", "--format", "json"], 2, "join does not take --format\n  do: `strata join --help`"),
        (["destroy", "-i", "nowhere", "--set", "a=1"], 2, "destroy does not take --set a=1"),
        (["plan", "demo", "--repeat", "2"], 2, "plan does not take --repeat 2"),
        (["run", "demo", "--output", "README.md"], 3, "Not a directory\n  do: give another --output"),
        (["plan", "demo", "-i", "inventories"], 2, "inventory inventories: the folder has no hosts.yml"),
        (["show", "inventories", "--format", "csv"], 2, "'inventories' is no run's folder"),
        (["export", "inventories"], 2, "'inventories' is no run's folder"),
        (["show", "20200101T000000Z-0000", "--output", "inventories"], 2, "no run '20200101T000000Z-0000'"),
    ],
)
def test_the_command_line_refuses(arguments: list[str], code: int, words: str) -> None:
    command = [sys.executable, "-m", "controller.cli", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("verb", ["plan", "validate"])  # more than a pipe's buffer holds, and one line
def test_a_reader_that_leaves_early_is_no_error_to_speak_of(verb: str) -> None:
    """As with `strata plan demo | head -1`; the exit code is a shell's for SIGPIPE."""
    command = [sys.executable, "-m", "controller.cli", verb, "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == ("", 141)


def test_an_interrupted_deployment_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "run_playbook", interrupted)
    monkeypatch.setattr(cli, "_state_dir", lambda _: tmp_path)
    assert cli.main(["deploy"]) == 130
    assert "interrupted\n  do: the same command goes on" in capsys.readouterr().err


def test_another_pipe_that_breaks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(cli, "load_experiment", breaks)
    assert cli.main(["validate", "demo"]) == 4
    assert "Broken pipe" in capfd.readouterr().err
