#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts, awaits and stops one node's daemons where no service manager runs; where one does, awaits and checks.

The first line of a pid file is the pid. The lines behind it are for this program: the process's start time in
clock ticks since boot, a fingerprint of what was started (command, environment, watched files), name, log and
ports. The start time tells our process from a later one with the same pid; the fingerprint tells whether what
runs is what is wanted now. Where systemd starts a daemon, its unit calls ``note`` to have the same pid file written.
One JSON object on standard output says whether anything was changed; a failure is
one message on standard error and exit code 1. Standard library only.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import hashlib
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOG_TAIL_LINES = 8
LOG_LINE_CHARS = 200
# Beside a daemon's log: the folder of those that servers write and roll themselves.
OWN_LOGS = "servers"
# What a daemon prints is cut to its last half of this whenever the daemon is started or looked after.
LOG_BYTES = 64 * 1024 * 1024
POLL_S = 0.05
# In the environment of a daemon, and so of all that it starts: the path of its pid file.
MARK = "STRATA_PIDFILE"
# What a daemon may inherit: its behaviour must not depend on the terminal or the tool that started it.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME")


class DaemonError(Exception):
    """Something the user can act on, said in one message."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A process as /proc shows it; ``start_ticks`` makes it unique on this boot."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        return read_process(self.pid) == self


@dataclasses.dataclass(frozen=True)
class Record:
    """The content of a pid file."""

    process: Process
    fingerprint: str
    name: str
    log: Path
    ports: tuple[str, ...]


def read_process(pid: int) -> Process | None:
    """The live process with this pid; None when there is none, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets: the fields start behind the last bracket.
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]))


def read_record(pidfile: Path) -> Record | None:
    """The pid file's content, or None when there is none or it is damaged."""
    try:
        pid, ticks, *rest = pidfile.read_text(encoding="utf-8").splitlines()
        # A file of another version may end earlier: its process must be found nevertheless.
        fingerprint, name, log, *ports = [*rest, *["", pidfile.stem, "/dev/null"][len(rest) :]]
        return Record(Process(int(pid), int(ticks)), fingerprint, name, Path(log), tuple(ports))
    except (OSError, ValueError):
        return None


def write_record(pidfile: Path, record: Record) -> None:
    """Atomic, so that a reader never sees half a pid."""
    temporary = pidfile.with_suffix(".new")
    process = record.process
    lines = [process.pid, process.start_ticks, record.fingerprint, record.name, record.log, *record.ports]
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(pidfile)


def started_under(pidfiles: Callable[[str], bool]) -> list[Process]:
    """All processes that a daemon with such a pid file is, or has started, also in sessions of their own.

    The environment tells, so that what outlived its daemon or lost its pid file is found as well.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        marks = [line.removeprefix(f"{MARK}=") for line in environment if line.startswith(f"{MARK}=")]
        process = read_process(int(entry.name))
        if process and any(map(pidfiles, marks)):
            found.append(process)
    return found


def await_end(processes: list[Process], seconds: float) -> list[Process]:
    """Those that still live after at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        living = [process for process in processes if process.alive()]
        if not living or time.monotonic() >= deadline:
            return living
        time.sleep(POLL_S)


def send(process: Process, number: signal.Signals) -> None:
    """A signal for exactly this process; one that has gone is no error."""
    if process.alive():
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise DaemonError(f"process {process.pid} belongs to another user: {error}") from error


def stop(pidfiles: list[Path], folder: Path | None, grace_s: float) -> bool:
    """Ends daemons and all that they started. Returns whether there was anything to end.

    TERM, at most ``grace_s`` seconds, KILL; daemons first, because some end their own children in order.
    With ``folder``, every daemon whose pid file is or was in it.
    """

    def ours(mark: str) -> bool:
        return Path(mark) in pidfiles or (folder is not None and Path(mark).parent == folder)

    leaders = [record.process for record in map(read_record, pidfiles) if record and record.process.alive()]
    everything = leaders + [process for process in started_under(ours) if process not in leaders]
    end(leaders, grace_s)
    end(everything, min(grace_s, 1.0))
    changed = bool(everything) or any(pidfile.exists() for pidfile in pidfiles)
    for pidfile in pidfiles:
        pidfile.unlink(missing_ok=True)
    return changed


def end(processes: list[Process], grace_s: float) -> None:
    """TERM to all at once, KILL to those that still live after ``grace_s`` seconds."""
    for process in processes:
        send(process, signal.SIGTERM)
    for process in await_end(processes, grace_s):
        send(process, signal.SIGKILL)
    stubborn = await_end(processes, 10.0)
    if stubborn:
        raise DaemonError(f"process {stubborn[0].pid} does not end, not even by SIGKILL")


def parse_endpoint(text: str) -> tuple[str, int]:
    """``ADDRESS:PORT``, the address a literal."""
    address, _, port = text.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        raise DaemonError(f"not ADDRESS:PORT: {text!r}")
    return address, int(port)


def kernel_hex(address: str) -> str:
    """An address as /proc/net/tcp writes it: words of four bytes, each in the machine's order."""
    packed = ipaddress.ip_address(address).packed
    words = (packed[i : i + 4] for i in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def port_owner(address: str, port: int) -> str:
    """Who listens on a port of this address, or of all addresses, as far as /proc shows it to us.

    The same port of another address is another matter: several nodes of one machine share their port numbers."""
    inodes = set()
    # A socket of both families has the IPv4 address at its end (::ffff:1.2.3.4).
    wanted = kernel_hex(address)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:] if Path(table).exists() else []:
            fields = line.split()
            host, _, listening = fields[1].partition(":")
            here = host.endswith(wanted) or not host.strip("0")
            if fields[3] == "0A" and int(listening, 16) == port and here:
                inodes.add(f"socket:[{fields[9]}]")
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(descriptor.readlink()) in inodes:
                process = descriptor.parent.parent
                return f"process {process.name} ({(process / 'comm').read_text(encoding='utf-8').strip()})"
        except OSError:
            continue
    return "another process"


def require_free_port(name: str, endpoint: str) -> None:
    """Binds the port for an instant, as the daemon will: the only question that has a sure answer."""
    address, port = parse_endpoint(endpoint)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.strip("[]"), port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise DaemonError(
                    f"{name} needs port {endpoint}, but {port_owner(address.strip('[]'), port)} uses it"
                ) from error
            raise DaemonError(f"{name} cannot use {endpoint}: {error.strerror}") from error


def answers(endpoint: str) -> bool:
    """Whether somebody accepts a connection there."""
    address, port = parse_endpoint(endpoint)
    try:
        socket.create_connection((address.strip("[]"), port), timeout=1.0).close()
    except OSError:
        return False
    return True


def fingerprint_of(command: list[str], environment: dict[str, str], cwd: Path, watched: list[Path]) -> str:
    """Changes when a restart would start something else."""
    digest = hashlib.sha256(json.dumps([command, sorted(environment.items()), str(cwd)]).encode())
    for path in watched:
        digest.update(path.read_bytes() if path.exists() else b"\0")
    return digest.hexdigest()[:16]


def log_tail(log: Path) -> str:
    """For an error message: the end of what a daemon printed and of the log that it wrote itself, the newest last."""
    logs = [path for path in (log, log.parent / OWN_LOGS / log.name) if path.exists()]
    return "".join(map(last_lines, sorted(logs, key=lambda path: path.stat().st_mtime)))


def last_lines(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    tail = [line[:LOG_LINE_CHARS] for line in lines[-LOG_TAIL_LINES:]]
    return "\n".join(["", f"last lines of {log}:", *tail]) if tail else ""


def bound(log: Path) -> None:
    """Leaves the end of a log that has grown long. Whoever has it open appends, and goes on behind that."""
    if log.is_file() and log.stat().st_size > LOG_BYTES:
        with log.open("r+b") as file:
            file.seek(-LOG_BYTES // 2, os.SEEK_END)
            file.readline()
            end = file.read()
            file.truncate(0)
            file.seek(0)
            file.write(end)


@dataclasses.dataclass(frozen=True)
class Start:
    """What is to be started."""

    name: str
    pidfile: Path
    log: Path
    cwd: Path
    ports: list[str]
    environment: dict[str, str]
    watched: list[Path]
    command: list[str]
    settle_s: float
    grace_s: float


def start(wanted: Start) -> str:
    """Makes sure that the wanted process runs; returns ``running``, ``started`` or ``restarted``."""
    mark = fingerprint_of(wanted.command, wanted.environment, wanted.cwd, wanted.watched)
    record = read_record(wanted.pidfile)
    bound(wanted.log)
    running = record is not None and record.process.alive()
    if running and record is not None and record.fingerprint == mark:
        return "running"
    if running:
        stop([wanted.pidfile], None, wanted.grace_s)
    for endpoint in wanted.ports:
        require_free_port(wanted.name, endpoint)
    launch(wanted, mark)
    return "restarted" if running else "started"


def launch(wanted: Start, mark: str) -> None:
    """Starts the process in its own session and notices when it dies at once."""
    wanted.pidfile.parent.mkdir(parents=True, exist_ok=True)
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
    with wanted.log.open("ab") as log:
        try:
            child = subprocess.Popen(
                wanted.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=wanted.cwd,
                env=inherited | wanted.environment | {MARK: str(wanted.pidfile)},
                start_new_session=True,
            )
        except OSError as error:
            raise DaemonError(f"{wanted.name} cannot be started: {error}") from error
    found = read_process(child.pid)
    if found:
        write_record(wanted.pidfile, Record(found, mark, wanted.name, wanted.log, tuple(wanted.ports)))
    try:
        code = child.wait(wanted.settle_s)
    except subprocess.TimeoutExpired:
        return
    wanted.pidfile.unlink(missing_ok=True)
    raise DaemonError(f"{wanted.name} ended at once with code {code}{log_tail(wanted.log)}")


def check(name: str, pidfile: Path, ports: list[str], mark: str) -> str:
    """``running`` as wanted, ``outdated`` or ``stopped``; a port that a stopped daemon needs must be free."""
    record = read_record(pidfile)
    if record:
        bound(record.log)
    if record and record.process.alive():
        return "running" if record.fingerprint == mark else "outdated"
    for endpoint in ports:
        require_free_port(name, endpoint)
    return "stopped"


def await_ports(pidfiles: list[Path], seconds: float) -> None:
    """Returns when all daemons answer on all their ports; fails as soon as one of them is dead."""
    deadline = time.monotonic() + seconds
    records = [record for record in map(read_record, pidfiles) if record]
    waiting = [(record, endpoint) for record in records for endpoint in record.ports]
    while True:
        for record in records:
            if not record.process.alive():
                raise DaemonError(f"{record.name} has ended{log_tail(record.log)}")
        waiting = [(record, endpoint) for record, endpoint in waiting if not answers(endpoint)]
        if not waiting:
            return
        if time.monotonic() >= deadline:
            record, endpoint = waiting[0]
            what = f"{record.name} does not answer on {endpoint} after {seconds:g} s"
            raise DaemonError(what + log_tail(record.log))
        time.sleep(POLL_S)


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text!r}")
    return key, value


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="strata-daemon", description=(__doc__ or "").splitlines()[0])
    verbs = top.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text)

    one = verb("start", "Start a daemon, or restart it when what is wanted has changed.")
    one.add_argument("name")
    one.add_argument("--pidfile", type=Path, required=True)
    one.add_argument("--log", type=Path, required=True)
    one.add_argument("--cwd", type=Path, default=Path("/"))
    one.add_argument("--port", action="append", default=[], metavar="ADDR:PORT", help="must be free")
    one.add_argument("--env", action="append", default=[], type=key_value, metavar="KEY=VALUE")
    one.add_argument("--watch", action="append", default=[], type=Path, metavar="FILE", help="change = restart")
    one.add_argument("--settle", type=float, default=0.2, metavar="S", help="an end within S seconds is a failure")
    one.add_argument("--grace", type=float, default=30.0, metavar="S", help="time for an orderly end")
    one.add_argument("command", nargs="+", metavar="-- COMMAND")

    noted = verb("note", "Write the pid file of a daemon that systemd has started.")
    noted.add_argument("name")
    noted.add_argument("pid", type=int)
    noted.add_argument("--pidfile", type=Path, required=True)
    noted.add_argument("--log", type=Path, required=True)
    noted.add_argument("--port", action="append", default=[], metavar="ADDR:PORT")
    noted.add_argument("--watch", action="append", default=[], type=Path, metavar="FILE")

    checked = verb("check", "Say whether a daemon of systemd runs as wanted; fails when it has lost its port.")
    checked.add_argument("name")
    checked.add_argument("--pidfile", type=Path, required=True)
    checked.add_argument("--port", action="append", default=[], metavar="ADDR:PORT")
    checked.add_argument("--watch", action="append", default=[], type=Path, metavar="FILE")

    awaited = verb("wait", "Wait until daemons answer on their ports.")
    awaited.add_argument("--pidfile", action="append", default=[], type=Path)
    awaited.add_argument("--all", type=Path, metavar="DIR", help="every pid file in a folder")
    awaited.add_argument("--timeout", type=float, default=60.0, metavar="S")

    ended = verb("stop", "Stop daemons: TERM, wait, KILL.")
    ended.add_argument("--pidfile", action="append", default=[], type=Path)
    ended.add_argument("--all", type=Path, metavar="DIR", help="every pid file in a folder")
    ended.add_argument("--grace", type=float, default=30.0, metavar="S")

    shown = verb("status", "Say whether a daemon runs; exit code 1 when not.")
    shown.add_argument("--pidfile", type=Path, required=True)
    return top


def run_start(options: argparse.Namespace) -> dict[str, object]:
    state = start(
        Start(
            name=options.name,
            pidfile=options.pidfile,
            log=options.log,
            cwd=options.cwd,
            ports=options.port,
            environment=dict(options.env),
            watched=options.watch,
            command=options.command,
            settle_s=options.settle,
            grace_s=options.grace,
        )
    )
    return {"changed": state != "running", "state": state}


def run_note(options: argparse.Namespace) -> dict[str, object]:
    process = read_process(options.pid) or Process(options.pid, 0)
    mark = fingerprint_of([], {}, Path(), options.watch)
    bound(options.log)
    options.pidfile.parent.mkdir(parents=True, exist_ok=True)
    write_record(options.pidfile, Record(process, mark, options.name, options.log, tuple(options.port)))
    return {"changed": True, "state": "noted"}


def run_check(options: argparse.Namespace) -> dict[str, object]:
    mark = fingerprint_of([], {}, Path(), options.watch)
    return {"changed": False, "state": check(options.name, options.pidfile, options.port, mark)}


def pidfiles_of(options: argparse.Namespace) -> list[Path]:
    return [*options.pidfile, *(sorted(options.all.glob("*.pid")) if options.all else ())]


def run_wait(options: argparse.Namespace) -> dict[str, object]:
    await_ports(pidfiles_of(options), options.timeout)
    return {"changed": False, "state": "running"}


def run_stop(options: argparse.Namespace) -> dict[str, object]:
    return {"changed": stop(pidfiles_of(options), options.all, options.grace), "state": "stopped"}


def run_status(options: argparse.Namespace) -> dict[str, object]:
    record = read_record(options.pidfile)
    if record is None or not record.process.alive():
        raise DaemonError(f"not running: {options.pidfile}")
    return {"changed": False, "state": "running", "pid": record.process.pid}


VERBS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "start": run_start,
    "note": run_note,
    "check": run_check,
    "wait": run_wait,
    "stop": run_stop,
    "status": run_status,
}


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        print(json.dumps(VERBS[options.verb](options)))
    except (DaemonError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
