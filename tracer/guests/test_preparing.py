"""What the guests are made of: what cannot be made is no success, and fits together. Without any guest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.guests import __main__ as by_hand
from tracer.guests import job
from tracer.guests.command import UnavailableError
from tracer.guests.job import BuildError, build, compile_bcc
from tracer.guests.roots import HERE

SOURCES = Path(__file__).resolve().parents[1]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is nearly empty, in the place of this one."""
    (tmp_path / "tracer" / "build").mkdir(parents=True)
    (tmp_path / "tracer" / "build" / "iotrace.bcc.c").touch()
    monkeypatch.setattr(job, "REPOSITORY", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("code", "error"), [(1, BuildError), (-11, BuildError), (3, UnavailableError)])
def test_programs_that_do_not_compile_are_a_fault_and_a_missing_library_is_none(
    code: int, error: type[Exception], repository: Path, tmp_path: Path
) -> None:
    compiler = repository / "tracer" / "build" / "strata-bcc-compile"
    ends = f"exit {code}" if code >= 0 else f"kill {code} $$"
    compiler.write_text(f"#!/bin/sh\necho 'x.c:7: error: no such field' >&2\n{ends}\n")
    compiler.chmod(0o755)
    with pytest.raises(error, match=r"x\.c:7: error: no such field"):
        compile_bcc(tmp_path, tmp_path / "out" / "compiled")


def test_the_compiler_tells_that_its_library_is_missing(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no compiler here")
    text = (SOURCES / "bcc" / "compile.c").read_text().replace("libbcc.so.0", "libbcc-that-nobody-has.so.0")
    (tmp_path / "compile.c").write_text(text)
    shutil.copy(SOURCES / "bcc" / "compiled.h", tmp_path)
    subprocess.run(["cc", "-std=gnu11", "-o", "compile", "compile.c", "-ldl"], check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "compile"], check=False, input=b"", capture_output=True)
    assert done.returncode == job.NO_LIBRARY
    assert b"libbcc-that-nobody-has" in done.stderr


@pytest.mark.parametrize(("was_built", "error"), [(False, UnavailableError), (True, BuildError)])
def test_a_tracer_that_cannot_be_built_any_more_is_a_fault(
    was_built: bool, error: type[Exception], repository: Path
) -> None:
    (repository / "tracer" / "Makefile").write_text("all:\n\t@echo 'main.c:1: error: no' >&2; false\n")
    if was_built:
        (repository / "tracer" / "build" / "strata-iotrace").touch()
    with pytest.raises(error, match=r"main\.c:1: error: no"):
        build(HERE)


@pytest.mark.parametrize(("error", "code"), [(BuildError, 1), (UnavailableError, 3)])
def test_only_what_this_machine_cannot_do_is_left_out(
    error: type[Exception], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error("for a reason")

    monkeypatch.setattr(by_hand, "run_guests", fail)
    monkeypatch.setattr(sys, "argv", ["guests", "--output", str(tmp_path)])
    assert by_hand.main() == code
