# SPDX-License-Identifier: Apache-2.0
"""Each role by its molecule scenario (ansible/molecule), on hosts of the test bed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ANSIBLE = Path(__file__).resolve().parents[1]
# The longest first, so that two at a time end at about the same time.
LONGEST = ["hbase", "hdfs", "prometheus"]
SCENARIOS = sorted(
    (path.parent.name for path in (ANSIBLE / "molecule").glob("*/molecule.yml")),
    key=lambda name: (name not in LONGEST, name),
)
MOST_HOSTS_OF_A_SCENARIO = 3
# Applied by the others, and nothing of their own on a host.
HELPERS = {"daemon", "hbase_dist"}


def test_every_role_has_a_scenario() -> None:
    assert {path.name for path in (ANSIBLE / "roles").iterdir()} - HELPERS == set(SCENARIOS)
    assert set(LONGEST) < set(SCENARIOS)


@pytest.mark.root
@pytest.mark.testbed
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="the hosts are made of Debian packages")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str) -> None:
    # Two at a time (pytest -n 2) have hosts of their own.
    first = 1 + MOST_HOSTS_OF_A_SCENARIO * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    up = subprocess.run([ANSIBLE / "testbed" / "testbed", "list"], capture_output=True, text=True, check=True)
    if any(line.startswith(f"tb{first} ") for line in up.stdout.splitlines()):
        pytest.skip("a test bed is up on this machine: testbed down")
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [programs / "molecule", "test", "--no-command-borders", "-s", scenario],
        cwd=ANSIBLE,
        env=os.environ
        | {"PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1"}
        | {"STRATA_MOLECULE_FIRST_HOST": str(first)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
