"""The tracer on Debian's kernels, emulated disks and two file systems; each cell of the matrix is a test."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.guests.command import UnavailableError
from tracer.guests.guest import TCG, GuestError, Limits, check, run_guest
from tracer.guests.judge import judge
from tracer.guests.kernels import KERNELS, Bootable, prepare
from tracer.guests.matrix import LEAST_TESTS, GuestResult, cells
from tracer.guests.roots import HERE
from tracer.guests.variants import DEFAULT

pytestmark = pytest.mark.guest


@pytest.mark.parametrize(("workload", "disk"), cells())
@pytest.mark.parametrize("variant", DEFAULT)
def test_every_request_is_accounted_for(variant: str, workload: str, disk: str, guests: dict[str, GuestResult]) -> None:
    assert guests[variant].judge(workload, disk) == []


@pytest.mark.parametrize("variant", DEFAULT)
def test_the_tracers_own_tests_pass(variant: str, guests: dict[str, GuestResult]) -> None:
    assert guests[variant].error == ""
    assert guests[variant].test_failures == []
    assert guests[variant].tests_run >= LEAST_TESTS


# What uapi/linux/bpf.h of Linux 4.18 has: helpers up to bpf_get_current_cgroup_id, no 32-bit jumps, no atomic operation
# but addition that returns nothing; and programs of at most BPF_MAXINSNS instructions.
LAST_HELPER = 80
MOST_INSTRUCTIONS = 4096
INSTRUCTION = struct.Struct("<BBhi")
PROGRAM = struct.Struct("<64sII")  # struct compiled_program


def read_compiled(path: Path) -> dict[str, list[tuple[int, ...]]]:
    content, at, programs = path.read_bytes(), 0, {}
    while at < len(content):
        name, size, _ = PROGRAM.unpack_from(content, at)
        at += PROGRAM.size
        programs[name.rstrip(b"\0").decode()] = list(INSTRUCTION.iter_unpack(content[at : at + size]))
        at += size
    return programs


def test_the_bcc_programs_keep_to_what_linux_4_18_has(guests: dict[str, GuestResult]) -> None:
    programs = read_compiled(guests["6.1-bcc"].out / "compiled")
    assert {"block_bio_queue", "block_rq_issue", "block_rq_complete", "sys_enter"} <= set(programs)
    for name, instructions in programs.items():
        assert len(instructions) <= MOST_INSTRUCTIONS, name
        for code, _, _, immediate in instructions:
            assert code & 7 != 6, f"{name}: a 32-bit jump"
            assert code & 0xE7 != 0xC3 or immediate == 0, f"{name}: an atomic operation"
            assert code != 0x85 or 0 < immediate <= LAST_HELPER, f"{name}: helper {immediate}"


def lose_records(folder: Path) -> None:
    trace = folder / "trace.bin"
    content = trace.read_bytes()
    trace.write_bytes(content[: len(content) * 9 // 10])


def lose_a_completion(folder: Path) -> None:
    _change_device(folder, lambda device: device.update(completions=device["completions"] + 1))


def claim_another_mode(folder: Path) -> None:
    _change_device(folder, lambda device: device.update(tracing_mode="guessed"))


def exclude_one(folder: Path) -> None:
    _change_device(folder, lambda device: device["excluded"].update(untracked=1))


def turn_a_layer_round(folder: Path) -> None:
    path = folder / "trace.bin.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layers_negative": 1}))


def stop_before_the_end(folder: Path) -> None:
    """Then a request is longer than the trace."""
    path = folder / "trace.bin.json"
    status = json.loads(path.read_text())
    path.write_text(json.dumps({**status, "stopped_mono_ns": status["started_mono_ns"] + 1}))


def read_one_more(folder: Path) -> None:
    _change_seen(folder, lambda seen: seen["after"].update(reads=seen["after"]["reads"] + 1))


def let_fio_see_fewer(folder: Path) -> None:
    _change_seen(folder, lambda seen: seen["fio"][0]["read"].update(total_ios=seen["fio"][0]["read"]["total_ios"] - 1))


def end_in_error(folder: Path) -> None:
    (folder / "tracer.json").write_text(json.dumps({"error": "exit code 3"}))


def _change_device(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "trace.bin.json"
    status = json.loads(path.read_text())
    for device in status["devices"]:
        change(device)
    path.write_text(json.dumps(status))


def _change_seen(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "sda.json"
    seen = json.loads(path.read_text())
    change(seen)
    path.write_text(json.dumps(seen))


@pytest.mark.parametrize(
    "harm",
    [
        lose_records,
        lose_a_completion,
        claim_another_mode,
        exclude_one,
        turn_a_layer_round,
        stop_before_the_end,
        read_one_more,
        let_fio_see_fewer,
        end_in_error,
    ],
    ids=lambda harm: harm.__name__,
)
def test_the_judge_finds_what_is_wrong(
    harm: Callable[[Path], None], guests: dict[str, GuestResult], tmp_path: Path
) -> None:
    """The last disk that was traced has the last record, so it is the one that misses some."""
    shutil.copytree(guests["6.1"].out / "workloads" / "direct", tmp_path / "direct")
    assert judge("6.1", "direct", "sda", tmp_path) == []
    harm(tmp_path / "direct")
    assert judge("6.1", "direct", "sda", tmp_path) != []


@pytest.fixture
def bootable() -> Bootable:
    try:
        check(HERE)
        return prepare(KERNELS["6.1"])
    except UnavailableError as reason:
        pytest.skip(f"no guests: {reason}")


def test_a_job_that_fails_is_an_error_with_its_last_words(bootable: Bootable, tmp_path: Path) -> None:
    with pytest.raises(GuestError, match=r"(?s)the job ended with 3.*last words"):
        run_guest(bootable, TCG, "echo last words; exit 3", tmp_path, Limits(cpu_s=100, wall_s=600))


def test_a_guest_that_hangs_is_ended(bootable: Bootable, tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(GuestError, match="not done after 2 s"):
        run_guest(bootable, TCG, "sleep 1000", tmp_path, Limits(cpu_s=100, wall_s=2))
    assert time.monotonic() - begin < 60
