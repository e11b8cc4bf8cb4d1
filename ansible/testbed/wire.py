# SPDX-License-Identifier: Apache-2.0
"""A longer cable: every frame of one host is held back for some milliseconds, in both directions.

For kernels without netem. The host's cable is pulled out of the bridge, and this process carries the frames
between its end and a TAP device in its place: ``wire.py LINK TAP DELAY_MS``. It ends with SIGTERM.
"""

from __future__ import annotations

import collections
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import time

# linux/if_tun.h, linux/if_packet.h, linux/if_ether.h
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
PACKET_OUTGOING, ETH_P_ALL = 4, 0x0003
FRAME_BYTES = 65536
BATCH = 64


def open_tap(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def open_link(name: str) -> socket.socket:
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    link.bind((name, ETH_P_ALL))
    link.setblocking(False)
    return link


class Wire:
    """Frames in the order of their coming; the delay is the same for all, so that is the order of their going."""

    def __init__(self, link: socket.socket, tap: int, delay_s: float) -> None:
        self.link, self.tap, self.delay_s = link, tap, delay_s
        self.waiting: collections.deque[tuple[float, bool, bytes]] = collections.deque()

    def take(self) -> None:
        """Everything that has come, up to a batch from each side."""
        due = time.monotonic() + self.delay_s
        for _ in range(BATCH):
            try:
                frame, address = self.link.recvfrom(FRAME_BYTES)
            except (BlockingIOError, OSError):
                break
            if address[2] != PACKET_OUTGOING:
                self.waiting.append((due, True, frame))
        for _ in range(BATCH):
            try:
                self.waiting.append((due, False, os.read(self.tap, FRAME_BYTES)))
            except (BlockingIOError, OSError):
                break

    def give(self) -> None:
        """Everything whose time has come; a full queue loses the frame, as a switch would."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, from_host, frame = self.waiting.popleft()
            try:
                if from_host:
                    os.write(self.tap, frame)
                else:
                    self.link.send(frame)
            except OSError:
                continue

    def wait_s(self) -> float:
        return max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else 1.0


def main(arguments: list[str]) -> int:
    link, tap, delay_ms = arguments
    wire = Wire(open_link(link), open_tap(tap), float(delay_ms) / 1000)
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    while not ended:
        select.select([wire.link.fileno(), wire.tap], [], [], wire.wait_s())
        wire.take()
        wire.give()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
