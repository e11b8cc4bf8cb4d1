"""A server with a thread per connection, which says by its own clocks what each request cost it.

    python span_server.py FILE tcp|PATH

Prints where it listens. A request is a line `kind microseconds` (of `read`: how many reads of a block). The response
is a line of JSON, in ns: `tid`, `at` (CLOCK_MONOTONIC, its begin), `wall` and `cpu` of the thread from the return of
the receiving call to just before the sending one, `queued` that it was runnable without a CPU in between by the
scheduler's account, `around` how long asking for that took (a wait meanwhile may not be in `queued`), `work` of what
was asked for. A request `hand` is answered by another thread than the one that has received it. The response to
`sendfile bytes` is that much of the file, sent by one call; the line of JSON comes behind it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import queue
import socket
import sys
import threading
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]
FUTEX_WAIT_PRIVATE = 128
BLOCK_BYTES = 1 << 20
handed: queue.Queue[tuple[socket.socket, float]] = queue.Queue()


class Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def lock(seconds: float) -> None:
    """Waits in a futex that nobody wakes, as for a lock that is held so long."""
    word = ctypes.c_int(0)
    timeout = Timespec(0, int(seconds * 1e9))
    LIBC.syscall(SYS_FUTEX, ctypes.byref(word), FUTEX_WAIT_PRIVATE, 0, ctypes.byref(timeout), None, 0)


def read(blocks: float) -> None:
    with mmap.mmap(-1, BLOCK_BYTES) as page:
        file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
        for _ in range(round(blocks * 1e6)):
            os.preadv(file, [page], 0)
        os.close(file)


def send_file(connection: socket.socket, size: float) -> None:
    file = os.open(sys.argv[1], os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no read ahead: it waits for the disk again and again
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # less: it waits for the reader, too
    assert os.sendfile(connection.fileno(), file, 0, round(size * 1e6)) == round(size * 1e6)
    os.close(file)


WORK = {"compute": compute, "lock": lock, "read": read, "sleep": time.sleep}


def queued_ns() -> int:
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


def answer(line: bytes, connection: socket.socket) -> dict[str, int]:
    begin, cpu, queued = time.monotonic_ns(), time.thread_time_ns(), queued_ns()
    before = time.monotonic_ns()
    kind, amount = line.decode().split()
    if kind == "sendfile":
        send_file(connection, int(amount) / 1e6)
    else:
        WORK[kind](int(amount) / 1e6)
    after = time.monotonic_ns()
    queued, cpu, end = queued_ns() - queued, time.thread_time_ns() - cpu, time.monotonic_ns()
    return {
        "tid": threading.get_native_id(),
        "at": begin,
        "work": after - before,
        "around": before - begin + end - after,
        "queued": queued,
        "cpu": cpu,
        "wall": end - begin,
    }


def serve(connection: socket.socket) -> None:
    while line := connection.recv(100):
        if line.startswith(b"hand"):
            handed.put((connection, int(line.split()[1]) / 1e6))
        else:
            connection.sendall(json.dumps(answer(line, connection)).encode() + b"\n")
    threading.Event().wait()  # is there as long as somebody may ask whose thread it was


def answer_what_was_handed() -> None:
    while True:
        connection, seconds = handed.get()
        time.sleep(seconds)
        connection.sendall(b"{}\n")


def listen(place: str) -> socket.socket:
    if place == "tcp":
        return socket.create_server(("127.0.0.1", 0))
    server = socket.socket(socket.AF_UNIX)
    server.bind(place)
    server.listen()
    return server


def main() -> None:
    threading.Thread(target=answer_what_was_handed, daemon=True).start()
    with listen(sys.argv[2]) as server:
        name = server.getsockname()
        print(name if isinstance(name, str) else name[1], flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
