# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a host, on purpose; ``heal`` undoes all of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed import host as hosts
from testbed.base import run_tool
from testbed.layout import BRIDGE, Host, State, find_host
from testbed.system import TestbedError, attempt, await_true, run

# linux/ethtool.h and linux/sockios.h
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
FILLER = "strata-testbed.filler"


@dataclass(frozen=True)
class Fault:
    """``apply(host, state, argument)``; ``argument`` says what the argument is, empty for none."""

    apply: Callable[[Host, State, str], None]
    argument: str
    text: str


def number(text: str, what: str, least: float = 0.0, most: float = float("inf")) -> float:
    """The argument as a number within bounds (inclusive)."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise TestbedError(
            f"{what}: a number from {least:g}" + (f" to {most:g}" if most < 1e18 else "") + f", not {text!r}"
        )
    return value


def cut(host: Host, _: State, __: str) -> None:
    run("ip", "link", "set", host.link, "down")


def deaf(host: Host, state: State, peer: str) -> None:
    """What the peer sends is lost; what this host sends arrives."""
    drop(host, state, f"ip saddr {find_host(state, peer).address} drop")


def lose(host: Host, state: State, percent: str) -> None:
    drop(host, state, f"numgen random mod 1000 < {int(number(percent, 'PERCENT', 0, 100) * 10)} drop")


def drop(host: Host, state: State, rule: str) -> None:
    inside(host, "nft", state, stdin=f"table ip fault {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}")


def inside(host: Host, tool: str, state: State, stdin: str = "") -> None:
    """nft in the host's network namespace; the host itself has no nft."""
    script = f"exec nsenter --net=/run/netns/{host.namespace} {tool} -f -"
    run_tool(state, "sh", "-c", script, stdin=stdin)


def limit_rate(host: Host, _: State, kbit: str) -> None:
    """Both directions: the bridge's end sends to the host, eth0 from it."""
    rate = f"{number(kbit, 'KBIT', 8):.0f}kbit"
    shape = ("root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
    run("tc", "qdisc", "replace", "dev", host.link, *shape)
    run("tc", "-n", host.namespace, "qdisc", "replace", "dev", "eth0", *shape)


def delay(host: Host, state: State, milliseconds: str) -> None:
    """Each way; the round trip grows by twice as much."""
    delay_ms = number(milliseconds, "MS", 0, 10_000)
    straighten(host, state)
    # The wire carries whole frames with complete checksums, which eth0 would leave to a network card.
    set_checksums(host, on=False)
    run("ip", "link", "set", host.link, "nomaster")
    wire = [sys.executable, str(Path(__file__).with_name("wire.py")), host.link, host.tap, str(delay_ms)]
    with (host.folder(state) / "wire.log").open("ab") as log:
        process = subprocess.Popen(wire, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    (host.folder(state) / "wire.pid").write_text(str(process.pid), encoding="ascii")
    tap = Path(f"/sys/class/net/{host.tap}")
    await_true(f"the wire of {host.name}", lambda: tap.exists() or process.poll() is not None, 5.0)
    run("ip", "link", "set", host.tap, "master", BRIDGE, "up")
    run("ip", "link", "set", host.link, "promisc", "on")


def straighten(host: Host, state: State) -> None:
    """Takes the delaying wire out."""
    pidfile = host.folder(state) / "wire.pid"
    if not pidfile.is_file():
        return
    pid = int(pidfile.read_text(encoding="ascii"))
    if "wire.py" in command_line(pid):
        os.kill(pid, signal.SIGTERM)
        await_true(f"the wire of {host.name} ends", lambda: "wire.py" not in command_line(pid), 5.0)
    pidfile.unlink()
    attempt("ip", "link", "set", host.link, "promisc", "off")
    attempt("ip", "link", "set", host.link, "master", BRIDGE)
    set_checksums(host, on=True)


def command_line(pid: int) -> str:
    """Empty for a process that has ended, also for one that nobody has waited for yet."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def set_checksums(host: Host, *, on: bool) -> None:
    """Whether eth0 leaves checksums to the hardware, which a cable between two namespaces has not (``ethtool -K``)."""
    code = (
        "import ctypes, fcntl, socket, struct, sys; v = ctypes.create_string_buffer("
        f"struct.pack('II', {ETHTOOL_STXCSUM}, {int(on)})); s = socket.socket(); "
        f"fcntl.ioctl(s, {SIOCETHTOOL}, struct.pack('16sP', b'eth0', ctypes.addressof(v)))"
    )
    attempt("nsenter", f"--net=/run/netns/{host.namespace}", sys.executable, "-c", code)


def kill(host: Host, _: State, unit: str) -> None:
    """``kill -9`` for every process of one systemd unit."""
    run(*hosts.enter(host), "systemctl", "kill", "--signal=KILL", unit)


def crash(host: Host, _: State, __: str) -> None:
    hosts.crash(host)


def freeze(host: Host, _: State, __: str) -> None:
    set_frozen(host, frozen=True)


def set_frozen(host: Host, *, frozen: bool) -> None:
    group = hosts.unified_group(host)
    if not group.is_dir():
        return
    (group / "cgroup.freeze").write_text(str(int(frozen)), encoding="ascii")
    wanted = f"frozen {int(frozen)}"
    await_true(f"{host.name}: {wanted}", lambda: wanted in (group / "cgroup.events").read_text(encoding="ascii"), 10.0)


def fill_disk(host: Host, state: State, left_mb: str) -> None:
    """Leaves so much free on /data."""
    keep = int(number(left_mb or "0", "MB_LEFT") * 1024 * 1024)
    size = shutil.disk_usage(host.data(state)).free - keep
    with (host.data(state) / FILLER).open("wb") as file:
        if size > 0:
            os.posix_fallocate(file.fileno(), 0, size)


def slow_disk(host: Host, state: State, bytes_per_s: str) -> None:
    """At the root of the hierarchy, where write-back is counted as well; a host's own group would miss it."""
    throttle(host, state, int(number(bytes_per_s, "BYTES_PER_S", 4096)))


def throttle(host: Host, state: State, bytes_per_s: int) -> None:
    folder = Path("/sys/fs/cgroup/blkio")
    if not folder.is_dir():
        raise TestbedError("slow-disk needs the blkio controller of cgroup v1 at /sys/fs/cgroup/blkio")
    device = Path("/sys/block", Path(host.device(state)).name, "dev").read_text(encoding="ascii").strip()
    for direction in ("read", "write"):
        file = folder / f"blkio.throttle.{direction}_bps_device"
        file.write_text(f"{device} {bytes_per_s}", encoding="ascii")


def heal(host: Host, state: State, _: str) -> None:
    set_frozen(host, frozen=False)
    straighten(host, state)
    attempt("ip", "link", "set", host.link, "up")
    attempt("tc", "qdisc", "delete", "dev", host.link, "root")
    attempt("tc", "-n", host.namespace, "qdisc", "delete", "dev", "eth0", "root")
    with contextlib.suppress(TestbedError):
        inside(host, "nft", state, stdin="delete table ip fault")
    (host.data(state) / FILLER).unlink(missing_ok=True)
    if (host.folder(state) / "loop").is_file() and Path("/sys/fs/cgroup/blkio").is_dir():
        throttle(host, state, 0)


FAULTS = {
    "cut": Fault(cut, "", "pull the network cable"),
    "deaf": Fault(deaf, "PEER", "lose what another host sends to this one, and not the other way round"),
    "loss": Fault(lose, "PERCENT", "lose a share of what arrives"),
    "delay": Fault(delay, "MS", "hold every frame back, each way"),
    "rate": Fault(limit_rate, "KBIT", "limit the cable, each way"),
    "kill": Fault(kill, "UNIT", "kill -9 what a systemd unit runs"),
    "crash": Fault(crash, "", "end the host at once; `start` boots it again"),
    "freeze": Fault(freeze, "", "stop all its processes"),
    "full-disk": Fault(fill_disk, "MB_LEFT", "fill /data"),
    "slow-disk": Fault(slow_disk, "BYTES_PER_S", "limit reads and writes of /data"),
    "heal": Fault(heal, "", "undo all of these but kill and crash"),
}
