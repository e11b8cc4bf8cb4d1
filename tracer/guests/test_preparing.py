"""What the guests are made of: what cannot be made is no success, and fits together. Without any guest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tracer.guests import __main__ as by_hand
from tracer.guests import job, kernels
from tracer.guests.command import UnavailableError
from tracer.guests.job import BuildError, build, compile_bcc
from tracer.guests.kernels import KERNELS, prepare_headers
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


class Archive:
    """Of packages with headers, in the place of Debian's."""

    def __init__(self, releases: Sequence[str]) -> None:
        self.releases = releases
        self.fetched: list[str] = []

    def packages(self) -> list[str]:
        return [f"linux-image-{release}" for release in self.releases]

    def download(self, _apt: object, package: str) -> Path:
        self.fetched.append(package)
        return Path(package)

    def unpack(self, *command: str | Path) -> str:
        package, tree = str(command[-2]), Path(command[-1])
        generated = tree / "usr/src" / package / "include/generated"
        generated.mkdir(parents=True)
        (generated / "utsrelease.h").write_text(f'#define UTS_RELEASE "{package.removeprefix("linux-headers-")}"\n')
        return ""


def release_of(headers: Path) -> str:
    return (headers / "include/generated/utsrelease.h").read_text().split('"')[1]


def test_headers_are_those_of_the_kernel_that_is_booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel in the cache is an older one than the archive has, or has been renewed since the headers came."""
    archive = Archive(["6.1.0-50-amd64", "6.1.0-51-amd64"])
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    monkeypatch.setattr(kernels, "open_apt", lambda *_: archive)
    monkeypatch.setattr(kernels, "download", archive.download)
    monkeypatch.setattr(kernels, "run", archive.unpack)
    for release in ("6.1.0-50-amd64", "6.1.0-51-amd64"):
        assert release_of(prepare_headers(KERNELS["6.1"], release)) == release
        assert [name.removeprefix("linux-headers-") for name in archive.fetched[-2:]] == [
            f"{release.removesuffix('amd64')}common",
            release,
        ]
        fetched = len(archive.fetched)
        assert release_of(prepare_headers(KERNELS["6.1"], release)) == release
        assert release_of(prepare_headers(KERNELS["6.1"])) == release
        assert len(archive.fetched) == fetched, "once"
