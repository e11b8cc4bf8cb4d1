"""Progress as a terminal and as a log file see it."""

from __future__ import annotations

import io
import re

import pytest

from controller.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """What is on the screen: a carriage return and an erased line begin the row again."""
        return [re.split(r"\r\x1b\[2K", row)[-1] for row in self.getvalue().split("\n")]


def test_a_terminal_shows_the_last_status_below_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = Terminal()
    progress = Progress(screen)
    progress.line("deployed")
    progress.status("loading " + "x" * 100)
    progress.status("running")
    assert screen.rows() == ["[00:00] deployed", "[00:00] running"]
    progress.end()
    assert screen.rows() == ["[00:00] deployed", ""], "the result does not begin behind a status"
    assert all(len(row) < 30 for row in re.split(r"\r\x1b\[2K|\n", screen.getvalue())), "a wrapped row stays for ever"


def test_a_log_gets_lines_and_a_status_now_and_then() -> None:
    log = io.StringIO()
    progress = Progress(log)
    for _ in range(100):
        progress.status("running")
    progress.line("done")
    assert len(log.getvalue().splitlines()) <= 2
    assert log.getvalue().endswith("[00:00] done\n")
    assert "\x1b" not in log.getvalue()
