"""Which backend is taken, and what the BCC backend refuses. It traces in the guests (tracer/guests)."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tracer.tests.tracing import TRACER, altered

OTHER_RELEASE = "4.19.0-27-amd64"


def run(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "BCC_KERNEL_SOURCE"}
    return subprocess.run(
        [str(binary), *arguments], check=False, capture_output=True, text=True, timeout=60, env=environment
    )


@pytest.fixture
def other_headers(tmp_path: Path) -> Path:
    """Where headers of another kernel say that they are."""
    file = tmp_path / "headers" / "include" / "generated" / "utsrelease.h"
    file.parent.mkdir(parents=True)
    file.write_text(f'#define UTS_RELEASE "{OTHER_RELEASE}"\n')
    return tmp_path / "headers"


def test_headers_of_another_kernel_are_refused(binary: Path, other_headers: Path, tmp_path: Path) -> None:
    output = tmp_path / "io.bin"
    result = run(binary, "--backend", "bcc", "--kernel-headers", str(other_headers), "--output", str(output))
    assert result.returncode == 3
    assert result.stderr.startswith("strata-iotrace: ") and result.stderr.count("\n") == 1
    for word in (OTHER_RELEASE, os.uname().release, str(other_headers), f"linux-headers-{os.uname().release}"):
        assert word in result.stderr
    assert list(tmp_path.iterdir()) == [other_headers]


def test_the_environment_may_name_the_headers(binary: Path, other_headers: Path) -> None:
    result = subprocess.run(
        [str(binary), "--backend", "bcc", "--check"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "BCC_KERNEL_SOURCE": str(other_headers)},
    )
    assert result.returncode == 3
    answer = json.loads(result.stdout)
    assert (answer["can_trace"], answer["backend"]) == (False, "bcc")
    assert OTHER_RELEASE in answer["reason"]


def test_missing_headers_are_refused(binary: Path, tmp_path: Path) -> None:
    result = run(binary, "--backend", "bcc", "--kernel-headers", str(tmp_path), "--output", str(tmp_path / "io.bin"))
    assert result.returncode == 3
    assert f"{tmp_path} has none" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_headers_is_told_what_to_install(binary: Path, tmp_path: Path) -> None:
    if Path(f"/lib/modules/{os.uname().release}/build").exists():
        pytest.skip("the headers of this kernel are installed")
    result = run(binary, "--backend", "bcc", "--output", str(tmp_path / "io.bin"))
    assert result.returncode == 3
    assert f"/lib/modules/{os.uname().release}/build" in result.stderr
    assert f"linux-headers-{os.uname().release}" in result.stderr


def test_an_unknown_backend_is_a_usage_error(binary: Path, tmp_path: Path) -> None:
    result = run(binary, "--backend", "ebpf", "--output", str(tmp_path / "io.bin"))
    assert result.returncode == 2
    assert "--backend ebpf" in result.stderr
    assert list(tmp_path.iterdir()) == []


#: bpf_task_pt_regs, the newest of uapi/linux/bpf.h in Linux 5.15.
LAST_HELPER = 175
INSTRUCTION = struct.Struct("<BBhi")
CALL, OF_A_HELPER = 0x85, 0


def test_the_core_programs_keep_to_the_helpers_of_linux_5_15(binary: Path) -> None:
    """The oldest kernel for them, which CI does not have. (bpf_loop was one that it lacks.)"""
    programs = binary.with_name("iotrace.bpf.o")
    content = programs.read_bytes()
    sections = subprocess.run(["readelf", "-SW", programs], check=True, capture_output=True, text=True).stdout
    called: set[int] = set()
    for match in re.finditer(r" PROGBITS +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) 00 +AX ", sections):
        start, size = (int(number, 16) for number in match.groups())
        for code, registers, _, immediate in INSTRUCTION.iter_unpack(content[start : start + size]):
            if code == CALL and registers >> 4 == OF_A_HELPER:
                called.add(immediate)
    assert 5 in called  # bpf_ktime_get_ns
    assert max(called) <= LAST_HELPER


@pytest.mark.parametrize("architecture", ["x86", "arm64"])
def test_the_core_programs_are_of_both_architectures(architecture: str, tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("no compiler here: install the package clang")
    made = tmp_path / "iotrace.bpf.o"
    command = ["make", "-C", str(TRACER.parents[1]), f"BUILD={tmp_path}", f"BPF_ARCH={architecture}", str(made)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert made.read_bytes().startswith(b"\x7fELF")


@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.parametrize("arguments", [(), ("--backend", "auto")])
def test_the_kernel_decides_when_nobody_does(can_trace: None, binary: Path, arguments: tuple[str, ...]) -> None:
    """Core, where its programs can be loaded: not yet on 5.10, which has BTF."""
    core, chosen = (json.loads(run(binary, *words, "--check").stdout) for words in (("--backend", "core"), arguments))
    assert chosen["backend"] == ("core" if core["can_trace"] else "bcc")


ONLY_THE_LAST = "	/* Only the last of several partial completions ends the request. */\n"


@pytest.mark.bpf
@pytest.mark.root
def test_what_the_verifier_says_of_a_program_that_it_refuses_is_told(can_trace: None, tmp_path: Path) -> None:
    reads_anywhere = {ONLY_THE_LAST: "	if (*(volatile __u64 *)now)\n		return 0;\n" + ONLY_THE_LAST}
    refused = altered(tmp_path, {"bpf/completion.bpf.h": reads_anywhere})
    result = run(refused, "--output", str(tmp_path / "io.bin"), "--backend", "core")
    assert result.returncode == 3
    assert len(result.stderr.splitlines()) == 1
    assert "block_rq_complete" in result.stderr and "invalid mem access" in result.stderr
