"""What the kernel counts about CPUs, processes and BPF programs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
TICK_NS = 10_000_000  # of /proc/stat: USER_HZ is 100 on all architectures


def busy_cpu_ns(stat: Path = Path("/proc/stat")) -> int:
    """Time that all CPUs together worked, for everything on this machine; not what the host took for others (steal)."""
    fields = stat.read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq = (int(field) for field in fields[1:8])
    return (user + nice + system + irq + softirq) * TICK_NS  # that of guests is in the user's, too


def requests() -> int:
    """Requests that all disks have completed; partitions count with their disk."""
    total = 0
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if Path("/sys/block", fields[2].replace("/", "!")).exists():
            total += sum(int(fields[i]) for i in (3, 7, 14, 18))  # reads, writes, discards, flushes
    return total


def process_cpu_ns(pid: int) -> int:
    """CPU time of the threads of a process."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            total += int(path.read_text().split()[0])
    return total


def resident_bytes(pid: int) -> int:
    """Peak resident memory of a process."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@dataclass(frozen=True)
class BpfObjects:
    """The ids of BPF programs and maps that a process holds open."""

    programs: frozenset[int]
    maps: frozenset[int]

    @classmethod
    def of(cls, pid: int) -> BpfObjects:
        """All that its file descriptors name; a link counts for its program."""
        ids: dict[str, set[int]] = {"prog_id": set(), "map_id": set()}
        for path in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                for key, value in re.findall(r"^(prog_id|map_id):\s+(\d+)$", path.read_text(), re.MULTILINE):
                    ids[key].add(int(value))
        return cls(frozenset(ids["prog_id"]), frozenset(ids["map_id"]))

    def left(self) -> BpfObjects:
        """Those of them that the kernel still knows."""
        return BpfObjects(
            self.programs & {entry["id"] for entry in _bpftool("prog")},
            self.maps & {entry["id"] for entry in _bpftool("map")},
        )

    def __bool__(self) -> bool:
        return bool(self.programs or self.maps)

    def run_time_ns(self) -> int:
        """Time in these programs while statistics were on."""
        return sum(entry.get("run_time_ns", 0) for entry in _bpftool("prog") if entry["id"] in self.programs)

    def run_times(self) -> dict[str, tuple[int, int]]:
        """The same by program: nanoseconds, and how often it ran.

        Older versions of bpftool tell 15 bytes of a name, as the kernel does: those that look alike are one.
        """
        found: dict[str, tuple[int, int]] = {}
        for entry in _bpftool("prog"):
            if entry["id"] in self.programs:
                ns, runs = found.get(str(entry["name"]), (0, 0))
                found[str(entry["name"])] = ns + entry.get("run_time_ns", 0), runs + entry.get("run_cnt", 0)
        return found

    def map_named(self, name: str) -> int | None:
        """Its id."""
        ids = [entry["id"] for entry in _bpftool("map") if entry["id"] in self.maps and str(entry["name"]) == name]
        return ids[0] if ids else None

    def kernel_bytes(self) -> int:
        """Memory of these maps and programs in the kernel."""
        programs = sum(entry.get("bytes_memlock", 0) for entry in _bpftool("prog") if entry["id"] in self.programs)
        maps = sum(entry.get("bytes_memlock", 0) for entry in _bpftool("map") if entry["id"] in self.maps)
        return programs + maps


def _bpftool(kind: str) -> list[dict[str, int]]:
    listing = subprocess.run(["bpftool", kind, "show", "-j"], check=True, capture_output=True, text=True)
    entries: list[dict[str, int]] = json.loads(listing.stdout or "[]")
    return entries


@contextmanager
def bpf_statistics() -> Iterator[None]:
    """Switches on the kernel's run-time statistics of BPF programs, which cost time themselves; then as before."""
    before = BPF_STATS.read_text()
    BPF_STATS.write_text("1")
    try:
        yield
    finally:
        BPF_STATS.write_text(before)
