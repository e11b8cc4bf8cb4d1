"""The preflight check names everything that is missing, in one message."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


def check(preflight: ModuleType, folder: Path, *options: str) -> int:
    return int(preflight.main(["--folder", str(folder), "--address", "127.0.0.1", *options]))


def test_a_fit_node_passes_silently(preflight: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enough = ("--disk-mb", "1", "--memory-mb", "1", "--python", sys.executable)
    assert check(preflight, tmp_path / "nodes" / "node1", *enough) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--java", "no-such-java"], "install openjdk-17"),
        (["--java-version", "99"], "Java 99 or newer is needed"),
        (["--python", "no-such-python"], "name it by agent_python"),
        (["--python", sys.executable, "--python-version", "99.0"], "Python 99.0 or newer is needed by the agent"),
        (["--python", "true"], "true is of unknown version"),
        (["--address", "192.0.2.7"], "192.0.2.7 is not an address of this node"),
        (["--disk-mb", "999999999"], "disk full"),
        (["--memory-mb", "999999999"], "of memory are needed"),
    ],
)
def test_what_is_missing_is_named(
    preflight: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    expected: str,
) -> None:
    assert check(preflight, tmp_path, *options) == 1
    assert expected in capsys.readouterr().err


def test_everything_is_named_at_once(preflight: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(preflight, tmp_path, "--java", "no-such-java", "--disk-mb", "999999999") == 1
    message = capsys.readouterr().err
    assert "openjdk" in message
    assert "disk full" in message
    assert message.count("\n") == 1


def test_a_deployed_node_is_not_asked_for_free_space(preflight: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "zookeeper.pid").touch()
    assert check(preflight, tmp_path, "--disk-mb", "999999999", "--memory-mb", "999999999") == 0


def test_a_file_in_the_way_is_named(preflight: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nodes").touch()
    assert check(preflight, tmp_path / "nodes" / "node1") == 1
    assert "not a folder" in capsys.readouterr().err


def test_a_folder_of_somebody_else_is_refused(
    preflight: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    assert check(preflight, tmp_path, "--own", str(folder)) == 0
    folder.mkdir()
    assert check(preflight, tmp_path, "--own", str(folder)) == 0
    (folder / "thesis.tex").touch()
    assert check(preflight, tmp_path, "--own", str(folder)) == 1
    assert f"{folder} is not empty and not ours" in capsys.readouterr().err
    (folder / preflight.MARKER).touch()
    assert check(preflight, tmp_path, "--own", str(folder)) == 0
    assert check(preflight, tmp_path, "--own", "/nonexistent") == 1
    assert "choose one below it" in capsys.readouterr().err
    for relative in ("~/my/data", "var/lib/stratabench"):
        assert check(preflight, tmp_path, "--own", relative) == 1
        assert f"{relative} is no absolute path" in capsys.readouterr().err


def test_java_is_not_asked_for_where_a_role_brings_it(preflight: ModuleType, tmp_path: Path) -> None:
    assert check(preflight, tmp_path, "--java", "", "--java-version", "99") == 0


@pytest.mark.parametrize("old", ["python3", "of Ansible"])
def test_a_python_that_is_too_old_for_our_scripts_is_named(
    old: str, preflight: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho 3.8\n", encoding="utf-8")
    program.chmod(0o755)
    if old == "python3":
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    else:
        monkeypatch.setattr(preflight.sys, "executable", str(program))
    assert check(preflight, tmp_path) == 1
    assert capsys.readouterr().err == (
        f"Python 3.9 or newer is needed on a node, {program if old == 'of Ansible' else old} is 3.8\n"
    )
