"""The program that moves regions, against what it uses of HBase's client, played (played_hbase/)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
REGIONS = HERE.parent / "roles" / "hbase" / "files" / "Regions.java"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with the played client."""
    if shutil.which("javac") is None:
        pytest.skip("this machine has no JDK")
    folder = tmp_path_factory.mktemp("classes")
    sources = [str(path) for path in sorted((HERE / "played_hbase").rglob("*.java"))]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(folder), *sources, str(REGIONS)], check=True)
    return folder


def balance(classes: Path, *options: str) -> dict[str, Any]:
    command = ["java", *options, "-cp", str(classes), "Regions", "balance", "hdfs", "quorum", "2181", "1", "s1", "s2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


SPREAD = {server: {"regions": 2, "locality": None} for server in ("s1", "s2")}


def test_a_disabled_table_does_not_keep_the_others_from_being_spread(classes: Path) -> None:
    assert balance(classes) == {"moved": 2, "servers": SPREAD}


def test_a_server_that_was_to_leave_and_stays_gets_regions_again(classes: Path) -> None:
    """As after a scaling that was cut short; the one that has left, too, is still noted as leaving."""
    assert balance(classes, "-Ddecommissioned=s2,gone") == {"moved": 2, "servers": SPREAD}
