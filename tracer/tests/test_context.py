"""The context, held against what the kernel says elsewhere and what was done."""

from __future__ import annotations

import csv
import mmap
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tracer.tests.cgroups import limited, start_in
from tracer.tests.tracing import TRACER, altered, ftrace, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def waited_ns(pid: int) -> int:
    """Time the process was runnable without a CPU, by the scheduler's own account."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def test_each_second_has_a_line(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "context.csv"
    difference = time.time_ns() - time.monotonic_ns()
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        time.sleep(2.5)
        assert trace.stop() == 0
    lines = lines_of(path)
    status = trace.status()
    assert len(lines) == 3
    times = [int(line["t_mono_ns"]) for line in lines]
    assert all(int(b["interval_ns"]) == t - s for b, t, s in zip(lines[1:], times[1:], times, strict=False))
    assert sum(int(line["interval_ns"]) for line in lines) == pytest.approx(
        times[-1] - status["started_mono_ns"], abs=1e9
    )
    assert all(abs(int(line["t_unix_ns"]) - int(line["t_mono_ns"]) - difference) < 1e9 for line in lines)


SWITCH = re.compile(r"([\d.]+): sched_switch: .*prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)")
WAKEUP = re.compile(r"([\d.]+): sched_wakeup(?:_new)?: .* pid=(\d+) ")


def waits_in(log: str, begin_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """By ftrace's log: when a thread got a CPU, and how long it had waited for it."""
    since_ns: dict[str, int] = {}
    waits = []
    for line in log.splitlines():
        switch, wakeup = SWITCH.search(line), WAKEUP.search(line)
        event = switch or wakeup
        if not event or not begin_ns <= (now_ns := round(float(event[1]) * 1e6) * 1000) <= end_ns:
            continue
        if wakeup:
            since_ns[wakeup[2]] = now_ns
        elif switch:
            since_ns.pop(switch[2], None)
            if switch[3].startswith("R"):  # R+: preempted
                since_ns[switch[2]] = now_ns
            if switch[4] in since_ns and switch[4] != "0":
                waits.append((now_ns, now_ns - since_ns.pop(switch[4])))
    return waits


def assert_quantile(told_ns: int, waits_ns: list[int], permille: int) -> None:
    """Among those around it, for the log has a switch some microseconds before or after the tracer; an upper edge."""
    low, high = (waits_ns[len(waits_ns) * bound // 1000] for bound in (permille - 8, permille + 8))
    assert 0.9 * low - 2000 <= told_ns <= 1.25 * 1.1 * high + 2000


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not account waiting")
def test_waiting_for_a_cpu(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "context.csv"
    with (
        ftrace(tmp_path, "sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new") as log,
        tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace,
    ):
        before = told()
        loops = [subprocess.Popen(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]) for _ in range(3)]
        try:
            time.sleep(1.5)
            waited = sum(waited_ns(loop.pid) for loop in loops)
            after = told()
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert trace.stop() == 0
        events = log.read_text(errors="replace")
    status = trace.status()
    waits = waits_in(events, status["started_mono_ns"], status["stopped_mono_ns"])
    lines = [line for line in lines_of(path) if line["run_queue_mean_ns"]]
    counted = sum(int(line["run_queue_waits"]) * float(line["run_queue_mean_ns"]) for line in lines)
    # What still waits at the end has not been counted yet.
    assert waited > 1e9
    assert counted > 0.8 * waited
    assert counted == pytest.approx(sum(wait_ns for _, wait_ns in waits), rel=0.03)
    # The log misses switches away from an idle task (docs/tracer-trust.md), which end short waits.
    assert total(lines, "run_queue_waits") >= 0.97 * len(waits)
    for line in lines:
        end_ns = int(line["t_mono_ns"])
        of_line = sorted(wait_ns for at_ns, wait_ns in waits if end_ns - int(line["interval_ns"]) < at_ns <= end_ns)
        if len(of_line) >= 100:
            assert_quantile(int(line["run_queue_p99_ns"]), of_line, 990)
        assert int(line["run_queue_p50_ns"]) <= int(line["run_queue_p99_ns"])
    if has_pressure():
        assert after["pressure_cpu_some_us"] > before["pressure_cpu_some_us"]
        assert total(lines, "pressure_cpu_some_us") >= after["pressure_cpu_some_us"] - before["pressure_cpu_some_us"]


def test_more_tasks_that_wait_than_places(disk: str, tmp_path: Path) -> None:
    """Of a build with four places, among which are all tasks: some waits are not counted, none has a wrong time."""
    few = altered(tmp_path, {"bpf/iotrace.h": {"WAITING_BUCKET_BITS 13": "WAITING_BUCKET_BITS 0"}})
    path = tmp_path / "context.csv"
    with (
        ftrace(tmp_path, "sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new") as log,
        tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path), binary=few) as trace,
    ):
        spin(8, 1.2)
        assert trace.stop() == 0
        events = log.read_text(errors="replace")
    status = trace.status()
    waits = [wait_ns for _, wait_ns in waits_in(events, status["started_mono_ns"], status["stopped_mono_ns"])]
    lines = [line for line in lines_of(path) if line["run_queue_mean_ns"]]
    counted = sum(int(line["run_queue_waits"]) * float(line["run_queue_mean_ns"]) for line in lines)
    assert total(lines, "run_queue_waits") > 100
    assert 0 < counted < 0.97 * sum(waits)
    assert max(int(line["run_queue_p99_ns"]) for line in lines) <= 1.25 * max(waits) + 2000


def has_loopback() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_loopback(), reason="127.0.0.1 cannot be reached")
def test_page_cache_and_tcp(mounted: Path, disk: str, tmp_path: Path) -> None:
    file = mounted / "file"
    file.write_bytes(os.urandom(8 << 20))
    os.sync()
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    path = tmp_path / "context.csv"
    with ftrace(tmp_path, "filemap/mm_filemap_add_to_page_cache") as log:
        with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
            file.read_bytes()
            with (
                socket.create_server(("127.0.0.1", 0)) as server,
                socket.create_connection(server.getsockname()) as client,
            ):
                answering, _ = server.accept()
                with answering:
                    for _ in range(500):
                        client.sendall(b"x")
                        answering.recv(1)
                        answering.sendall(b"y")
                        client.recv(1)
            assert trace.stop() == 0
        events = log.read_text(errors="replace")
        added = events.count(": mm_filemap_add_to_page_cache: ")
        of_file = len(re.findall(rf": mm_filemap_add_to_page_cache: .* ino {file.stat().st_ino:x} ", events))
    lines = lines_of(path)
    assert of_file >= (8 << 20) // 4096 // 16  # large folios count once
    assert of_file <= total(lines, "page_cache_folios_added") <= added
    assert total(lines, "tcp_rtt_samples") >= 500


def test_reads_that_hit_the_page_cache_and_that_miss_it(mounted: Path, disk: str, tmp_path: Path) -> None:
    file = mounted / "file"
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    path = tmp_path / "context.csv"
    opened = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: a request for each first read
        arguments = ("--device", disk, "--pid", str(os.getpid()), "--vfs", "--context", str(path))
        with tracing(tmp_path / "io.bin", *arguments) as trace:
            for _ in range(4):
                for block in range(32):
                    os.pread(opened, 4096, block << 20)
            assert trace.stop() == 0
    finally:
        os.close(opened)
    lines = lines_of(path)
    assert sum(int(line["cached_reads"]) for line in lines) == 3 * 32
    assert sum(int(line["reads_with_io"]) for line in lines) == 32


#: What `cpu` in /proc/stat counts (Documentation/filesystems/proc.rst).
CPU_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
#: The second one before 5.9, when there was no other.
REFAULTS = ("workingset_refault_file", "workingset_refault")
VMSTAT = Path("/proc/vmstat").read_text().split()[::2]
#: By the kernel's documentation (mm/workingset.c, admin-guide/cgroup-v2.rst, accounting/psi.rst): column, file, name.
TOLD = {
    "major_faults": ("vmstat", "pgmajfault"),
    "refaulted_file_pages": ("vmstat", next((name for name in REFAULTS if name in VMSTAT), "")),
    "cpu_steal_ticks": ("stat", "steal"),
    "cpu_iowait_ticks": ("stat", "iowait"),
    "pressure_cpu_some_us": ("pressure/cpu", "some"),
    "pressure_io_some_us": ("pressure/io", "some"),
    "pressure_io_full_us": ("pressure/io", "full"),
    "pressure_memory_some_us": ("pressure/memory", "some"),
    "pressure_memory_full_us": ("pressure/memory", "full"),
}
UNSEEN_PAGES = 512  # by which those may differ between two looks at them
STATES = {"dirty_pages": ("vmstat", "nr_dirty"), "writeback_pages": ("vmstat", "nr_writeback")}


def has_pressure() -> bool:
    try:
        return bool(Path("/proc/pressure/io").read_text())
    except OSError:
        return False


def columns_told() -> set[str]:
    return {column for column, (file, _) in TOLD.items() if has_pressure() or not file.startswith("pressure")}


def vmstat() -> dict[str, int]:
    return {name: int(value) for name, value in map(str.split, Path("/proc/vmstat").read_text().splitlines())}


def told() -> dict[str, int]:
    """What the kernel has counted since the machine was started, by the context's columns."""
    counts: dict[tuple[str, str], int] = {("vmstat", name): value for name, value in vmstat().items()}
    cpu = Path("/proc/stat").read_text().splitlines()[0].split()
    counts |= {("stat", name): int(value) for name, value in zip(CPU_TICKS, cpu[1:], strict=True)}
    for what in ("cpu", "io", "memory") if has_pressure() else ():
        for line in Path("/proc/pressure", what).read_text().splitlines():
            counts[f"pressure/{what}", line.split()[0]] = int(line.rpartition("total=")[2])
    return {column: counts[TOLD[column]] for column in columns_told()}


def total(lines: list[dict[str, str]], column: str) -> int:
    return sum(int(line[column]) for line in lines)


def drop_from_cache(file: Path) -> None:
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_directly(file: Path, seconds: float) -> None:
    end, opened = time.monotonic() + seconds, os.open(file, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as page:
        while time.monotonic() < end:
            os.preadv(opened, [page], 0)
    os.close(opened)


def fault_in(file: Path) -> None:
    drop_from_cache(file)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 8 << 20, prot=mmap.PROT_READ) as pages:
        pages.madvise(mmap.MADV_RANDOM)
        assert sum(pages[at] for at in range(0, len(pages), mmap.PAGESIZE)) > 0


def read_again_and_again(file: Path) -> None:
    """In a cgroup in which half of it has room."""
    limit = str(file.stat().st_size // 2)
    with limited(("memory", "memory"), v1={"memory.limit_in_bytes": limit}, v2={"memory.max": limit}) as group:
        for _ in range(3):
            reader = start_in(group, "cksum", str(file))
            assert reader.stdout
            with reader.stdout as output:
                assert output.read()
            assert reader.wait() == 0


def spin(count: int, seconds: float) -> None:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    time.sleep(seconds)
    for loop in loops:
        loop.kill()
        loop.wait()


def test_what_grows_is_what_the_kernel_counts(mounted: Path, disk: str, tmp_path: Path) -> None:
    """The lines together, between what this test sees grow within the trace and around it."""
    file, path = mounted / "file", tmp_path / "context.csv"
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    around = told()
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        before = told()
        read_directly(file, 0.8)
        fault_in(file)
        drop_from_cache(file)
        read_again_and_again(file)
        spin(2 * (os.cpu_count() or 1), 0.8)
        # "full" grows only while a CPU has nothing else to do. Where others leave it none, the kernel counts nothing.
        end = time.monotonic() + 10
        while has_busy_cpus := has_pressure() and told()["pressure_io_full_us"] == before["pressure_io_full_us"]:
            if time.monotonic() > end:
                break
            read_directly(file, 0.2)
        within = {column: count - before[column] for column, count in told().items()}
        assert trace.stop() == 0
    around = {column: count - around[column] for column, count in told().items()}
    lines = lines_of(path)
    seen = {column: total(lines, column) for column in columns_told()}
    # What a CPU has not accounted yet, or takes back, is less than a tick.
    slack = {column: os.cpu_count() or 1 if column.endswith("_ticks") else 0 for column in seen}
    assert {
        column: (within[column], count, around[column])
        for column, count in seen.items()
        if not within[column] - slack[column] <= count <= around[column] + slack[column]
    } == {}
    assert within["major_faults"] >= 1000 and within["refaulted_file_pages"] >= 1000
    may_stand = {"cpu_steal_ticks", "cpu_iowait_ticks"} | {
        column for column in within if column.startswith("pressure_memory")
    }
    if has_busy_cpus:
        may_stand.add("pressure_io_full_us")
    assert {column for column in within if within[column] <= 0} <= may_stand


def test_dirty_pages_and_those_that_are_written_back(mounted: Path, disk: str, tmp_path: Path) -> None:
    """At the end of each line, held against what this test reads 100 times a second."""
    path = tmp_path / "context.csv"
    states: list[tuple[int, dict[str, int]]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            states.append((time.monotonic_ns(), vmstat()))

    watcher = threading.Thread(target=watch)
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path)) as trace:
        watcher.start()
        (mounted / "dirty").write_bytes(bytes(48 << 20))
        end = time.monotonic() + 3.5
        with (mounted / "written").open("wb") as written:
            while time.monotonic() < end:
                os.pwrite(written.fileno(), bytes(8 << 20), 0)
                os.fsync(written.fileno())
        assert trace.stop() == 0
        done.set()
        watcher.join()
    told_apart = 0
    for line in lines_of(path)[:-1]:  # the last one is written when there is nothing to read any more
        at_ns = int(line["t_mono_ns"])
        near = [state for time_ns, state in states if -50_000_000 < time_ns - at_ns < 200_000_000]
        assert len(near) > 3
        spans = {column: [state[name] for state in near] for column, (_, name) in STATES.items()}
        for column, values in spans.items():
            assert min(values) - UNSEEN_PAGES <= int(line[column]) <= max(values) + UNSEEN_PAGES
        told_apart += min(spans["dirty_pages"]) > max(spans["writeback_pages"]) > 0
    assert told_apart > 0


#: Over /proc/NAME of the tracer alone lies the file NAME of the directory.
MADE_UP = """#!/bin/sh
exec unshare --mount --propagation private sh -c '
for name in stat vmstat pressure/cpu pressure/io pressure/memory; do
    mount --bind "$0/$name" "/proc/$name" || exit
done
exec "$@"' {directory} {binary} "$@"
"""


def made_up(directory: Path, counts: dict[tuple[str, str], int]) -> None:
    """Files as the kernel's, with these numbers, all of the same length."""
    texts: dict[str, str] = {
        "stat": "cpu  " + " ".join(f"{counts['stat', name]}" for name in CPU_TICKS) + "\ncpu0" + " 7" * 10 + "\n",
        "vmstat": "".join(f"{name} {count}\n" for (file, name), count in counts.items() if file == "vmstat"),
    }
    for what in ("cpu", "io", "memory"):
        texts[f"pressure/{what}"] = "".join(
            f"{kind} avg10=1.11 avg60=2.22 avg300=3.33 total={counts[f'pressure/{what}', kind]}\n"
            for kind in ("some", "full")
        )
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("r+b" if (directory / name).exists() else "wb") as file:
            os.pwrite(file.fileno(), text.encode(), 0)


@pytest.mark.skipif(not has_pressure(), reason="there is nothing for a made-up pressure to lie over")
def test_each_number_is_the_one_of_its_name(disk: str, tmp_path: Path) -> None:
    """Each number of files as the kernel documents them grows by another amount."""
    names = [("stat", name) for name in CPU_TICKS]
    names += [(f"pressure/{what}", kind) for what in ("cpu", "io", "memory") for kind in ("some", "full")]
    names += [("vmstat", name) for name in vmstat()]
    before = {name: 1_000_000 + 1009 * number for number, name in enumerate(names)}
    after = {name: count + 101 + number for number, (name, count) in enumerate(before.items())}
    directory, path, tracer = tmp_path / "proc", tmp_path / "context.csv", tmp_path / "tracer"
    made_up(directory, before)
    tracer.write_text(MADE_UP.format(directory=directory, binary=TRACER))
    tracer.chmod(0o700)
    with tracing(tmp_path / "io.bin", "--device", disk, "--context", str(path), binary=tracer) as trace:
        time.sleep(1.5)
        made_up(directory, after)
        assert trace.stop() == 0
    lines = lines_of(path)
    assert {column: total(lines, column) for column in TOLD} == {
        column: after[name] - before[name] for column, name in TOLD.items()
    }
    for line, counts in ((lines[0], before), (lines[-1], after)):
        assert {column: int(line[column]) for column in STATES} == {
            column: counts[name] for column, name in STATES.items()
        }


PARTS = {
    "run-queue": ({"sched_wakeup", "sched_wakeup_new", "sched_switch"}, {"run_queue_waits", "run_queue_mean_ns"}),
    "tcp": ({"tcp_probe", "tcp_retransmit"}, {"tcp_rtt_samples", "tcp_rtt_p99_us", "tcp_retransmits"}),
    "page-cache": ({"mm_filemap_add_to_page_cache"}, {"page_cache_folios_added"}),
    "memory": (set(), {"dirty_pages", "writeback_pages", "major_faults", "refaulted_file_pages"}),
    "cpu-ticks": (set(), {"cpu_steal_ticks", "cpu_iowait_ticks"}),
    "pressure": (set(), {column for column in TOLD if column.startswith("pressure")}),
}
COUNTS = {"run_queue_waits", "tcp_rtt_samples", "tcp_retransmits", "page_cache_folios_added", *columns_told(), *STATES}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(disk: str, tmp_path: Path, part: str) -> None:
    """Not counted is empty, and no program is there for it; the other parts are as before."""
    path = tmp_path / "context.csv"
    arguments = ("--device", disk, "--context", str(path), "--without", part)
    with tracing(tmp_path / "io.bin", *arguments) as trace:
        time.sleep(1.2)
        assert trace.stop() == 0
    programs, columns = PARTS[part]
    everywhere: set[str] = set().union(*(of_part for of_part, _ in PARTS.values()))
    assert everywhere & set(trace.status()["program_misses"]) == everywhere - programs
    for line in lines_of(path):
        assert all(line[column] == "" for column in columns)
        assert all(line[column] != "" for column in COUNTS - columns)
        assert line["cached_reads"] == line["reads_with_io"] == ""  # without --vfs


def test_there_must_be_something_to_leave_out(binary: Path, tmp_path: Path) -> None:
    for arguments in (["--without", "tcp"], ["--without", "disks", "--context", str(tmp_path / "c.csv")]):
        command = [str(binary), "--output", str(tmp_path / "io.bin"), *arguments]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        assert result.returncode == 2
        assert "--without" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(binary: Path, tmp_path: Path) -> None:
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--context", str(tmp_path / "missing" / "c.csv")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 4
    assert "--context" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
