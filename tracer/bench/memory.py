"""Memory that stays the machine's own while tools write their output to it.

A virtual machine may give free memory back to its host ("free page reporting" of the balloon). Touching such a page
again took 6 to 13 us here instead of 1.5; with 64 of our records in a page that is more than all that the tracer does
with them, and has nothing to do with any tool. Only larger blocks are given back, so one page of each is held.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE_BYTES = mmap.PAGESIZE
HELD = 256  # one page of so many: a block is 512 on most machines (mm/page_reporting.c: pageblock_order)
MOST_BYTES = 8 << 30


def _free_bytes() -> int:
    found = re.search(r"^MemFree:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


@contextmanager
def held(most_bytes: int = MOST_BYTES) -> Iterator[int]:
    """Touches half of the free memory, at most so much, and gives all but the held pages back; yields their number."""
    step = HELD * PAGE_BYTES
    size = min(most_bytes, _free_bytes() // 2) // step * step
    if not size:
        yield 0
        return
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, size, PAGE_BYTES):
            memory[at] = 1
        for at in range(0, size, step):
            memory.madvise(mmap.MADV_DONTNEED, at + PAGE_BYTES, step - PAGE_BYTES)
        yield size // step
