"""What the tracer says to who started it: at a terminal, and of what was lost."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
from pathlib import Path

import pytest

from tracer.tests.tracing import fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def read_until(terminal: int, text: str) -> str:
    seen = ""
    while text not in seen:
        assert select.select([terminal], [], [], 30)[0], seen
        seen += os.read(terminal, 4096).decode()
    return seen


def test_a_terminal_is_told_that_it_is_on_and_what_to_do_next(binary: Path, disk: str, tmp_path: Path) -> None:
    output = tmp_path / "io.bin"
    process, terminal = pty.fork()
    if process == 0:
        os.execv(binary, [str(binary), "--output", str(output), "--device", disk])
    try:
        assert f"tracing {disk} into {output}" in read_until(terminal, "Ctrl-C")
        fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--direct=1", "--number_ios=100")
        os.write(terminal, b"\x03")
        said = read_until(terminal, "tracer.summary")
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        process = 0
    finally:
        os.close(terminal)
        if process:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    requests = json.loads(output.with_name("io.bin.json").read_text())["emitted"]
    assert f"{output}: {requests} requests; " in said and requests >= 90


@pytest.mark.parametrize("stopped_s", [0, 2])
def test_what_was_lost_is_told_though_all_went_well(
    disk: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], stopped_s: int
) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", "64K") as trace:
        if stopped_s:
            trace.process.send_signal(signal.SIGSTOP)
            load = ("--rw=randread", "--bs=4k", "--direct=1", "--number_ios=5000")
            fio(f"--filename=/dev/{disk}", *load)
            trace.process.send_signal(signal.SIGCONT)
        assert trace.stop() == 0
    device, said = trace.device(disk), capfd.readouterr().err
    if stopped_s:
        assert device["dropped"] > 1000
        assert f": {device['dropped']} of {device['dropped'] + device['emitted']} records lost: " in said
        assert said.count("\n") == 1
    else:
        assert said == ""
