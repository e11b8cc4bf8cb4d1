# SPDX-License-Identifier: Apache-2.0
"""Running the machine's tools: one error for all that fails, with what the tool said."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping

# Administrators' tools are not in every user's PATH.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class TestbedError(Exception):
    """Something that the user can act on, said in one message."""

    __test__ = False  # pytest would take it for a test, by its name


def run(*command: object, stdin: str = "", environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a tool. TestbedError with the last lines of what it said when it fails."""
    words = [str(word) for word in command]
    wanted = os.environ | {"PATH": PATH, "LC_ALL": "C"} | dict(environment or {})
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, env=wanted)
    except OSError as error:
        raise TestbedError(f"{words[0]} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise TestbedError(f"{' '.join(words[:6])}: {' / '.join(said[-3:])}")
    return done.stdout


def attempt(*command: object) -> bool:
    """Runs a tool whose failure is an answer too: what should go may have gone already."""
    try:
        run(*command)
    except TestbedError:
        return False
    return True


def await_true(what: str, condition: Callable[[], object], seconds: float, poll_s: float = 0.05) -> None:
    """Returns when the condition holds; TestbedError naming ``what`` when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what}: not within {seconds:g} s")
        time.sleep(poll_s)
