"""What is measured of one I/O: a tool that takes a known time is found to add that, wherever it takes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import cast

import numpy as np
import pytest

from tracer.bench.alternating import Plan
from tracer.bench.latency import LOAD, SHARED, OneAtATime, Result, Window, cpu_that_gets, measure, one_at_a_time, table
from tracer.bench.load import LoadError
from tracer.bench.tools import PEERS, Attached, Tool, control
from tracer.bench.windows import OUTPUT_ROOT

SPIN_NS = 20_000
SPIN = """
import sys
sys.path.insert(0, {peers!r})
import floor
floor.run('''
#include <linux/bpf.h>
int on_{tracepoint}(void *ctx)
{{
    u64 end_ns = bpf_ktime_get_ns() + {spin_ns};
    #pragma clang loop unroll(disable)
    for (int i = 0; i < 2000; i++)
        if (bpf_ktime_get_ns() >= end_ns)
            break;
    return 0;
}}
''', ["{tracepoint}"])
"""
COUNTS = """            CPU0       CPU2
  7:         900          0 IO-APIC  7-edge      other
 35:           1          2 PCI-MSIX-0  0-edge   virtio1-config
 36:           4         50 PCI-MSIX-0  1-edge   virtio1-req.0
NMI:           9          9 Non-maskable interrupts
"""


def test_interrupts_are_counted_by_cpu() -> None:
    assert cpu_that_gets([35, 36], COUNTS) == 2
    assert cpu_that_gets([7, 36], COUNTS) == 0


def test_what_a_tool_adds_is_told_in_time_and_in_rate() -> None:
    """Software takes a fifth more of 10 us with it, and of the whole 40 us a 21st part of the rate is gone."""
    windows = [
        (Window(base, 40_000), Window(1.2 * base, 42_000), Window(10_000, 40_000)) for base in range(9990, 10020)
    ]
    lines = table([Result("dear", windows)]).splitlines()
    assert lines[0].startswith("Without a tool 40.0 us, of which software takes 10.0")
    assert lines[-1] == "| dear | 2000 (2000 to 2000) | 0.9524 (0.9524 to 0.9524) |"


class StandInForTheLoad(Thread):
    """As one_at_a_time.c to latency.py; its disk stands still in the first windows, then an I/O takes 7 us of 40."""

    def __init__(self, shared: Path, still_windows: int) -> None:
        super().__init__(daemon=True)
        self._shared = np.memmap(shared, SHARED, "r+", shape=(1,))[0]
        self._still_windows = still_windows
        self.done = False

    def run(self) -> None:
        while not self.done:
            window = int(self._shared["window"])
            if window != self._shared["seen"]:
                if window:
                    self._shared["count"] = window > self._still_windows
                    self._shared["not_told"] = 1 - self._shared["count"]
                    self._shared["software_ns"][0], self._shared["whole_ns"][0] = 7_000, 40_000
                self._shared["seen"] = window
            time.sleep(0.0005)


@pytest.mark.parametrize("still_windows", [0, 2, 3])
def test_a_window_in_which_the_disk_stands_still_is_measured_again(tmp_path: Path, still_windows: int) -> None:
    shared = tmp_path / "shared"
    shared.write_bytes(bytes(SHARED.itemsize))
    disk = StandInForTheLoad(shared, still_windows)
    disk.start()
    try:
        load = OneAtATime(shared, cast(Attached, None))
        if still_windows == 3:
            with pytest.raises(LoadError, match="none had an interrupt of its own, in each of 3 windows"):
                load.window(0.001)
        else:
            assert load.window(0.001) == Window(software_ns=7_000, whole_ns=40_000)
    finally:
        disk.done = True
        disk.join()


@pytest.fixture(scope="module")
def load() -> Iterator[tuple[OneAtATime, str]]:
    if not LOAD.exists():
        pytest.skip("make -C tracer alternating")
    try:
        with one_at_a_time("read", Path.cwd()) as made:
            yield made
    except LoadError as error:
        pytest.skip(f"{error}; run from a directory on a virtio or NVMe disk")


def spinning(tracepoint: str) -> Tool:
    text = SPIN.format(peers=str(PEERS), tracepoint=tracepoint, spin_ns=SPIN_NS)
    environment = control().environment
    return Tool(tracepoint, lambda _device, _folder: ["/usr/bin/python3", "-c", text], environment, says_ready=True)


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_a_tool_that_takes_a_known_time_is_found_to_add_it(load: tuple[OneAtATime, str]) -> None:
    """Also at the issue and at the interrupt, between which the device's time is taken out."""
    before = set(OUTPUT_ROOT.iterdir())
    places = ("block_bio_queue", "block_rq_issue", "irq_handler_entry", "block_rq_complete")
    results = measure([control(), *map(spinning, places)], *load, Plan(rounds=15, window_s=0.05))
    added = {}
    for result in results:
        without_ns = sorted(before.software_ns for before, _, _ in result.windows)[len(result.windows) // 2]
        added[result.tool] = (result.software().value - 1) * without_ns
    nothing_ns = added.pop("nothing attached")
    assert abs(nothing_ns) < SPIN_NS / 4, nothing_ns
    assert all(0.8 * SPIN_NS < ns < 1.4 * SPIN_NS for ns in added.values()), added
    assert set(OUTPUT_ROOT.iterdir()) == before
