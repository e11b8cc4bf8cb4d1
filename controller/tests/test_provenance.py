"""The revision of the source, against git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller import provenance


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_revision_is_the_commit_and_says_what_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "controller" / "provenance.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    monkeypatch.setattr(provenance, "__file__", str(source))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.git_revision() is None, "installed from an archive"
    git(tmp_path, "init", "-q")
    assert provenance.git_revision() is None, "nothing is committed"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    git(tmp_path, "tag", "-am", "x", "v1")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.git_revision() == commit and len(commit) == 40
    source.write_text("x = 2\n")
    assert provenance.git_revision() == f"{commit}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_revision() is None, "git is not there"


def test_a_version_that_no_node_tells_is_empty() -> None:
    database: Any = SimpleNamespace(name="hbase", version="2.6.4")
    found = provenance.versions(database, {"node1": {"java": "17", "kernel": "6.1"}, "node2": {"java": None}})
    assert {name: found[name] for name in ("hbase", "java", "kernel")} == {
        "hbase": "2.6.4",
        "java": {"node1": "17", "node2": None},
        "kernel": {"node1": "6.1", "node2": None},
    }
