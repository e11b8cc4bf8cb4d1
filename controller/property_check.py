"""What the workloads' properties hold, judged before anything is deployed by who will read them, the load client.

Its option ``-check`` does all that a phase does before it connects (docs/interfaces.md). None of its rules stands here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from controller.databases import make_database
from controller.errors import ConfigError, DeployError
from controller.inventory import Inventory
from controller.plan import Plan, PlannedPhase

CLIENT = Path(__file__).resolve().parent.parent / "ycsb-fork" / "bin" / "ycsb"
_LIMIT_S = 60
_REFUSED = 2


def check_properties(plan: Plan, inventory: Inventory, state_dir: Path, *, client: Path = CLIENT) -> list[str]:
    """ConfigError with all that the client refuses; DeployError when it cannot be asked on this machine. Returns which
    files could not be looked at because they are to lie on the clients' machines."""
    settings = make_database(inventory, plan.database.settings, state_dir).settings()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(partial(_ask, client, plan.database.binding, settings), plan.phases))
    refused: dict[tuple[str, str], list[str]] = {}
    unseen: dict[tuple[str, str], list[str]] = {}
    here = all(node.is_local for node in inventory.clients)
    for phase, lines in zip(plan.phases, answers, strict=True):
        workload = phase.name.removesuffix(f"-{phase.kind}")
        for line in lines:
            kind, _, message = line.partition(": ")
            found = unseen if kind == "warning" and not here else refused
            found.setdefault((workload, message), []).append(phase.kind)
    if refused:
        raise ConfigError(
            "\n  ".join(["the load client refuses properties:", *_lines(refused)]),
            hint="change them in the experiment or in the workload's file; ycsb-fork/README.md lists them",
        )
    return _lines(unseen)


def _lines(found: Mapping[tuple[str, str], list[str]]) -> list[str]:
    return [f"workload {name} ({', '.join(kinds)}): {message}" for (name, message), kinds in found.items()]


def _ask(client: Path, binding: str, settings: Mapping[str, str], phase: PlannedPhase) -> list[str]:
    """The client's lines ``error: ...`` (wrong) and ``warning: ...`` (a file that is not there) on a phase."""
    shard = max(phase.shards, key=lambda shard: shard.threads)  # the others differ in a thread and an operation at most
    command = [str(client), phase.kind, binding, "-check", "-P", "/dev/stdin", "-threads", str(shard.threads)]
    command += ["-shard", f"{shard.shard}/{shard.shards}"]
    if shard.target_ops_per_s:
        command += ["-target", repr(shard.target_ops_per_s)]
    # Not in the arguments, which everybody on the machine can read, nor in a file: a token may be among them.
    properties = {**settings, **phase.client_properties(shard)}
    text = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())
    try:
        # An agent's client starts in a folder of its own, where the name of a file without a folder leads nowhere.
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeployError(f"the load client cannot be asked: {error}", hint="build it first: make setup") from error
    said = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "warning: "))]
    refused = done.returncode == _REFUSED and bool(said) and "unknown option -check" not in said[0]
    if done.returncode != 0 and not refused:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1].removeprefix("error: ")
        raise DeployError(f"the load client cannot be asked: {last}", hint="build it first: make setup")
    return said


def _escaped(text: str) -> str:
    """Any text as java.util.Properties reads it back: each unit of UTF-16 by its number."""
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
