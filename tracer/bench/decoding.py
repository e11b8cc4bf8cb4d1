"""How fast traces are decoded.

    python -m tracer.bench.decoding FILE... [--times 5]

Decodes each file to Arrow so many times, and prints rows per second of CPU time (all threads), median and extremes, and
the same for slots: with --vfs, about every second slot is the record of a call that has returned.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from tracer.decode import read_batches
from tracer.tracefile import RECORD, TraceFileError

EXIT_UNREADABLE = 5


def decode(file: Path) -> tuple[int, float]:
    """Decodes the file once; returns its rows and the CPU seconds that took."""
    begin = time.process_time()
    rows = sum(batch.num_rows for batch in read_batches(file))
    return rows, time.process_time() - begin


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tracer.bench.decoding", description="How fast traces are decoded.")
    parser.add_argument("files", type=Path, metavar="FILE", nargs="+")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    for file in options.files:
        try:
            passes = [decode(file) for _ in range(max(1, options.times))]
        except (OSError, TraceFileError) as error:
            print(f"tracer.bench.decoding: {error}", file=sys.stderr)
            return EXIT_UNREADABLE
        rows, slots = passes[0][0], file.stat().st_size // RECORD.itemsize
        per_us = sorted(1 / (cpu_s * 1e6) for _, cpu_s in passes)
        middle, least, most = (rows * rate for rate in (statistics.median(per_us), per_us[0], per_us[-1]))
        print(
            f"{file.name}: {rows:,} rows, {middle:.2f} million per CPU second ({least:.2f} to {most:.2f}, "
            f"{len(passes)} times); {slots:,} slots, {slots * statistics.median(per_us):.2f} million"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
