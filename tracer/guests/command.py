"""Running other programs; and the one error that means "not on this machine"."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 180
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stratabench" / "guests"


class UnavailableError(Exception):
    """This machine cannot run guests; the text says what is missing and what to do."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a tool and returns its output; an UnavailableError holds what it said last when it fails."""
    words = [str(word) for word in command]
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            words, check=True, capture_output=True, text=True, cwd=cwd, timeout=TIMEOUT_S, env=environment
        )
    except FileNotFoundError:
        raise UnavailableError(f"{words[0]}: not installed") from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{words[0]}: no end after {TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        said = [line for line in (error.stderr or error.stdout).splitlines() if line.strip()][-3:]
        plain = " ".join(word for word in words if not word.startswith("-"))
        raise UnavailableError(f"{plain}: {' / '.join(said)}") from None
    return done.stdout
