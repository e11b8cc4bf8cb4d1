"""What is read of /proc and of bpftool, held against what is written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.bench import counters
from tracer.bench.counters import BpfObjects, busy_cpu_ns

# proc(5): the order of the fields, and that `guest` and `guest_nice` are in `user` and `nice` already.
NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


@pytest.mark.parametrize("name", NAMES)
def test_only_what_a_cpu_worked_is_busy(name: str, tmp_path: Path) -> None:
    ticks = " ".join(str(7 * (field == name)) for field in NAMES)
    (tmp_path / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\n")
    worked = name in ("user", "nice", "system", "irq", "softirq")
    assert busy_cpu_ns(tmp_path / "stat") == (70_000_000 if worked else 0)


def test_programs_whose_names_look_alike_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """virtio_queue_rq and virtio_queue_rqs in 15 bytes, as bpftool tells them before 5.18."""
    programs = [
        {"id": 1, "name": "virtio_queue_rq", "run_time_ns": 100, "run_cnt": 3},
        {"id": 2, "name": "virtio_queue_rq", "run_time_ns": 40, "run_cnt": 2},
        {"id": 3, "name": "virtio_queue_rq", "run_time_ns": 5, "run_cnt": 1},
        {"id": 4, "name": "block_rq_issue"},
    ]
    monkeypatch.setattr(counters, "_bpftool", lambda _kind: programs)
    ours = BpfObjects(frozenset({1, 2, 4}), frozenset())
    assert ours.run_times() == {"virtio_queue_rq": (140, 5), "block_rq_issue": (0, 0)}
    assert sum(ns for ns, _ in ours.run_times().values()) == ours.run_time_ns()
