"""Each system call that receives from a socket or sends to one begins or ends a span, by the caller's own clock."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tracer.tests.spans import NEEDS, ended, samples, total, traced_in_a_thread
from tracer.tests.test_calls import LIBC, Vector

pytestmark = NEEDS


class Message(ctypes.Structure):
    """struct mmsghdr, whose first seven are struct msghdr"""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("length", ctypes.c_uint),
    )


def one_message(call: str, end: socket.socket, file: int) -> int:
    """Receives or sends a byte by recvmmsg or sendmmsg, which Python does not have."""
    byte = ctypes.create_string_buffer(1)
    message = Message(vectors=ctypes.pointer(Vector(ctypes.addressof(byte), 1)), vector_count=1)
    arguments = [end.fileno(), ctypes.byref(message), 1, 0]
    assert getattr(LIBC, call)(*arguments, *([None] if call == "recvmmsg" else [])) == 1
    return int(message.length)


#: One byte of a socket, received or sent.
RECEIVING: dict[str, Callable[[socket.socket, int], object]] = {
    "read": lambda end, _: os.read(end.fileno(), 1),
    "readv": lambda end, _: os.readv(end.fileno(), [bytearray(1)]),
    "recv": lambda end, _: end.recv(1),
    "recvmsg": lambda end, _: end.recvmsg(1),
    "recvmmsg": partial(one_message, "recvmmsg"),
}
SENDING: dict[str, Callable[[socket.socket, int], object]] = {
    "write": lambda end, _: os.write(end.fileno(), b"y"),
    "writev": lambda end, _: os.writev(end.fileno(), [b"y"]),
    "send": lambda end, _: end.send(b"y"),
    "sendmsg": lambda end, _: end.sendmsg([b"y"]),
    "sendmmsg": partial(one_message, "sendmmsg"),
    "sendfile": lambda end, file: os.sendfile(end.fileno(), file, 0, 1),
}


@pytest.mark.parametrize(
    ("receiving", "sending"), [*zip(RECEIVING, SENDING, strict=False), ("recv", "sendfile")], ids=str
)
def test_each_call_begins_or_ends_one_span(receiving: str, sending: str, disk: str, tmp_path: Path) -> None:
    requests = 5
    clock = time.monotonic_ns
    times: list[tuple[int, int, int, int]] = []
    near, far = socket.socketpair()
    (tmp_path / "file").write_bytes(b"y")
    opened = os.open(tmp_path / "file", os.O_RDONLY)

    def run() -> None:
        for _ in range(requests):
            far.send(b"x")
            asked = clock()
            RECEIVING[receiving](near, opened)
            received = clock()
            time.sleep(0.002)
            answers = clock()
            SENDING[sending](near, opened)
            times.append((asked, received, answers, clock()))

    try:
        path = traced_in_a_thread(run, disk, tmp_path)
    finally:
        os.close(opened)
        near.close()
        far.close()
    assert ended(path, os.getpid()) == len(times) == requests
    assert total(path, os.getpid(), "handed_over") == total(path, os.getpid(), "interleaved") == 0
    found = samples(path)
    assert len(found) == total(path, os.getpid(), "spans")
    for sample in found:
        begin_ns, end_ns = sample["t_mono_ns"], sample["t_mono_ns"] + sample["total_ns"]
        assert len([t for t in times if t[0] <= begin_ns <= t[1] < t[2] <= end_ns <= t[3]]) == 1
