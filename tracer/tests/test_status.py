"""The fields of the status file are those that docs/interfaces.md names, neither more nor fewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.tests.tracing import fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

DOCS = Path(__file__).parents[2] / "docs"
#: What names them is not the tracer alone.
OPEN = ("log2_ns", "program_misses", "layers_missing", "layers_partial")
#: Neither has one in each status; excluded and diskstats_* are listed elsewhere.
LISTED = ("excluded", "diskstats_before", "diskstats_after")
EXCLUDED = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def section(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def documented() -> set[str]:
    text = section((DOCS / "interfaces.md").read_text(), "`FILE.json` (later", "\n## ")
    return {name for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in re.findall("`([^`]+)`", row)}


def fields(value: Any, name: str = "") -> Iterator[str]:
    last = name.rpartition(".")[2]
    if last in OPEN or last in LISTED:
        yield f"{name}.*"
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from fields(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and name == "devices":
        for part in value:
            yield from fields(part, "devices[]")
    else:
        yield name


def test_the_fields_are_those_of_the_documentation(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--spans", str(tmp_path / "spans.csv")) as trace:
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=20")
        assert trace.stop() == 0
    status = trace.status()
    assert status["emitted"] > 0
    assert set(fields(status)) == documented()
    device = trace.device(disk)
    table = section((DOCS / "tracer-trust.md").read_text(), "`excluded` names the requests", "\n\nThe counters")
    assert set(device["excluded"]) == {name for row in EXCLUDED.findall(table) for name in re.findall(r"`(\w+)`", row)}
    (row,) = [line for line in (DOCS / "interfaces.md").read_text().splitlines() if "diskstats_before.*" in line]
    counters = set(re.findall(r"`(\w+)`", row))
    assert set(device["diskstats_before"]) == set(device["diskstats_after"]) == counters


def test_the_filters_are_told(disk: str, tmp_path: Path) -> None:
    wanted = ["--comm", "fio", "--comm", "dd", "--mode", "R", "--min-latency", "7", "--sample", "3"]
    with tracing(tmp_path / "io.bin", "--device", disk, *wanted) as trace:
        assert trace.stop() == 0
    assert trace.status()["filters"] == {
        "devices": [disk],
        "cgroups": [],
        "pids": [],
        "comms": ["fio", "dd"],
        "modes": ["R"],
        "min_latency_us": 7,
        "sample_every": 3,
    }
