"""A tool that comes to an end in another way than it should leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tracer.bench import tools
from tracer.bench.counters import BpfObjects
from tracer.bench.tools import Attached, Tool, ToolError

pytestmark = pytest.mark.root


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def ready_and_then(command: str) -> Tool:
    script = f'echo ready >"/dev/fd/$STRATA_READY"; {command}'
    return Tool("ready", lambda _device, _folder: ["sh", "-c", script], says_ready=True)


def test_one_that_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block trace that it has left on would slow down whatever is measured next."""
    ended: list[str] = []
    monkeypatch.setattr(tools, "end_block_trace", ended.append)
    before = open_files()
    attached = Attached(ready_and_then("sleep 0.3"), "disk", tmp_path)
    psutil.Process(attached.pid).wait(10)
    with pytest.raises(ToolError, match="ended while it was measured"):
        attached.detach()
    assert ended == ["disk"]
    assert open_files() == before


def test_one_whose_bench_is_interrupted_as_it_becomes_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def interrupted(pid: int) -> None:
        started.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(BpfObjects, "of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Attached(ready_and_then("exec sleep 60"), "disk", tmp_path)
    (pid,) = started
    assert not psutil.pid_exists(pid)
