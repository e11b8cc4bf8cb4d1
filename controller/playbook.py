"""Runs one of our playbooks by ansible-runner: events become progress lines, failures one DeployError."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from controller import ansible_environment
from controller.errors import DeployError
from controller.inventory import Inventory

Progress = Callable[[str], None]

# What a long message is cut to: what happened stands first, and the log holds all of it.
MESSAGE_CHARS = 2000


@dataclass
class Events:
    """What ansible-runner tells while a playbook runs."""

    verb: str
    progress: Progress
    changes: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    _task: str = ""
    _nodes: list[str] = field(default_factory=list)

    def __call__(self, event: Mapping[str, Any]) -> bool:
        """One event; True keeps it in the runner's record."""
        kind = str(event.get("event", ""))
        data = event.get("event_data", {})
        node, task = str(data.get("host", "")), str(data.get("task", ""))
        result = data.get("res") or {}
        if kind in ("playbook_on_task_start", "playbook_on_stats"):
            self._report()
            self._task = task
        elif kind == "runner_on_ok" and result.get("changed"):
            self.changes.append((node, task))
            self._nodes.append(node)
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            self.failures.append((node, task, message_of(result)))
        elif kind == "runner_on_unreachable":
            self.failures.append((node, "reach the node", f"unreachable: {message_of(result)}"))
        return True

    def _report(self) -> None:
        """One line for a task and all nodes that it changed."""
        if self._nodes:
            self.progress(f"{self.verb}: {', '.join(sorted(self._nodes))}: {decapitalised(self._task)}")
        self._nodes.clear()


def decapitalised(text: str) -> str:
    """A task's name in the middle of a line."""
    return text[:1].lower() + text[1:]


def message_of(result: Mapping[str, Any]) -> str:
    """What went wrong, from a task's result: our scripts write one message to standard error."""
    failed = next((item for item in result.get("results") or () if item.get("failed")), None)
    if failed is not None:
        return message_of(failed)
    if "argument_errors" in result:
        return "; ".join(str(error) for error in result["argument_errors"])
    stderr = str(result.get("stderr") or "").strip()
    text = stderr or str(result.get("msg") or "").strip() or str(result.get("stdout") or "").strip() or "no message"
    return text[:MESSAGE_CHARS]


def run_playbook(
    name: str,
    inventory: Inventory,
    variables: Mapping[str, Any],
    *,
    verb: str,
    state_dir: Path,
    progress: Progress,
    limit: Sequence[str] = (),
    tags: str | None = None,
) -> list[tuple[str, str]]:
    """Runs ``ansible/playbooks/NAME.yml``; returns node and task of each change, or DeployError."""
    events = Events(verb, progress)
    private = state_dir / "ansible"
    log = state_dir / f"{verb}.log"
    shutil.rmtree(private, ignore_errors=True)
    private.mkdir(parents=True)
    hosts = inventory.path / "hosts.yml" if inventory.path.is_dir() else inventory.path
    try:
        with _signals_restored(), _environment_of_ansible():
            outcome = ansible_runner.run(
                private_data_dir=str(private),
                project_dir=str(ansible_environment.ANSIBLE_DIR / "playbooks"),
                playbook=f"{name}.yml",
                inventory=str(hosts),
                extravars=dict(variables),
                limit=",".join(limit) or None,
                tags=tags,
                event_handler=events,
                quiet=True,
                suppress_env_files=True,
                ident="run",
                rotate_artifacts=1,
            )
        _keep_log(private / "artifacts" / "run" / "stdout", log)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    if outcome.status == "canceled":
        raise KeyboardInterrupt
    if events.failures or outcome.status != "successful":
        raise _error(verb, events, str(outcome.status), log)
    return events.changes


@contextlib.contextmanager
def _signals_restored() -> Iterator[None]:
    """ansible-runner takes SIGINT and SIGTERM over to cancel its playbook, and keeps them."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _environment_of_ansible() -> Iterator[None]:
    """ansible-runner hands our environment on: it can be told what to add, and not what to leave out."""
    before = dict(os.environ)
    wanted = ansible_environment.environment()
    try:
        os.environ.clear()
        os.environ.update(wanted)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _keep_log(stdout: Path, log: Path) -> None:
    if stdout.exists():
        text = stdout.read_text(encoding="utf-8", errors="replace")
        log.write_text(re.sub(r"\x1b\[[0-9;]*m", "", text), encoding="utf-8")


def _error(verb: str, events: Events, status: str, log: Path) -> DeployError:
    """One error for the first failure; further nodes are named, their messages are in the log."""
    if not events.failures:
        return DeployError(f"{verb} ended as {status!r} before a task failed", log=str(log), hint=RETRY_HINT)
    node, task, message = events.failures[0]
    others = sorted({other for other, _, _ in events.failures[1:]} - {node})
    also = f" (also on {', '.join(others)})" if others else ""
    return DeployError(f"{decapitalised(task)}{also}: {message}", node=node, log=str(log), hint=_hint(message))


RETRY_HINT = "read the log, mend the cause, and deploy again: what is done already stays"


def _hint(message: str) -> str:
    hints = {
        "unreachable": "check that the node is up and that ssh reaches it, then deploy again",
        "uses it": "end that process or change the port in the inventory, then deploy again",
        "disk full": "make room, or move the state folder, then deploy again",
        "No space left": "make room, or move the state folder, then deploy again",
        "is not an address of this node": "correct strata_address in the inventory",
        "Python packages could not be fetched": "check the connection to the Python package index, then deploy again",
        "could not be fetched": "check the connection to the Maven repository, then deploy again",
        "install ": "install what is missing, then deploy again",
    }
    return next((hint for mark, hint in hints.items() if mark in message), RETRY_HINT)
