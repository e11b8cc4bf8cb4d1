"""What a build of the load client leaves behind, in a copy of its sources."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "ycsb-fork"


@pytest.mark.skipif(shutil.which("mvn") is None, reason="this machine has no Maven")
def test_jars_of_other_versions_do_not_stay_on_the_class_path(tmp_path: Path) -> None:
    client = tmp_path / "ycsb-fork"
    shutil.copytree(SOURCES, client, ignore=shutil.ignore_patterns("target", "src"))
    shutil.copytree(SOURCES / "core/src/main", client / "core/src/main")
    target = client / "core/target"
    (target / "dependency").mkdir(parents=True)
    old = [target / "ycsb-core-0.0.9.jar", target / "dependency/HdrHistogram-2.1.4.jar"]
    for jar in old:
        jar.touch()
    # --offline: all that it needs has been fetched by the build of the client itself
    command = ["mvn", "-q", "-B", "--offline", "-f", str(client / "pom.xml"), "-pl", "core", "package", "-DskipTests"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout
    assert [jar.name for jar in old if jar.exists()] == []
    assert list(target.glob("ycsb-core-*.jar")) and list((target / "dependency").glob("HdrHistogram-*.jar"))
