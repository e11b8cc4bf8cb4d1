"""The programs of the BCC backend, on requests that are made up in this process's memory; without a guest."""

from __future__ import annotations

import json
import os
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tracer.guests.command import UnavailableError
from tracer.guests.job import build, compile_bcc
from tracer.guests.kernels import KERNELS, prepare_headers
from tracer.guests.roots import HERE, MACHINES

pytestmark = [pytest.mark.guest, pytest.mark.bpf, pytest.mark.root]

SOURCES = Path(__file__).resolve().parents[1]
#: In the order of enum field in bcc_programs.c.
FIELDS = (
    "offsetof(struct request, q)",
    "offsetof(struct request, rq_flags)",
    "offsetof(struct request, __data_len)",
    "offsetof(struct request, start_time_ns)",
    "(__force u32)RQF_IO_STAT",
    "offsetof(struct request_queue, disk)",
    "offsetof(struct gendisk, major)",
)
MOST_REQUESTS = 16384  # struct iotrace_flight in bcc.h
INSTRUCTION = struct.Struct("<BBhi")
PROGRAM = struct.Struct("<64sII")  # struct compiled_program
SET_RESULT = (0xB7, 0, 0)  # r0 = a constant


@pytest.fixture(scope="module")
def headers() -> Path:
    if platform.machine() != MACHINES[HERE]:
        pytest.skip("here programs cannot read a process's memory in the place of the kernel's")
    try:
        build(HERE)
        headers = prepare_headers(KERNELS["6.1"])
    except UnavailableError as reason:
        pytest.skip(str(reason))
    checked = subprocess.run([SOURCES / "build" / "strata-iotrace", "--check"], check=False, capture_output=True)
    if checked.returncode != 0:
        pytest.skip(f"cannot trace here: {json.loads(checked.stdout)['reason']}")
    return headers


def fields_of(headers: Path) -> list[str]:
    """Their values with these headers, by programs that return them."""
    functions = [f"int field_{number}(void *ctx) {{ return {field}; }}" for number, field in enumerate(FIELDS)]
    text = "\n".join(["#include <linux/blkdev.h>", "#include <linux/blk-mq.h>", *functions])
    command = [SOURCES / "build" / "strata-bcc-compile"]
    environment = {**os.environ, "BCC_KERNEL_SOURCE": str(headers)}
    content = subprocess.run(command, check=True, input=text.encode(), capture_output=True, env=environment).stdout
    values: dict[str, str] = {}
    while content:
        name, size, _ = PROGRAM.unpack_from(content)
        *instruction, value = INSTRUCTION.unpack_from(content, PROGRAM.size)
        assert tuple(instruction) == SET_RESULT
        values[name.rstrip(b"\0").decode()] = str(value)
        content = content[PROGRAM.size + size :]
    return [values[f"field_{number}"] for number in range(len(FIELDS))]


def test_requests_that_are_over_leave_room_for_others(headers: Path, tmp_path: Path) -> None:
    """Before 6.5, without block_io_done: a disk may have more than fit, as NVMe with 1,023 for each of 32 CPUs."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler here")
    try:
        compile_bcc(headers, tmp_path / "compiled")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    program = tmp_path / "bcc-programs"
    making = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES / 'bpf'}", "-o", str(program)]
    libraries = ["-lbpf", "-lelf", "-lz"]
    subprocess.run([*making, str(SOURCES / "guests" / "bcc_programs.c"), *libraries], check=True)
    requests = MOST_REQUESTS + 1000
    command = [str(program), str(tmp_path / "compiled"), str(requests), *fields_of(headers)]
    counted = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert counted == {"completions": requests, "untracked": 0, "known": 0}
