"""The launcher: it must never touch a process that is not its own, and never leave one that is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = Path(__file__).resolve().parents[1] / "roles" / "common" / "files" / "strata_daemon.py"
SLEEP = ["sleep", "300"]
# Answers on the port that it is given, after as many seconds as it is told.
LISTEN = """
import socket, sys, time
time.sleep(float(sys.argv[2]))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True: server.accept()[0].close()
"""
# Starts a child in a session of its own and ends itself: what a killed agent leaves behind.
# Ends once a file is there, and leaves a process behind.
ORPHAN = """
import pathlib, subprocess, sys, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Launcher:
    folder: Path

    @property
    def pidfile(self) -> Path:
        return self.folder / "run" / "one.pid"

    @property
    def pid(self) -> int:
        return int(self.pidfile.read_text(encoding="utf-8").splitlines()[0])

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def start(self, command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        files = ["--pidfile", str(self.pidfile), "--log", str(self.folder / "logs" / "one.log")]
        return self("start", "One", *files, *options, "--", *command)

    def stop(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self("stop", "--all", str(self.folder / "run"), "--grace", "2", *options)


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    one = Launcher(tmp_path)
    yield one
    one.stop()


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def state(done: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["changed"], answer["state"]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_start_runs_in_a_session_of_its_own(launcher: Launcher) -> None:
    assert state(launcher.start(SLEEP)) == (True, "started")
    assert os.getsid(launcher.pid) == launcher.pid
    assert state(launcher("status", "--pidfile", str(launcher.pidfile))) == (False, "running")


def test_a_second_start_changes_nothing(launcher: Launcher) -> None:
    launcher.start(SLEEP)
    first = launcher.pid
    assert state(launcher.start(SLEEP)) == (False, "running")
    assert launcher.pid == first


@pytest.mark.parametrize("changed", ["command", "environment", "watched file"])
def test_what_has_changed_is_restarted(launcher: Launcher, changed: str) -> None:
    watched = launcher.folder / "site.xml"
    watched.write_text("1", encoding="utf-8")
    launcher.start(SLEEP, "--watch", str(watched))
    first = launcher.pid
    options = ["--watch", str(watched)]
    if changed == "environment":
        options += ["--env", "A=B"]
    if changed == "watched file":
        watched.write_text("2", encoding="utf-8")
    assert state(launcher.start(["sleep", "301"] if changed == "command" else SLEEP, *options)) == (
        True,
        "restarted",
    )
    assert launcher.pid != first
    assert not runs(first)


def test_a_killed_daemon_is_started_again(launcher: Launcher) -> None:
    launcher.start(SLEEP)
    os.kill(launcher.pid, signal.SIGKILL)
    assert until(lambda: not runs(launcher.pid))
    assert launcher("status", "--pidfile", str(launcher.pidfile)).returncode == 1
    assert state(launcher.start(SLEEP)) == (True, "started")


def test_a_recycled_pid_is_neither_alive_nor_killed(launcher: Launcher) -> None:
    stranger = subprocess.Popen(SLEEP)
    try:
        launcher.pidfile.parent.mkdir()
        launcher.pidfile.write_text(f"{stranger.pid}\n1\nabc\nOne\n/dev/null\n", encoding="utf-8")
        assert launcher("status", "--pidfile", str(launcher.pidfile)).returncode == 1
        assert state(launcher.stop()) == (True, "stopped")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_port_in_use_is_refused_with_its_owner(launcher: Launcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = launcher.start(SLEEP, "--port", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"One needs port 127.0.0.1:{port}, but process {os.getpid()} (" in done.stderr
    assert not launcher.pidfile.exists()


def test_the_owner_is_that_of_the_address(launcher: Launcher) -> None:
    """This process, which /proc lists first, has the same port on another address, as nodes of one machine do."""
    with socket.create_server(("127.0.0.3", 0)) as elsewhere:
        port = elsewhere.getsockname()[1]
        code = f"import socket; s = socket.create_server(('127.0.0.2', {port})); print(flush=True); s.accept()"
        owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            assert owner.stdout is not None
            owner.stdout.readline()
            done = launcher.start(SLEEP, "--port", f"127.0.0.2:{port}")
        finally:
            owner.kill()
            owner.wait()
    assert f"but process {owner.pid} (" in done.stderr


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_who_listens_on_all_addresses_is_the_owner(launcher: Launcher, everywhere: str) -> None:
    family = socket.AF_INET6 if everywhere == "::" else socket.AF_INET
    with socket.create_server((everywhere, 0), family=family, dualstack_ipv6=everywhere == "::") as server:
        done = launcher.start(SLEEP, "--port", f"127.0.0.2:{server.getsockname()[1]}")
    assert f"but process {os.getpid()} (" in done.stderr


def test_an_address_of_another_machine_is_refused(launcher: Launcher) -> None:
    done = launcher.start(SLEEP, "--port", "192.0.2.1:7")
    assert done.returncode == 1
    assert "192.0.2.1:7" in done.stderr


@pytest.mark.parametrize("endpoint", ["7420", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x"])
def test_a_malformed_port_is_one_message(launcher: Launcher, endpoint: str) -> None:
    done = launcher.start(SLEEP, "--port", endpoint)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_an_immediate_death_shows_the_log(launcher: Launcher) -> None:
    done = launcher.start(["sh", "-c", "echo no such class; exit 7"])
    assert done.returncode == 1
    assert "One ended at once with code 7" in done.stderr
    assert "no such class" in done.stderr
    assert not launcher.pidfile.exists()


def test_a_missing_program_is_one_message(launcher: Launcher) -> None:
    done = launcher.start(["/no/such/program"])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "/no/such/program" in done.stderr


def test_wait_returns_when_the_port_answers(launcher: Launcher, free_port: int) -> None:
    command = [sys.executable, "-c", LISTEN, str(free_port), "0.5"]
    launcher.start(command, "--port", f"127.0.0.1:{free_port}")
    assert state(launcher("wait", "--all", str(launcher.pidfile.parent))) == (False, "running")
    socket.create_connection(("127.0.0.1", free_port)).close()


def test_wait_names_the_daemon_that_died(launcher: Launcher, free_port: int) -> None:
    launcher.start(["sh", "-c", "sleep 0.5; echo out of luck; exit 1"], "--port", f"127.0.0.1:{free_port}")
    done = launcher("wait", "--all", str(launcher.pidfile.parent))
    assert done.returncode == 1
    assert "One has ended" in done.stderr
    assert "out of luck" in done.stderr


def test_wait_has_an_end(launcher: Launcher, free_port: int) -> None:
    launcher.start(SLEEP, "--port", f"127.0.0.1:{free_port}")
    done = launcher("wait", "--all", str(launcher.pidfile.parent), "--timeout", "0.2")
    assert f"does not answer on 127.0.0.1:{free_port}" in done.stderr


def test_stop_kills_what_ignores_term(launcher: Launcher) -> None:
    launcher.start(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    pid = launcher.pid
    assert state(launcher("stop", "--all", str(launcher.pidfile.parent), "--grace", "0.2")) == (
        True,
        "stopped",
    )
    assert not runs(pid)


def test_stop_finds_what_outlived_its_daemon(launcher: Launcher, daemon: ModuleType) -> None:
    end = launcher.folder / "end"
    launcher.start([sys.executable, "-c", ORPHAN, str(end)], "--settle", "0")
    leader = launcher.pid
    end.touch()
    assert until(lambda: not runs(leader))
    launcher.pidfile.unlink()
    assert state(launcher.stop()) == (True, "stopped")
    assert daemon.started_under(lambda mark: mark == str(launcher.pidfile)) == []
    assert state(launcher.stop()) == (False, "stopped")


def test_stop_with_nothing_there_changes_nothing(launcher: Launcher) -> None:
    assert state(launcher.stop()) == (False, "stopped")


def test_a_damaged_pid_file_is_taken_away(launcher: Launcher) -> None:
    launcher.pidfile.parent.mkdir()
    launcher.pidfile.write_text("not a pid", encoding="utf-8")
    assert state(launcher.stop()) == (True, "stopped")
    assert not launcher.pidfile.exists()


def test_the_callers_environment_stays_outside(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_SECRET", "x")
    launcher.start(SLEEP, "--env", "HADOOP_USER_NAME=hbase")
    environment = Path(f"/proc/{launcher.pid}/environ").read_text(encoding="utf-8").split("\0")
    assert "HADOOP_USER_NAME=hbase" in environment
    assert not any(line.startswith("ANSIBLE") for line in environment)


@given(
    pid=st.integers(1, 4_000_000),
    ticks=st.integers(0, 2**60),
    name=st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), min_size=1).map(str.strip).filter(bool),
    ports=st.lists(st.integers(1, 65535).map(lambda port: f"127.0.0.1:{port}")),
)
def test_a_pid_file_reads_as_it_was_written(
    daemon: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    pid: int,
    ticks: int,
    name: str,
    ports: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("run")
    record = daemon.Record(daemon.Process(pid, ticks), "f00", name, Path("/l o g"), tuple(ports))
    daemon.write_record(folder / "x.pid", record)
    assert daemon.read_record(folder / "x.pid") == record
    shutil.rmtree(folder)


@given(text=st.text())
def test_any_content_of_a_pid_file_is_survived(
    daemon: ModuleType, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pid"
    path.write_text(text, encoding="utf-8", errors="replace")
    record = daemon.read_record(path)
    assert record is None or isinstance(record.process.alive(), bool)


def noted(launcher: Launcher, pid: int, *options: str) -> subprocess.CompletedProcess[str]:
    """As a unit of systemd does behind its start."""
    log = launcher.folder / "logs" / "one.log"
    return launcher("note", "One", str(pid), "--pidfile", str(launcher.pidfile), "--log", str(log), *options)


def state_of(launcher: Launcher, *options: str) -> str:
    done = launcher("check", "One", "--pidfile", str(launcher.pidfile), *options)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["state"])


def test_a_daemon_of_systemd_is_checked_like_one_of_ours(launcher: Launcher) -> None:
    settings = launcher.folder / "settings"
    settings.write_text("a")
    watch = ["--watch", str(settings)]
    assert state_of(launcher, *watch) == "stopped"
    process = subprocess.Popen(SLEEP)
    try:
        assert noted(launcher, process.pid, *watch).returncode == 0
        assert launcher.pid == process.pid
        assert state_of(launcher, *watch) == "running"
        settings.write_text("b")
        assert state_of(launcher, *watch) == "outdated"
    finally:
        process.kill()
        process.wait()
    assert state_of(launcher, *watch) == "stopped"
    waited = launcher("wait", "--pidfile", str(launcher.pidfile), "--timeout", "5")
    assert waited.returncode == 1
    assert "One has ended" in waited.stderr


def test_a_daemon_of_systemd_that_died_at_once_is_noticed(launcher: Launcher) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert noted(launcher, process.pid).returncode == 0
    assert "One has ended" in launcher("wait", "--pidfile", str(launcher.pidfile), "--timeout", "5").stderr


def test_a_stopped_daemon_of_systemd_needs_its_port(launcher: Launcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"127.0.0.1:{server.getsockname()[1]}"
        done = launcher("check", "One", "--pidfile", str(launcher.pidfile), "--port", port)
    assert done.returncode == 1
    assert f"One needs port {port}, but process {os.getpid()}" in done.stderr


def test_the_log_that_a_server_writes_itself_is_shown_after_what_it_printed(launcher: Launcher) -> None:
    own = launcher.folder / "logs" / "servers" / "one.log"
    own.parent.mkdir(parents=True)
    dies = f"echo printed; echo why >> {own}; sleep 0.5"
    assert launcher.start(["sh", "-c", dies]).returncode == 0
    assert until(lambda: not runs(launcher.pid))
    message = launcher("wait", "--pidfile", str(launcher.pidfile)).stderr
    assert message.index("one.log:\nprinted") < message.index(f"last lines of {own}:\nwhy")


@pytest.mark.parametrize("by", ["launcher", "systemd"])
def test_a_long_log_is_cut_to_its_end_while_its_daemon_goes_on_printing(launcher: Launcher, by: str) -> None:
    log, told = launcher.folder / "logs" / "one.log", launcher.folder / "told"
    printing = ["bash", "-c", f"until [ -e {told} ]; do sleep 0.05; done; echo and more; exec sleep 300"]
    launcher.start(printing)
    line = b"x" * (1 << 20) + b"\n"
    with log.open("ab") as file:
        file.writelines([line] * 70)
        file.write(b"the last\n")
    if by == "launcher":
        assert state(launcher.start(printing)) == (False, "running")
    else:
        launcher("check", "One", "--pidfile", str(launcher.pidfile))
    kept = log.stat().st_size
    assert 30 << 20 < kept < 33 << 20
    told.touch()
    deadline = time.monotonic() + 10
    while log.stat().st_size == kept and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = log.read_bytes().splitlines(keepends=True)
    assert lines[-2:] == [b"the last\n", b"and more\n"] and set(lines[:-2]) == {line}
