"""A run must end in order even when its controller is killed: a guard process outlives it and cleans up.

``strata run`` forks: the child does the work, the parent waits. When the child is killed (out of memory, `kill -9`)
or ends by a defect of ours, the parent takes over with ``recover``. When the parent is killed, the kernel sends the
child TERM (prctl(2), PR_SET_PDEATHSIG), which ends the run like any other interruption.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from controller.errors import StrataError
from controller.streams import complain, tell

_PR_SET_PDEATHSIG = 1
_DEFECT = 70  # EX_SOFTWARE of sysexits.h; none of our own codes
Announce = Callable[[Path], None]


def guarded(work: Callable[[Announce], int], recover: Callable[[Path | None, str], int]) -> int:
    """Exit code of ``work(announce)``, run in a child process, or of ``recover(run_folder, why)`` if it was killed.

    ``work`` calls ``announce`` with the run's folder as soon as there is one; with several runs, the last one counts.
    """
    reading, writing = os.pipe()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_work(work, writing, guard))
    os.close(writing)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal's Ctrl-C reaches the child by itself; TERM and HUP are sent to the guard only.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else lambda n, _: _forward(child, n))
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        folder = (pipe.read().splitlines() or [""])[-1]
    if os.WIFSIGNALED(status):
        why = f"the controller was killed ({signal.Signals(os.WTERMSIG(status)).name})"
    elif os.WEXITSTATUS(status) == _DEFECT:
        why = "the controller ended by a defect of its own (traceback above)"
    else:
        return os.WEXITSTATUS(status)
    return recover(Path(folder) if folder else None, why)


def _work(work: Callable[[Announce], int], writing: int, guard: int) -> int:
    # TERM is an interruption like Ctrl-C: what was begun is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != guard:  # it died before prctl
        return 130

    def announce(folder: Path) -> None:
        os.write(writing, f"{folder}\n".encode())

    try:
        return work(announce)
    except KeyboardInterrupt:
        tell("strata: interrupted while cleaning up; `strata destroy` takes down what is left")
        return 130
    except StrataError as error:
        return complain(error)
    except BaseException:
        tell(traceback.format_exc())
        return _DEFECT


def _forward(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return
