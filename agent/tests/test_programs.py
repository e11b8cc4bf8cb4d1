"""From a specification to the command, its property file and what it may ask for; nothing is started."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import agent_pb2 as api
from agent.config import AgentConfig, AgentConfigError, load_config
from agent.programs import JobRefusedError, Launch, _escape, check_job_id, plan_launch, read_pid


def config(folder: Path, **members: Any) -> AgentConfig:
    """A node on which every program is there."""
    program = folder / "program"
    program.touch()
    programs = dict.fromkeys(("client", "admin", "tracer"), program)
    return AgentConfig("node1", "127.0.0.1", 1, 2, folder, "database", programs, {}, **members)


def planned(folder: Path, spec: api.JobSpec, **members: Any) -> Launch:
    return plan_launch(spec, config(folder, **members), folder)


def read_properties(text: str) -> dict[str, str]:
    """As `java.util.Properties.load` (its Javadoc), without continued lines and \\u, which nobody writes here."""
    escapes = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
    found: dict[str, str] = {}
    for line in text.replace("\r", "\n").split("\n"):
        rest = line.lstrip(" \t\f")
        if not rest or rest[0] in "#!":
            continue
        parts, in_key, blank, place = ["", ""], True, False, 0
        while place < len(rest):
            char = rest[place]
            if char == "\\":
                place += 1
                char = escapes.get(rest[place], rest[place])
                in_key, blank = in_key and not blank, False
                parts[0 if in_key else 1] += char
            elif in_key and (char in " \t\f" or (char in "=:" and blank)):
                blank = char in " \t\f"
                in_key = blank
            elif in_key and char in "=:":
                in_key = False
                rest = rest[: place + 1] + rest[place + 1 :].lstrip(" \t\f")
            else:
                in_key, blank = in_key and not blank, False
                parts[0 if in_key else 1] += char
            place += 1
        found[parts[0]] = parts[1]
    return found


@given(st.dictionaries(st.text("ab \t\f:=#!\\\r\nü", min_size=1), st.text("ab \t\f:=#!\\\r\nü")))
def test_properties_are_read_as_they_were_given(properties: dict[str, str]) -> None:
    text = "".join(f"{_escape(name, key=True)}={_escape(value)}\n" for name, value in properties.items())
    assert read_properties(text) == properties


def test_the_command_of_a_client(tmp_path: Path) -> None:
    spec = api.ClientSpec(verb="run", binding="hbase2", threads=3, shard=1, shards=2, target_ops_per_s=12.5)
    spec.properties.update({"all hosts": "a b", "b": "2"})
    launch = planned(tmp_path, api.JobSpec(job_id="x", client=spec))
    file = tmp_path / "job.properties"
    words = f"{tmp_path}/program run hbase2 -P {file} -threads 3 -target 12.5 -shard 1/2 -start-at stdin"
    assert launch.argv == [*words.split(), "-output", str(tmp_path), "-s", "-status-json"]
    assert read_properties(file.read_text()) == {"all hosts": "a b", "b": "2"}
    assert file.stat().st_mode & 0o777 == 0o600, "it may hold a password"
    assert (launch.stdout_file, launch.status_file) == (tmp_path / "stdout.log", None)
    assert launch.death_signal == signal.SIGKILL and launch.at_end is None
    spec.target_ops_per_s = 0  # a closed loop
    assert "-target" not in planned(tmp_path, api.JobSpec(job_id="x", client=spec)).argv
    admin = planned(tmp_path, api.JobSpec(job_id="x", admin=api.AdminSpec(verb="flush", binding="hbase2")))
    assert admin.argv == [f"{tmp_path}/program", "hbase2", "flush", "-P", str(file)]
    assert admin.stdout_file is None, "its answer is read"


@pytest.mark.parametrize("there", [{}, {"client": Path("/nonexistent/client")}])
def test_a_program_that_is_not_there_is_refused(tmp_path: Path, there: dict[str, Path]) -> None:
    spec = api.JobSpec(job_id="x", client=api.ClientSpec(verb="run", binding="noop"))
    with pytest.raises(JobRefusedError, match=r"client: no program at .*make setup"):
        plan_launch(spec, replace(config(tmp_path), programs=there), tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "--vfs --context={0}/context.csv --peers={0}/peers.csv"),
        ({"without_calls": True}, "--context={0}/context.csv --peers={0}/peers.csv"),
        ({"without_context": True, "context_without": ["memory"]}, "--vfs"),
        (
            {"context_without": ["pressure", "peers", "memory"]},
            "--vfs --context={0}/context.csv --without=memory --without=pressure",
        ),
    ],
)
def test_the_command_of_a_tracer(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    begin = f"{tmp_path}/program --output {tmp_path}/io.bin --ready-fd 1 {words.format(tmp_path)}".split()
    device = tmp_path.stat().st_dev
    spec = api.JobSpec(job_id="x", tracer=api.TracerSpec(by=api.TracerSpec.DEVICE, **options))
    launch = planned(tmp_path, spec, data_path=tmp_path, database_pidfiles={"rs": tmp_path / "none.pid"})
    assert launch.argv == [*begin, "--device", f"{os.major(device)}:{os.minor(device)}"]
    assert (launch.status_file, launch.death_signal) == (tmp_path / "io.bin.json", signal.SIGTERM)
    assert launch.at_end is None
    with pytest.raises(JobRefusedError, match="no database data path"):
        planned(tmp_path, spec)
    mine, other = tmp_path / "mine.pid", tmp_path / "other.pid"
    mine.write_text(f"{os.getpid()} and more\n")
    other.write_text(f"{os.getppid()}")
    spec.tracer.by = api.TracerSpec.PROCESS
    launch = planned(tmp_path, spec, data_path=tmp_path, database_pidfiles={"rs": mine, "dn": other})
    assert launch.argv == [*begin, "--pid", str(os.getpid()), "--pid", str(os.getppid())]
    other.unlink()
    assert launch.at_end is not None
    launch.at_end()
    traced = {"rs": os.getpid(), "dn": os.getppid()}
    noted = json.loads((tmp_path / "database_pids.json").read_text())
    assert noted == {"traced": traced, "at_end": {"rs": os.getpid(), "dn": None}}


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file"), ("", "index out of range"), ("x", "invalid literal"), ("0", "not running")],
)
def test_a_pid_file_that_names_no_process(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "rs.pid"
    if text is not None:
        path.write_text(text)
    with pytest.raises(JobRefusedError, match=f"rs.*{why}"):
        read_pid(path)


@pytest.mark.parametrize(
    ("name", "usable"),
    [("a", True), ("w-load", True), ("A9-", True), ("a" * 64, True), ("a" * 65, False), ("-a", False), ("", False)]
    + [(bad, False) for bad in ("a.b", "a/b", "a b", "a\n", "ä", "..")],
)
def test_the_names_of_jobs_are_those_of_folders(name: str, usable: bool) -> None:
    if usable:
        assert check_job_id(name) == name
    else:
        with pytest.raises(JobRefusedError, match="letters, digits"):
            check_job_id(name)


MEMBERS: dict[str, Any] = {
    "node": "node1",
    "address": "127.0.0.1",
    "port": 7420,
    "metrics_port": 7421,
    "work_dir": "/w",
    "role": "database",
    "programs": {"tracer": "/t"},
    "tls": {"ca": "/ca"},
}


def test_the_configuration_has_paths_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(MEMBERS))
    found = load_config(path)
    assert (found.port, found.work_dir, found.programs) == (7420, Path("/w"), {"tracer": Path("/t")})
    assert (found.data_path, found.data_is_own_disk, found.database_pidfiles) == (None, False, {})
    path.write_text(json.dumps({**MEMBERS, "data_path": "/d", "database_pidfiles": {"rs": "/p"}}))
    found = load_config(path)
    assert (found.data_path, found.database_pidfiles) == (Path("/d"), {"rs": Path("/p")})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("{", "Expecting property name"),
        ("[]", "no object"),
        ("5", "no object"),
        (json.dumps({**MEMBERS, "prot": 1}), r"unknown members \['prot'\]"),
        (json.dumps({name: value for name, value in MEMBERS.items() if name != "tls"}), "tls"),
        (json.dumps({**MEMBERS, "programs": ["/t"]}), "items"),
        (json.dumps({**MEMBERS, "work_dir": 3}), "int"),
        (json.dumps({**MEMBERS, "port": "7420"}), "port"),
        (json.dumps({**MEMBERS, "port": True}), "port"),
        (json.dumps({**MEMBERS, "node": None}), "node"),
        (json.dumps({**MEMBERS, "data_is_own_disk": "no"}), "data_is_own_disk"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_which_member(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "agent.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AgentConfigError, match=f"agent.json.*{why}"):
        load_config(path)
