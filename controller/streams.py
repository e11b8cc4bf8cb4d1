"""Standard output and error, which may be closed, full, or left by their reader."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from controller.errors import OutputError, ReaderLeftError, StrataError


def reopen() -> None:
    """Opens what was closed, so that no other file gets its number. Output that would go nowhere still fails."""
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def result(text: object) -> None:
    """Writes to standard output what was asked for, or raises ReaderLeftError or OutputError."""
    try:
        print(text, flush=True)
    except BrokenPipeError as error:
        _give_up(sys.stdout)
        raise ReaderLeftError("nobody reads the output any more") from error
    except OSError as error:
        _give_up(sys.stdout)
        raise OutputError(
            f"standard output cannot be written: {error.strerror}",
            hint="send it elsewhere; what a run has found `strata show` prints again",
        ) from error


def tell(text: str) -> None:
    """A line on standard error."""
    write(sys.stderr, f"{text}\n")


def write(stream: TextIO, text: str) -> None:
    """Writes what is of use only while somebody sees it: that nobody can ends nothing."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _give_up(stream)


def complain(error: StrataError) -> int:
    """Says what failed and what to do; returns the exit code. A reader who has left has seen enough."""
    if not isinstance(error, ReaderLeftError):
        tell(f"strata: {error}")
    return error.exit_code


def _give_up(stream: TextIO) -> None:
    """What is buffered, and what comes later, goes nowhere: else Python would try again at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
