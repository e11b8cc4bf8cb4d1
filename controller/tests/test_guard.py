"""The guard against a controller that ends in each possible way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Runs `guarded(work, recover)` in a process of its own; ``body`` is the work's."""
    return subprocess.run([sys.executable, "-c", program(body)], capture_output=True, text=True, check=False)


def program(body: str) -> str:
    head = """
        import os, signal, sys, time
        from pathlib import Path
        from controller.guard import guarded
        def recover(folder, why):
            print("recovered", folder, why, flush=True)
            return 4
        def work(announce):
    """
    return textwrap.dedent(head) + textwrap.indent(textwrap.dedent(body), "    ") + "\nsys.exit(guarded(work, recover))"


def test_the_exit_code_is_the_works() -> None:
    assert run("announce(Path('/run')); return 5").returncode == 5


def test_of_several_runs_the_last_is_recovered() -> None:
    answer = run("announce(Path('/first')); announce(Path('/second')); os.kill(os.getpid(), signal.SIGKILL)")
    assert answer.stdout == "recovered /second the controller was killed (SIGKILL)\n"


def test_a_killed_controller_is_recovered() -> None:
    answer = run("announce(Path('/run')); os.kill(os.getpid(), signal.SIGKILL)")
    assert (answer.returncode, answer.stdout) == (4, "recovered /run the controller was killed (SIGKILL)\n")


def test_killed_before_there_was_a_run() -> None:
    answer = run("os.kill(os.getpid(), signal.SIGKILL)")
    assert (answer.returncode, answer.stdout) == (4, "recovered None the controller was killed (SIGKILL)\n")


def test_a_defect_is_cleaned_up_after_too() -> None:
    answer = run("announce(Path('/run')); raise ValueError('this one')")
    assert answer.returncode == 4
    assert answer.stdout.startswith("recovered /run the controller ended by a defect")
    assert "this one" in answer.stderr


def test_an_expected_error_needs_no_recovery() -> None:
    answer = run("from controller.errors import DeployError; raise DeployError('no port')")
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "", "strata: no port\n")


def test_a_killed_guard_ends_its_controller(tmp_path: Path) -> None:
    body = f"""
        signal.signal(signal.SIGTERM, lambda *_: (Path({str(tmp_path / "ended")!r}).touch(), os._exit(0)))
        Path({str(tmp_path / "started")!r}).write_text(str(os.getpid()))
        time.sleep(60)
    """
    guard = subprocess.Popen([sys.executable, "-c", program(body)])
    await_file(tmp_path / "started")
    os.kill(guard.pid, signal.SIGKILL)
    guard.wait(10)
    assert await_file(tmp_path / "ended")


def await_file(path: Path) -> bool:
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path.exists()
