# SPDX-License-Identifier: Apache-2.0
"""Logs of the Java servers are bounded, by the library that writes them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from plays import ANSIBLE

JARS = sorted((Path.home() / ".cache" / "stratabench").glob("hbase-*/lib/reload4j-*.jar"))
MIB = 1 << 20
BOUND = 64 * MIB
TALK = """
class Talk {
  public static void main(String[] given) {
    var log = org.apache.log4j.Logger.getLogger("org.apache.hadoop.hbase.Talk");
    for (long bytes = Long.parseLong(given[0]); bytes > 0; bytes -= 1000) {
      log.info("x".repeat(1000));
    }
    log.info("the last line");
  }
}
"""


def talk(folder: Path, size: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """A program with the servers' settings that logs so many bytes."""
    (folder / "Talk.java").write_text(TALK, encoding="ascii")
    path = f"{ANSIBLE / 'roles' / 'hbase_dist' / 'files'}:{JARS[-1]}"
    command = ["java", *flags, "-cp", path, str(folder / "Talk.java"), str(size)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


needs_java = pytest.mark.skipif(
    not JARS or shutil.which("javac") is None, reason="needs a JDK, and the jars of HBase, which a deployment brings"
)


@needs_java
def test_a_server_that_logs_without_end_keeps_a_bounded_log(tmp_path: Path) -> None:
    log = tmp_path / "servers" / "x.log"
    log.parent.mkdir()
    done = talk(tmp_path, 2 * BOUND, "-Dstrata.log.to=file", f"-Dstrata.log.file={log}")
    assert (done.stdout, done.stderr) == ("", "")
    files = list(log.parent.iterdir())
    assert 0.7 * BOUND < sum(path.stat().st_size for path in files) <= BOUND + 4096 * len(files)
    assert log.read_text(encoding="utf-8").endswith(" hbase.Talk: the last line\n")


@needs_java
def test_a_command_logs_to_its_standard_error(tmp_path: Path) -> None:
    done = talk(tmp_path, 1000)
    assert done.stderr.endswith(" hbase.Talk: the last line\n")
    assert [path.name for path in tmp_path.iterdir()] == ["Talk.java"]


def test_every_java_server_logs_to_a_file_of_its_own() -> None:
    files = ANSIBLE.glob("roles/*/tasks/*.yml")
    tasks = [task for path in files for task in yaml.safe_load(path.read_text(encoding="utf-8"))]
    commands = [str(task.get("vars", {}).get("daemon_command", "")) for task in tasks]
    servers = [command for command in commands if "hbase_dist_java" in command]
    assert len(servers) == 5
    assert [command for command in servers if not re.search(r"\+ hbase_dist_server_flags\b", command)] == []
