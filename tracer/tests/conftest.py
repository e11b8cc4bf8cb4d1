"""Fixtures: the built tracer and a disk of our own; all is taken away again."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer.guests.layout import LEFT_OUT, TESTS_UNTIL
from tracer.tests.tracing import BACKEND, TRACER, HiddenEventsError

DISK_BYTES = 256 << 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test disturbed in this way is repeated, and pytest says so; any other failure stands."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=[HiddenEventsError.__name__]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In a guest of the kernel matrix, with whose start the clock begins."""
    if time.monotonic() > float(os.environ.get(TESTS_UNTIL, "inf")):
        pytest.skip(LEFT_OUT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except AssertionError as error:
        fixtures = getattr(item, "funcargs", {})
        outputs = [fixtures[name] for name in ("tmp_path", "open_directory") if name in fixtures]
        if missing := sum(_completions_not_seen(file) for output in outputs for file in output.rglob("*.json")):
            raise HiddenEventsError(f"{missing} of them; {error}") from error
        raise


def _completions_not_seen(status: Path) -> int:
    try:
        devices = json.loads(status.read_text())["devices"]
        return sum(device["excluded"]["completion_not_seen"] for device in devices)
    except (ValueError, LookupError, TypeError):
        return 0  # not a tracer's status


@pytest.fixture(scope="session")
def binary() -> Path:
    """Built when a source is newer; make does nothing otherwise."""
    built = subprocess.run(["make", "-s", "-C", str(TRACER.parents[1])], check=False, capture_output=True, text=True)
    if built.returncode != 0 and not TRACER.exists():
        pytest.skip(f"cannot build the tracer: {built.stderr.strip().splitlines()[-1:]}")
    assert built.returncode == 0, built.stderr
    return TRACER


@pytest.fixture(scope="session")
def can_trace(binary: Path) -> None:
    command = [str(binary), "--backend", BACKEND, "--check"]
    check = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)
    if not check["can_trace"]:
        # Not a missing right, which has words of its own: one wrong program would leave out all tests.
        assert not check["reason"].startswith(("libbpf: prog", "program ")), check["reason"]
        pytest.skip(f"cannot trace here: {check['reason']}")


@pytest.fixture
def disk(can_trace: None, tmp_path: Path) -> Iterator[str]:
    """The name of an empty loop device."""
    with loop_device(tmp_path / "disk.img") as name:
        yield name


@contextmanager
def loop_device(image: Path) -> Iterator[str]:
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    made = subprocess.run(["losetup", "--show", "-f", str(image)], check=False, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        # Seen on 5.10 and not on 6.1: a loop device that may merge nothing.
        Path(f"/sys/block/{Path(device).name}/queue/nomerges").write_text("0")
        yield Path(device).name
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
        image.unlink()


@pytest.fixture
def deadline(disk: str) -> Iterator[str]:
    """The disk, with an I/O scheduler; a loop device would keep it for whoever comes next."""
    scheduler = Path(f"/sys/block/{disk}/queue/scheduler")
    before = scheduler.read_text()
    if "mq-deadline" not in before:
        pytest.skip("no mq-deadline here")
    scheduler.write_text("mq-deadline")
    try:
        yield disk
    finally:
        scheduler.write_text(before.partition("[")[2].partition("]")[0])


@pytest.fixture
def mounted(disk: str, tmp_path: Path) -> Iterator[Path]:
    """A directory on ext4 on our own disk."""
    directory = tmp_path / "mounted"
    directory.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", f"/dev/{disk}"], check=True)
    subprocess.run(["mount", f"/dev/{disk}", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)
