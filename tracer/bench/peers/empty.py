"""Empty programs at the tracepoints named in the arguments: what being attached costs, before anything is measured.

Needs BCC, so the system's Python. Reads nothing, so headers of another kernel do no harm.
"""

from __future__ import annotations

import sys

import floor  # type: ignore[import-not-found]

if __name__ == "__main__":
    floor.run(floor.empty(sys.argv[1:]), sys.argv[1:])
