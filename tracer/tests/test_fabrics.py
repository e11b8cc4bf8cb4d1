"""NVMe over a network, whose driver has not the marks of the one for PCI: over TCP on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tracer.tests.test_trace import assert_closed
from tracer.tests.tracing import EMPTY, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

FABRICS = Path("/dev/nvme-fabrics")
PORT = 4420
NAME = "nqn.2026-11.strata:test"
LISTEN = {"addr_trtype": "tcp", "addr_adrfam": "ipv4", "addr_traddr": "127.0.0.1", "addr_trsvcid": str(PORT)}
CONNECT = f"transport=tcp,nqn={NAME},traddr=127.0.0.1,trsvcid={PORT}"


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """A folder of configfs, which the kernel fills."""
    folder.mkdir()
    try:
        yield folder
    finally:
        folder.rmdir()


@contextmanager
def target(configuration: Path, disk: str) -> Iterator[None]:
    """Whoever asks for NAME gets this disk."""
    with ExitStack() as stack:
        subsystem = stack.enter_context(made(configuration / "subsystems" / NAME))
        (subsystem / "attr_allow_any_host").write_text("1")
        namespace = stack.enter_context(made(subsystem / "namespaces" / "1"))
        (namespace / "device_path").write_text(f"/dev/{disk}")
        (namespace / "enable").write_text("1")
        port = stack.enter_context(made(configuration / "ports" / str(PORT)))
        for name, value in LISTEN.items():
            (port / name).write_text(value)
        link = port / "subsystems" / NAME
        link.symlink_to(subsystem)
        stack.callback(link.unlink)
        yield


def until(found: Callable[[], list[Path]]) -> Path:
    """The only one that there is in the end."""
    deadline = time.monotonic() + 30
    while len(paths := found()) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return paths[0]


@contextmanager
def connected() -> Iterator[tuple[str, str]]:
    """The disk that one uses, and the one that has the requests: another one where multipath is on."""
    before = set(Path("/sys/class/nvme").iterdir())
    descriptor = os.open(FABRICS, os.O_RDWR)
    try:
        os.write(descriptor, CONNECT.encode())
    finally:
        os.close(descriptor)
    (controller,) = set(Path("/sys/class/nvme").iterdir()) - before
    try:
        path = until(lambda: list(controller.glob("nvme*n*"))).name
        head = re.sub(r"c\d+", "", path)
        until(lambda: [Path(f"/dev/{head}")] if Path(f"/dev/{head}").exists() else [])
        yield head, path
    finally:
        (controller / "delete_controller").write_text("1")


@pytest.fixture
def remote(disk: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    configuration = tmp_path / "configfs"
    configuration.mkdir()
    if not all(Path("/sys/module", name).exists() for name in ("nvme_tcp", "nvmet_tcp")):
        pytest.skip("no NVMe over TCP here: load the modules nvmet-tcp and nvme-tcp")
    subprocess.run(["mount", "-t", "configfs", "configfs", str(configuration)], check=True)
    try:
        with target(configuration / "nvmet", disk), connected() as names:
            yield names
    finally:
        subprocess.run(["umount", str(configuration)], check=True)


def test_its_driver_is_not_taken_for_that_of_pci(remote: tuple[str, str], tmp_path: Path) -> None:
    head, path = remote
    with tracing(tmp_path / "io.bin", "--device", head) as trace:
        job = fio(f"--filename=/dev/{head}", "--rw=randrw", "--bs=4k", "--direct=1", "--number_ios=300",
                  "--ioengine=libaio", "--iodepth=8", "--size=64m")  # fmt: skip
        assert trace.stop() == 0
    own = [r for r in trace.records() if r.comm == b"fio" and r.size_bytes == 4096]
    assert len(own) == job["read"]["total_ios"] + job["write"]["total_ios"] == 300
    assert trace.device(path)["tracing_mode"] == "block"
    assert list(trace.device(path)["layers_missing"]) == ["driver"]
    assert all(r.driver_ns == EMPTY and r.device_ns != EMPTY for r in own)
    assert_closed(trace, path)
