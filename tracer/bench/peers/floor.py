"""What the floors share: attach programs, say so, detach and attach again at SIGUSR1, end at SIGINT or SIGTERM."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

try:
    from bcc import BPF  # type: ignore[import-not-found]
except ModuleNotFoundError:
    raise SystemExit("the floors are BCC programs, and /usr/bin/python3 has no bcc: install python3-bpfcc") from None

ENDS = {signal.SIGINT, signal.SIGTERM}


def _say(word: str) -> None:
    os.write(int(os.environ["STRATA_READY"]), f"{word}\n".encode())


def run(programs: str, tracepoints: Sequence[str], flags: Sequence[str] = ()) -> None:
    """`programs` has a function on_NAME for each of the (raw) tracepoints, in BCC's C."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDS, signal.SIGUSR1})
    bpf = BPF(text=programs, cflags=[*flags])
    attached = False

    def alternate() -> None:
        nonlocal attached
        for name in tracepoints:
            if attached:
                bpf.detach_raw_tracepoint(tp=name)
            else:
                bpf.attach_raw_tracepoint(tp=name, fn_name=f"on_{name}")
        attached = not attached

    alternate()
    _say("ready")
    while signal.sigwait({*ENDS, signal.SIGUSR1}) not in ENDS:
        alternate()
        _say("on" if attached else "off")
    bpf.cleanup()


def empty(tracepoints: Sequence[str]) -> str:
    """Programs that do nothing."""
    return "".join(f"int on_{name}(void *ctx) {{ return 0; }}\n" for name in tracepoints)
