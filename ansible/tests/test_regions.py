"""The program that moves regions, against what it uses of HBase's client, played (played_hbase/)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
REGIONS = HERE.parent / "roles" / "hbase" / "files" / "Regions.java"


@pytest.mark.skipif(shutil.which("javac") is None, reason="this machine has no JDK")
def test_a_disabled_table_does_not_keep_the_others_from_being_spread(tmp_path: Path) -> None:
    sources = [str(path) for path in sorted((HERE / "played_hbase").rglob("*.java"))]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(tmp_path), *sources, str(REGIONS)], check=True)
    command = ["java", "-cp", str(tmp_path), "Regions", "balance", "hdfs", "quorum", "2181", "1", "s1", "s2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spread = {server: {"regions": 2, "locality": None} for server in ("s1", "s2")}
    assert json.loads(done.stdout) == {"moved": 2, "servers": spread}
