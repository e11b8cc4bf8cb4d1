"""What is read of /proc, held against files that are written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.bench.counters import busy_cpu_ns

# proc(5): the order of the fields, and that `guest` and `guest_nice` are in `user` and `nice` already.
NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


@pytest.mark.parametrize("name", NAMES)
def test_only_what_a_cpu_worked_is_busy(name: str, tmp_path: Path) -> None:
    ticks = " ".join(str(7 * (field == name)) for field in NAMES)
    (tmp_path / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\n")
    worked = name in ("user", "nice", "system", "irq", "softirq")
    assert busy_cpu_ns(tmp_path / "stat") == (70_000_000 if worked else 0)
