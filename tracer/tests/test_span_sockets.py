"""Which sockets make a span: what a thread receives and sends there, and what others do with the same ones."""

from __future__ import annotations

import os
import platform
import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tracer.tests.spans import NEEDS, ended, samples, total, traced_in_a_thread

pytestmark = NEEDS

SYS_SENDTO = {"x86_64": 44, "aarch64": 206}[platform.machine()]


ASKS_EIGHT = "sB sC sD sE sF sG sH sI"
ANSWERS = ASKS_EIGHT.replace("s", "r")


@pytest.mark.parametrize(
    ("steps", "sockets", "interleaved"),
    [
        ("rA sA", "A", 0),
        ("rA rA sA sA", "A", 0),  # in parts
        ("rA sA rA sA", "AA", 0),
        ("rA rB sA sB", "B", 1),  # two at a time: the second one's span is whole
        ("rA sB rB sA", "A", 0),  # asks somebody else before it answers
        ("sA rB sB", "B", 0),  # a response whose request was not seen
        ("rA sB sC rB rC sA", "A", 0),  # asks two at once
        ("rA sB sC rB sB rB rC sA", "A", 0),  # and one of them again
        (f"rA {ASKS_EIGHT} {ANSWERS} sA", "A", 0),
        (f"rA {ASKS_EIGHT} {ASKS_EIGHT} {ANSWERS} sA", "A", 0),
        (f"rA {ASKS_EIGHT} sJ sK rJ rK {ANSWERS} sA rA sA", "A", 1),  # on more than are kept
        ("rA sB rB rC sC sA", "C", 1),  # asks one, and receives from another
    ],
)
def test_what_makes_a_span(steps: str, sockets: str, interleaved: int, disk: str, tmp_path: Path) -> None:
    """In one thread, which receives bytes from these sockets and sends to them: the spans, by their sockets."""
    pairs = {name: socket.socketpair() for name in "ABCDEFGHIJK"}
    for _, far in pairs.values():
        far.sendall(b"xxxx")  # before the trace: all that is to be received

    def run() -> None:
        for step in steps.split():
            near = pairs[step[1]][0]
            near.recv(1) if step[0] == "r" else near.send(b"y")

    names = {os.fstat(near.fileno()).st_ino: name for name, (near, _) in pairs.items()}
    try:
        path = traced_in_a_thread(run, disk, tmp_path)
    finally:
        for pair in pairs.values():
            for end in pair:
                end.close()
    assert ended(path, os.getpid()) == len(sockets)
    found = samples(path)
    assert total(path, os.getpid(), "spans") == len(found)
    assert {names[sample["socket_inode"]] for sample in found} <= set(sockets)
    assert total(path, os.getpid(), "interleaved") == interleaved
    assert total(path, os.getpid(), "handed_over") == 0


@contextmanager
def full(requests: bytes) -> Iterator[socket.socket]:
    """A socket to which there is nothing to send before give_room(), with requests to be received."""
    near, far = socket.socketpair()
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with suppress(BlockingIOError):
            while True:
                near.send(b"y", socket.MSG_DONTWAIT)
        far.sendall(requests)
        yield near


def give_room(near: socket.socket) -> None:
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)


@pytest.mark.parametrize("has_room", [True, False], ids=["no bytes", "no room"])
def test_another_thread_that_sends_nothing_does_not_answer(has_room: bool, disk: str, tmp_path: Path) -> None:
    requests = 5

    def send_nothing(near: socket.socket) -> None:
        if has_room:
            assert os.write(near.fileno(), b"") == 0
        else:
            with pytest.raises(BlockingIOError):
                near.send(b"y", socket.MSG_DONTWAIT)

    with ExitStack() as stack:
        sockets = [stack.enter_context(full(b"xx")) for _ in range(requests)]
        others = stack.enter_context(ThreadPoolExecutor(1))

        def run() -> None:
            for near in sockets:
                near.recv(1)
                others.submit(send_nothing, near).result()
                near.recv(1)  # more of the same request
                give_room(near)
                near.send(b"y")

        path = traced_in_a_thread(run, disk, tmp_path)
    assert ended(path, os.getpid()) == requests
    assert total(path, os.getpid(), "handed_over") == total(path, os.getpid(), "interleaved") == 0


def test_a_request_that_comes_while_another_thread_answers_the_one_before(disk: str, tmp_path: Path) -> None:
    sends: queue.Queue[int] = queue.Queue()

    with full(b"xx") as near, ThreadPoolExecutor(1) as others:

        def answer() -> None:
            sends.put(threading.get_native_id())
            near.send(b"y")

        def run() -> None:
            near.recv(1)
            answering = others.submit(answer)
            call = Path(f"/proc/self/task/{sends.get()}/syscall")
            while call.read_text().split()[0] != str(SYS_SENDTO):
                time.sleep(0.001)
            near.recv(1)
            give_room(near)
            answering.result()
            near.send(b"y")

        path = traced_in_a_thread(run, disk, tmp_path)
    assert ended(path, os.getpid()) == 1
    assert total(path, os.getpid(), "handed_over") == 1
    assert total(path, os.getpid(), "interleaved") == 0
