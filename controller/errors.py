"""Every error a user can meet: one class per exit code, one sentence each for what, where, why and what to do."""

from __future__ import annotations

import signal


class StrataError(Exception):
    """An expected failure. ``exit_code`` is the process's; ``hint`` says what the user can do."""

    exit_code = 4

    def __init__(self, what: str, *, node: str | None = None, log: str | None = None, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.node = node
        self.log = log
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.node}: " if self.node else ""
        lines = [f"{where}{self.what}"]
        if self.log:
            lines.append(f"  log: {self.log}")
        if self.hint:
            lines.append(f"  do: {self.hint}")
        return "\n".join(lines)


class ThresholdError(StrataError):
    """A ``--fail-on`` condition holds, and every other one could be checked."""

    exit_code = 1


class ConfigError(StrataError):
    """The experiment, the inventory or the command line is wrong."""

    exit_code = 2


class DeployError(StrataError):
    """A preflight check or the deployment failed; nothing has been measured."""

    exit_code = 3


class RunError(StrataError):
    """The run was started and could not be finished."""

    exit_code = 4


class DataError(StrataError):
    """The results are incomplete or contradict each other."""

    exit_code = 5


class InterruptedRunError(RunError):
    """Somebody pressed Ctrl-C or sent TERM: probes are detached, partial results kept."""

    exit_code = 130


class OutputError(StrataError):
    """What was asked for could not be printed."""


class ReaderLeftError(OutputError):
    """Whoever read our output has seen enough (`| head`). The exit code is a shell's for SIGPIPE."""

    exit_code = 128 + signal.SIGPIPE
