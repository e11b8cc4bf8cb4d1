"""Empty programs at the tracepoints named in the arguments: what being attached costs, before anything is measured.

Needs BCC, so the system's Python. Reads nothing, so headers of another kernel do no harm.
"""

from __future__ import annotations

import os
import signal
import sys

from bcc import BPF  # type: ignore[import-not-found]


def main() -> None:
    tracepoints = sys.argv[1:]
    programs = "".join(f"int on_{name}(void *ctx) {{ return 0; }}\n" for name in tracepoints)
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    bpf = BPF(text=programs)
    for name in tracepoints:
        bpf.attach_raw_tracepoint(tp=name, fn_name=f"on_{name}")
    os.write(int(os.environ["STRATA_READY"]), b"ready\n")
    signal.sigwait(signals)
    bpf.cleanup()


if __name__ == "__main__":
    main()
