"""Standard output and error that are full, closed, or left by their reader: exit codes and words stay right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.results.store import RunStore

FULL = "standard output cannot be written: No space left on device"
CLOSED = "standard output cannot be written: Bad file descriptor"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = RunStore.create(folder, "synthetic")
    store.write_manifest({"experiment": "synthetic", "status": "complete"})
    return folder


def shell(command: str, results: Path) -> tuple[int, str, str]:
    """``strata`` in a shell with a pipe's failure as its own: exit code, standard output, standard error."""
    strata = f"{sys.executable} -m controller.cli"
    script = f"set -o pipefail; {command.replace('strata', strata)}"
    environment = os.environ | {"RESULTS": str(results)}
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=environment)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("strata list --output $RESULTS > /dev/full", 4, FULL),
        ("strata show --output $RESULTS --format json > /dev/full", 4, FULL),
        ("strata plan demo > /dev/full", 4, FULL),
        ("strata list --output $RESULTS >&-", 4, CLOSED),
        ("strata validate demo >&-", 4, CLOSED),
        ("strata list --output $RESULTS | true", 141, ""),
        ("strata list --output /nowhere >&-", 2, "no results in /nowhere"),
    ],
)
def test_a_result_that_does_not_get_there(results: Path, command: str, code: int, words: str) -> None:
    found, _, said = shell(command, results)
    assert found == code, said
    assert words in said if words else not said
    assert "Traceback" not in said and "Exception ignored" not in said


@pytest.mark.parametrize("stderr", ["2>&-", "2> /dev/full", "2> >(true)"])
def test_what_nobody_can_be_told_changes_neither_results_nor_exit_codes(results: Path, stderr: str) -> None:
    code, rows, _ = shell(f"strata list --output $RESULTS --format csv {stderr}", results)
    assert (code, rows.splitlines()[0]) == (0, "run,experiment,status,tags")
    assert shell(f"strata list --output /nowhere {stderr}", results)[:2] == (2, "")


def test_progress_that_cannot_be_shown_ends_nothing() -> None:
    """As of a run whose terminal has gone, or whose log is full."""
    script = (
        "from controller.progress import Progress; p = Progress(); p.line('a'); p.status('b'); p.end(); print('on')"
    )
    for stderr in ("2>&-", "2> /dev/full"):
        command = f'{sys.executable} -c "from controller.streams import reopen; reopen(); {script}" {stderr}'
        answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stdout) == (0, "on\n")


def test_why_a_run_has_failed_is_said_also_when_its_summary_cannot_be(results: Path) -> None:
    script = (
        "from controller import cli; from controller.errors import DataError;"
        "cli._doctor = lambda _: cli._last_screen('table', DataError('a client was killed'));"
        "raise SystemExit(cli.main(['doctor']))"
    )
    code, _, said = shell(f'{sys.executable} -c "{script}" > /dev/full', results)
    assert code == 4
    assert "a client was killed" in said and FULL in said
