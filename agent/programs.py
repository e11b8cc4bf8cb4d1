"""From a job's specification to the command that runs it: the only commands an agent ever starts."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.api import agent_pb2 as api
from agent.config import AgentConfig
from agent.facts import block_device_of

VERBS = {"client": ("load", "run"), "admin": ("probe", "count", "flush", "drop", "status")}
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_BINDING = re.compile(r"[a-z0-9]+")


class JobRefusedError(Exception):
    """The specification asks for something that this agent does not do; the message says what."""


@dataclass(frozen=True)
class Launch:
    """A command with what the job runner must know of it."""

    kind: str
    argv: list[str]
    folder: Path
    status_file: Path | None = None
    stdout_file: Path | None = None
    # What the program gets when the agent dies: the tracer detaches in order; nobody will collect a client's files.
    death_signal: signal.Signals = signal.SIGKILL
    # Called when the program has ended; may write into the folder.
    at_end: Callable[[], None] | None = None


def plan_launch(spec: api.JobSpec, config: AgentConfig, folder: Path) -> Launch:
    """Checks ``spec`` and returns its command; ``folder`` is the job's own, already made. Raises JobRefusedError."""
    kind = spec.WhichOneof("program")
    if kind is None:
        raise JobRefusedError("the job names no program")
    program = config.programs.get(kind)
    if program is None or not program.exists():
        raise JobRefusedError(f"{kind}: no program at {program}; run `make setup` and deploy again")
    if kind == "tracer":
        return _tracer(spec.tracer, config, program, folder)
    return _client(spec.client, program, folder) if kind == "client" else _admin(spec.admin, program, folder)


def check_job_id(job_id: str) -> str:
    """A job's name is also a folder's name. Raises JobRefusedError."""
    if not _JOB_ID.fullmatch(job_id):
        raise JobRefusedError(f"job name {job_id!r}: letters, digits and '-' only")
    return job_id


def _tracer(spec: api.TracerSpec, config: AgentConfig, program: Path, folder: Path) -> Launch:
    output = folder / "io.bin"
    context = [] if spec.without_context else _context(set(spec.context_without), folder)
    calls = [] if spec.without_calls else ["--vfs"]
    pids = traced_pids(spec, config)
    argv = [str(program), "--output", str(output), "--ready-fd", "1", *calls, *context, *_filter(pids, config)]
    status = output.with_name("io.bin.json")
    at_end = partial(_note_pids, folder / "database_pids.json", pids, config.database_pidfiles) if pids else None
    return Launch("tracer", argv, folder, status_file=status, death_signal=signal.SIGTERM, at_end=at_end)


def _context(without: set[str], folder: Path) -> list[str]:
    peers = [] if "peers" in without else [f"--peers={folder}/peers.csv"]
    return [f"--context={folder}/context.csv", *(f"--without={part}" for part in sorted(without - {"peers"})), *peers]


def traced_pids(spec: api.TracerSpec, config: AgentConfig) -> dict[str, int]:
    """The database's processes, which the tracer keeps to; none: it keeps to the node's own disk."""
    if spec.by != api.TracerSpec.PROCESS:
        return {}
    if not config.database_pidfiles:  # without any --pid the tracer traces all processes
        raise JobRefusedError("tracing by process: this node names no pid file of its database")
    return {name: read_pid(path) for name, path in config.database_pidfiles.items()}


def _filter(pids: dict[str, int], config: AgentConfig) -> list[str]:
    if pids:
        return [word for pid in pids.values() for word in ("--pid", str(pid))]
    if config.data_path is None:
        raise JobRefusedError("tracing by device: this node has no database data path")
    return ["--device", block_device_of(config.data_path)]


def read_pid(pidfile: Path) -> int:
    """The first word of a pid file. Raises JobRefusedError where the process is not there."""
    try:
        pid = int(pidfile.read_text().split()[0])
    except (OSError, ValueError, IndexError) as error:
        raise JobRefusedError(f"pid file {pidfile}: {error}") from error
    if not Path(f"/proc/{pid}").exists():
        raise JobRefusedError(f"{pidfile.stem}: process {pid} is not running")
    return pid


def _note_pids(path: Path, traced: dict[str, int], pidfiles: dict[str, Path]) -> None:
    """Writes down whose I/O was traced, and who they are now: a process that was started since has no rows."""
    at_end: dict[str, int | None] = {}
    for name, pidfile in pidfiles.items():
        try:
            at_end[name] = read_pid(pidfile)
        except JobRefusedError:
            at_end[name] = None
    path.write_text(json.dumps({"traced": traced, "at_end": at_end}))


def _client(spec: api.ClientSpec, program: Path, folder: Path) -> Launch:
    properties = _properties(spec.verb, "client", spec.binding, dict(spec.properties), folder)
    argv = [str(program), spec.verb, spec.binding, "-P", str(properties), "-threads", str(spec.threads)]
    if spec.target_ops_per_s:
        argv += ["-target", repr(spec.target_ops_per_s)]
    argv += [
        "-shard",
        f"{spec.shard}/{spec.shards}",
        "-start-at",
        "stdin",
        "-output",
        str(folder),
        "-s",
        "-status-json",
    ]
    return Launch("client", argv, folder, stdout_file=folder / "stdout.log")


def _admin(spec: api.AdminSpec, program: Path, folder: Path) -> Launch:
    properties = _properties(spec.verb, "admin", spec.binding, dict(spec.properties), folder)
    return Launch("admin", [str(program), spec.binding, spec.verb, "-P", str(properties)], folder)


def _properties(verb: str, kind: str, binding: str, values: dict[str, str], folder: Path) -> Path:
    if verb not in VERBS[kind]:
        raise JobRefusedError(f"{kind}: unknown verb {verb!r} (one of {', '.join(VERBS[kind])})")
    if not _BINDING.fullmatch(binding):
        raise JobRefusedError(f"{kind}: binding name {binding!r}")
    path = folder / "job.properties"
    path.touch(mode=0o600)
    path.write_text("".join(f"{_escape(k, key=True)}={_escape(v)}\n" for k, v in sorted(values.items())))
    return path


def _escape(text: str, *, key: bool = False) -> str:
    """Escapes for ``java.util.Properties.load`` (its Javadoc has the rules)."""
    out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if key:
        return re.sub(r"([ :=#!\t\f])", r"\\\1", out)
    return "\\" + out if out.startswith((" ", "\t", "\f")) else out
