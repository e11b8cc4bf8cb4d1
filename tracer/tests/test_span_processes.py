"""Processes that have ended make room for others, in the kernel and in the tracer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tracer.tests.spans import NEEDS, ended, rows
from tracer.tests.test_spans import ANSWERS_ITSELF, PROCESSES
from tracer.tests.tracing import altered, tracing

pytestmark = NEEDS


def test_one_after_the_other_where_one_is_kept(disk: str, tmp_path: Path) -> None:
    few = altered(tmp_path / "few", {"bpf/iotrace.h": {PROCESSES: PROCESSES.replace("256", "1")}})
    path, name = tmp_path / "spans.csv", "one-by-one"
    arguments = ("--device", disk, "--comm", name, "--spans", str(path), "--span-sample", "1")
    pids = []
    with tracing(tmp_path / "io.bin", *arguments, binary=few) as trace:
        for requests in ("3", "5"):
            command = [sys.executable, "-c", ANSWERS_ITSELF, name, requests]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            process.communicate()
            pids.append(process.pid)
            deadline = time.monotonic() + 30
            while process.pid not in {int(row["pid"]) for row in rows(path)}:
                assert time.monotonic() < deadline, "there is no line about it"
                time.sleep(0.1)
            time.sleep(2.5)  # it is told of for the last time
        assert trace.stop() == 0
    assert [ended(path, pid) for pid in pids] == [3, 5]
    assert trace.status()["spans"]["not_counted"] == 0
