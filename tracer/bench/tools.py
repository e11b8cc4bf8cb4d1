"""The tracers that are compared: how each is started, when it is ready, and what it says it has lost.

Each runs in a mount namespace of its own, where tracefs and debugfs are mounted even if the machine has not done so.
"""

from __future__ import annotations

import json
import os
import platform
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracer.bench.block_trace import end_block_trace
from tracer.bench.counters import BpfObjects, process_cpu_ns
from tracer.guests.command import UnavailableError
from tracer.guests.kernels import KERNELS, prepare_headers

TRACER = Path(__file__).resolve().parents[1] / "build" / "strata-iotrace"
PEERS = Path(__file__).with_name("peers")
READY_TIMEOUT_S = 20
STOP_TIMEOUT_S = 30
ALTERNATE_TIMEOUT_S = 10
GONE_TIMEOUT_S = 15

# Of what a tool says when it fails, the line worth repeating.
TELLING = re.compile(r"error|fail|not permitted|not found|no such", re.IGNORECASE)
BESIDE_THE_POINT = re.compile(r"RLIMIT_MEMLOCK|WARNING")

MOUNTS = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
exec "$@"
"""


class ToolError(Exception):
    """The tool does not run here; the text is what it said."""


@dataclass(frozen=True)
class Tool:
    """A tracer. `command` gets the disk's name and a folder to write to (memory, not the disk under test)."""

    name: str
    command: Callable[[str, Path], list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    says_ready: bool = False  # writes a line to the file descriptor in STRATA_READY; else its first record tells
    counts: Callable[[Path], tuple[int | None, int | None]] = lambda _folder: (None, None)
    own: bool = False


def strata(name: str = "strata-iotrace", arguments: tuple[str, ...] = ()) -> Tool:
    def command(device: str, folder: Path) -> list[str]:
        shell = 'exec "$0" --ready-fd "$STRATA_READY" "$@"'
        words = [word.replace("{folder}", str(folder)) for word in arguments]
        return ["sh", "-c", shell, str(TRACER), "--output", f"{folder}/io.bin", "--device", device, *words]

    def counts(folder: Path) -> tuple[int | None, int | None]:
        status = json.loads((folder / "io.bin.json").read_text())
        return status["emitted"], status["dropped"]

    return Tool(name, command, says_ready=True, counts=counts, own=True)


def _lines(folder: Path) -> int:
    with (folder / "stdout").open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _lost_events_of_bpftrace(folder: Path) -> tuple[int | None, int | None]:
    told = re.findall(rb"Lost (\d+) events", (folder / "stderr").read_bytes() + (folder / "stdout").read_bytes())
    return _lines(folder), sum(map(int, told))


def _counts_of_bcc_script(folder: Path) -> tuple[int | None, int | None]:
    told = re.search(r"records (\d+) lost (\d+)", (folder / "stderr").read_text())
    return (int(told[1]), int(told[2])) if told else (None, None)


def _headers_for_bcc() -> dict[str, str]:
    """BCC compiles at its start; without the kernel's own headers, Debian's do for a script that reads none of them."""
    if (Path("/lib/modules") / platform.release() / "build").exists():
        return {}
    try:
        return {"BCC_KERNEL_SOURCE": str(prepare_headers(KERNELS["6.1"]))}
    except UnavailableError:
        return {}


#: Without these no tracer can tell when a request was queued, issued and done.
REQUEST_TRACEPOINTS = ("block_bio_queue", "block_rq_issue", "block_rq_complete")
#: Without it driver and device are not told apart on disks of virtio and, without NVMe's tracepoints, NVMe.
INTERRUPT_TRACEPOINT = "irq_handler_entry"


def _floor(name: str, script: str, *arguments: str) -> Tool:
    def command(_device: str, folder: Path) -> list[str]:
        words = [word.replace("{folder}", str(folder)) for word in arguments]
        return ["/usr/bin/python3", str(PEERS / script), *words]

    return Tool(name, command, _headers_for_bcc(), says_ready=True)


RECORD_BYTES_OF_A_FLOOR = 64


def _least(name: str, *tracepoints: str) -> Tool:
    def counts(folder: Path) -> tuple[int | None, int | None]:
        return (folder / "records").stat().st_size // RECORD_BYTES_OF_A_FLOOR, None

    return replace(_floor(name, "least.py", "{folder}/records", *tracepoints), counts=counts)


def ours() -> list[Tool]:
    """The tracer as it is asked for most."""
    return [
        strata("strata-iotrace --no-vfs", ("--no-vfs",)),
        strata(),
        strata("strata-iotrace --vfs", ("--vfs",)),
    ]


def beside() -> list[Tool]:
    """What it tells beside I/O, each by itself and all together."""
    context, peers, spans = (("--" + name, f"{{folder}}/{name}.csv") for name in ("context", "peers", "spans"))
    return [
        strata(),
        strata("strata-iotrace --context", context),
        strata("strata-iotrace --peers", peers),
        strata("strata-iotrace --spans", spans),
        strata("strata-iotrace, all three", (*context, *peers, *spans)),
    ]


def floors() -> list[Tool]:
    """Below which no tracer that is attached to these tracepoints comes: programs that do nothing, or the least.

    Each of our modes has the one of its own tracepoints: the least with interrupts stands beside --no-vfs, with
    sys_enter beside the default, with sys_exit beside --vfs. None has block_io_done, which ours has where completions
    interrupt one another.
    """
    return [
        _floor("empty programs", "empty.py", *REQUEST_TRACEPOINTS),
        _floor("empty programs, interrupts too", "empty.py", *REQUEST_TRACEPOINTS, INTERRUPT_TRACEPOINT),
        _least("the least with a record"),
        _least("the least, interrupts too", INTERRUPT_TRACEPOINT),
        _least("the least, interrupts and sys_enter too", INTERRUPT_TRACEPOINT, "sys_enter"),
        _least("the least, sys_exit too", INTERRUPT_TRACEPOINT, "sys_enter", "sys_exit"),
    ]


def control() -> Tool:
    """Attaches nothing: what is not 1 here is the measurement's own."""
    return _floor("nothing attached", "empty.py")


def device_time(cpu: int, interrupts: Sequence[int], load: Sequence[str]) -> Tool:
    """No tool to measure: starts a load that has one I/O at a time, and tells it what the device takes of each."""
    return _floor("device time", "device_time.py", str(cpu), ",".join(map(str, interrupts)), *load)


def peers() -> list[Tool]:
    """What others use."""
    return [
        Tool("bpftrace script", lambda _device, _folder: ["bpftrace", str(PEERS / "biosnoop.bt")],
             counts=_lost_events_of_bpftrace),
        Tool("BCC ring buffer script", lambda _device, _folder: ["/usr/bin/python3", str(PEERS / "bcc_biosnoop.py")],
             _headers_for_bcc(), counts=_counts_of_bcc_script),
        Tool("BCC biosnoop", lambda _device, _folder: ["biosnoop-bpfcc"]),
        Tool("libbpf-tools biosnoop", lambda device, _folder: ["biosnoop", "-d", device]),
        Tool("bpftrace biosnoop.bt", lambda _device, _folder: ["biosnoop.bt"]),
        Tool("blktrace", lambda device, _folder: ["blktrace", "-d", f"/dev/{device}", "-o", "-"]),
    ]  # fmt: skip


class Attached:
    """A tool at work, from its readiness on; `detach` ends it and waits until nothing of it is in the kernel.

    Afterwards `cpu_ns` is the CPU time of its process while it was ready, `records` and `lost` what it counted.
    """

    def __init__(self, tool: Tool, device: str, folder: Path) -> None:
        self.tool = tool
        self.folder = folder
        self._device = device
        begin = time.monotonic()
        self.cpu_ns = 0
        self.records: int | None = None
        self.lost: int | None = None
        self._start(device)
        try:
            self._await_ready()
            self.start_s = time.monotonic() - begin
            self.objects = BpfObjects.of(self.pid)
            self._cpu_at_ready_ns = process_cpu_ns(self.pid)
        except BaseException:
            self._kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _start(self, device: str) -> None:
        read_end, write_end = os.pipe()
        self._ready_fd = read_end
        environment = {**os.environ, **self.tool.environment, "STRATA_READY": str(write_end)}
        inner = ["sh", "-c", MOUNTS, "sh", *self.tool.command(device, self.folder)]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--", *inner],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=environment,
                pass_fds=[write_end],
                process_group=0,  # Ctrl-C is for the bench, which detaches it
            )
        os.close(write_end)
        os.set_blocking(read_end, False)

    def _is_ready(self) -> bool:
        if not self.tool.says_ready:
            # The load never pauses, so the first records come at once; a header line is shorter.
            return (self.folder / "stdout").stat().st_size > 500
        with suppress(BlockingIOError):
            return os.read(self._ready_fd, 16).startswith(b"ready")
        return False

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None:
                raise ToolError(self._last_words() or f"ended with {self._process.returncode}")
            if time.monotonic() > deadline:
                raise ToolError(f"not ready after {READY_TIMEOUT_S} s: {self._last_words()}")
            time.sleep(0.01)

    def _last_words(self) -> str:
        text = (self.folder / "stderr").read_text(errors="replace") + (self.folder / "stdout").read_text(
            errors="replace"
        )
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        telling = [line for line in lines if TELLING.search(line) and not BESIDE_THE_POINT.search(line)]
        return (telling or lines or [""])[0][:300]

    def alternate(self) -> None:
        """Has a tool that can do so detach its programs, or attach them again; returns when it has."""
        self._process.send_signal(signal.SIGUSR1)
        if not select.select([self._ready_fd], [], [], ALTERNATE_TIMEOUT_S)[0] or not os.read(self._ready_fd, 16):
            raise ToolError(f"does not alternate: {self._last_words()}")

    def detach(self) -> None:
        try:
            if self._process.poll() is not None:
                raise ToolError(f"ended while it was measured: {self._last_words()}")
            self.cpu_ns = process_cpu_ns(self.pid) - self._cpu_at_ready_ns
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ToolError(f"did not end within {STOP_TIMEOUT_S} s after SIGINT") from None
        finally:
            self._kill()
        await_gone(self.objects)
        self.records, self.lost = self.tool.counts(self.folder)

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            os.close(self._ready_fd)
        self._ready_fd = -1
        end_block_trace(self._device)


def await_gone(objects: BpfObjects) -> None:
    """Detaching is deferred in the kernel; raises ToolError for what stays."""
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while left := objects.left():
        if time.monotonic() > deadline:
            raise ToolError(f"programs {sorted(left.programs)} and maps {sorted(left.maps)} stayed in the kernel")
        time.sleep(0.02)


def variant(text: str) -> Tool:
    """`NAME=ARGUMENTS`: our tracer with other arguments, as a tool; `{folder}` in them: where it may write."""
    name, _, arguments = text.partition("=")
    return strata(name, tuple(shlex.split(arguments)))
