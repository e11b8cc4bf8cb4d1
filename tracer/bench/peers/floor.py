"""What the floors share: attach programs, say so, detach and attach again at SIGUSR1, end at SIGINT or SIGTERM."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence

try:
    from bcc import BPF  # type: ignore[import-not-found]
except ModuleNotFoundError:
    raise SystemExit("the floors are BCC programs, and /usr/bin/python3 has no bcc: install python3-bpfcc") from None

ENDS = {signal.SIGINT, signal.SIGTERM}


def say(word: str) -> None:
    os.write(int(os.environ["STRATA_READY"]), f"{word}\n".encode())


PAUSE_S = 0.05  # as long as ours at depth 1


def _next_signal(read: Callable[[], None] | None) -> int:
    waited_for = {*ENDS, signal.SIGUSR1}
    if not read:
        return signal.sigwait(waited_for)
    while not (got := signal.sigtimedwait(waited_for, PAUSE_S)):
        read()
    return got.si_signo


def run(
    programs: str,
    tracepoints: Sequence[str],
    flags: Sequence[str] = (),
    reader: Callable[[BPF], Callable[[], None]] | None = None,
) -> None:
    """`programs` has a function on_NAME for each of the (raw) tracepoints, in BCC's C. What `reader` returns is called
    every PAUSE_S.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDS, signal.SIGUSR1})
    bpf = BPF(text=programs, cflags=[*flags])
    read = reader(bpf) if reader else None
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
    say("ready")
    while _next_signal(read) not in ENDS:
        alternate()
        say("on" if attached else "off")
    bpf.cleanup()


def empty(tracepoints: Sequence[str]) -> str:
    """Programs that do nothing."""
    return "".join(f"int on_{name}(void *ctx) {{ return 0; }}\n" for name in tracepoints)
