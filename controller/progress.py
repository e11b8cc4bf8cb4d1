"""Progress on stderr: one line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from controller.streams import write

_PLAIN_EVERY_S = 5.0


class Progress:
    """``line`` is kept on the screen; ``status`` is replaced by the next one (elsewhere: printed now and then)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._started = time.monotonic()
        self._last_plain = 0.0

    def line(self, text: str) -> None:
        """A line of the run's story, with the time since the start."""
        self._write(f"{self._clock()} {text}", end="\n")

    def status(self, text: str) -> None:
        """What happens right now."""
        now = time.monotonic()
        if self._terminal:
            # A longer line would wrap, and only its last row could be replaced.
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{self._clock()} {text}"[:width], end="")
        elif now - self._last_plain >= _PLAIN_EVERY_S:
            self._last_plain = now
            self._write(f"{self._clock()} {text}", end="\n")

    def end(self) -> None:
        """Takes the last status off the terminal: what comes now is the result."""
        if self._terminal:
            self._write("", end="")

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"[{minutes:02}:{seconds:02}]"

    def _write(self, text: str, end: str) -> None:
        clear = "\r\x1b[2K" if self._terminal else ""
        write(self._stream, f"{clear}{text}{end}")
