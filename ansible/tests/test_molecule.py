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
SCENARIOS = sorted(path.parent.name for path in (ANSIBLE / "molecule").glob("*/molecule.yml"))
# Applied by the others, and nothing of their own on a host.
HELPERS = {"daemon", "hbase_dist"}


def test_every_role_has_a_scenario() -> None:
    assert {path.name for path in (ANSIBLE / "roles").iterdir()} - HELPERS == set(SCENARIOS)


@pytest.mark.root
@pytest.mark.testbed
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="the hosts are made of Debian packages")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str) -> None:
    up = subprocess.run([ANSIBLE / "testbed" / "testbed", "list"], capture_output=True, text=True, check=True)
    if up.stdout.strip():
        pytest.skip("a test bed is up on this machine: testbed down")
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [programs / "molecule", "test", "--no-command-borders", "-s", scenario],
        cwd=ANSIBLE,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
