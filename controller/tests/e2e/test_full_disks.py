"""A results disk that is full, before and during a run: one clear error, the right exit code, nothing left running."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.tests.e2e.conftest import SMALL, Strata

pytestmark = pytest.mark.cluster


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_results_disk_is_said_before_anything_is_deployed(fresh: Strata, small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (small_disk / "ballast").open("wb") as ballast:
        while True:
            ballast.write(bytes(4096))
    answer = Strata(fresh.inventory, small_disk / "results")("run", str(SMALL))
    assert answer.returncode == 3, answer.stderr
    assert str(small_disk / "results") in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "deploy:" not in answer.stderr


def test_a_results_disk_that_fills_up(cluster: Strata, small_disk: Path) -> None:
    strata = Strata(cluster.inventory, small_disk)
    answer = strata("run", str(SMALL))
    assert answer.returncode == 4, answer.stderr
    assert "No space left" in answer.stderr or "no space left" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert strata.manifest()["status"] in ("partial", "failed"), "what was said before the disk was full stays true"
    assert not [p for p in cluster.processes() if p.name() == "strata-iotrace"]
    assert f"`strata join {strata.latest()}`" in answer.stderr
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    answer = strata("join")
    assert answer.returncode in (0, 5), answer.stderr  # 5: what there was no room to collect is lost
    assert not [reason for reason in strata.manifest()["reasons"] if "not been joined" in reason]
