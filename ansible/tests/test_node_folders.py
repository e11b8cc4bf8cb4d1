"""A node's folders, as the system itself tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "roles/common/files/node_folders.py"


def folders(*wanted: dict[str, str], check: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *(["--check"] if check else []), json.dumps(wanted)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def changed(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["changed"] is bool(answer["folders"])
    return list(answer["folders"])


def told(path: Path) -> str:
    return subprocess.run(["stat", "-c", "%U %a", path], capture_output=True, text=True, check=True).stdout.strip()


def test_once_is_enough(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        root, private = tmp_path / "a" / "root", tmp_path / "a" / "root" / "private"
        wanted = ({"path": str(root), "mode": "0755", "marker": ".mine"}, {"path": str(private), "mode": "0750"})
        assert changed(folders(*wanted, check=True)) == [str(root), str(private)]
        assert list(tmp_path.iterdir()) == []
        assert changed(folders(*wanted)) == [str(root), str(private)]
        assert [told(path).split()[1] for path in (root, private, root / ".mine")] == ["755", "750", "644"]
        assert changed(folders(*wanted)) == changed(folders(*wanted, check=True)) == []
    finally:
        os.umask(umask)


def test_what_has_changed_meanwhile_is_put_right(tmp_path: Path) -> None:
    wanted = {"path": str(tmp_path / "x"), "mode": "0755", "marker": ".mine"}
    folders(wanted)
    (tmp_path / "x").chmod(0o700)
    assert changed(folders(wanted, check=True)) == [wanted["path"]]
    assert changed(folders(wanted)) == [wanted["path"]]
    assert told(tmp_path / "x").split()[1] == "755"
    (tmp_path / "x" / ".mine").unlink()
    assert changed(folders(wanted)) == [wanted["path"]]
    assert (tmp_path / "x" / ".mine").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_whose_they_are(tmp_path: Path) -> None:
    wanted = {"path": str(tmp_path / "x"), "mode": "0750", "user": "nobody"}
    assert changed(folders(wanted)) == [wanted["path"]]
    assert told(tmp_path / "x") == "nobody 750"
    assert changed(folders(wanted)) == []


def test_a_user_who_is_missing(tmp_path: Path) -> None:
    wanted = {"path": str(tmp_path / "x"), "mode": "0750", "user": "strata-nobody"}
    assert changed(folders(wanted, check=True)) == [wanted["path"]]
    done = folders(wanted)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no user" in done.stderr and "strata-nobody" in done.stderr


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    done = folders({"path": str(tmp_path / "x" / "y"), "mode": "0755"})
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path}/x/y: Not a directory\n"
