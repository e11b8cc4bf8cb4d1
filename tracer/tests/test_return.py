"""From the completion of a call's last request to its return, held against the clock of the calling program."""

from __future__ import annotations

import mmap
import os
import signal
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tracer import decode, tracefile
from tracer.tests.tracing import EMPTY, Record, Trace, altered, fio, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

READ, WRITE, SYNC = 2, 3, 4
#: What Python adds around a call, at the median; the machine may be busy, or emulated, where all takes longer.
AROUND_NS = 100_000


@dataclass(frozen=True)
class Timed:
    """One call by the clock of its caller."""

    begin_ns: int
    end_ns: int


def timed(call: Callable[[], Any]) -> Timed:
    begin = time.monotonic_ns()
    call()
    return Timed(begin, time.monotonic_ns())


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    """The decoded rows, each with its `start_ns` on the monotonic clock."""
    header = tracefile.read_header(trace.output)
    shift = header.anchor_mono_ns - header.anchor_unix_ns
    rows: list[dict[str, Any]] = decode.read_table(trace.output).to_pylist()
    return [{**row, "start_ns": row["t_unix_ns"] + shift} for row in rows]


def assert_within(calls: list[Timed], spans: list[tuple[int, int]], around_ns: int = AROUND_NS) -> None:
    """Each span lies within the call of its number, and fills it but for what the caller's own program takes."""
    assert len(calls) == len(spans)
    for call, (begin, end) in zip(calls, sorted(spans), strict=True):
        assert call.begin_ns <= begin <= end <= call.end_ns
    around = [c.end_ns - c.begin_ns - (end - begin) for c, (begin, end) in zip(calls, sorted(spans), strict=True)]
    assert statistics.median(around) < max(around_ns, statistics.median(end - begin for begin, end in spans) / 10)


def spans_of(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """From the entry of a call to its return, of those rows that say when that was."""
    known = [row for row in rows if row["return_ns"] is not None]
    return [(row["start_ns"], row["start_ns"] + row["total_ns"] + row["return_ns"]) for row in known]


def total_ns(record: Record) -> int:
    layers = (record.vfs_ns, record.block_ns, record.driver_ns, record.device_ns)
    return sum(layer for layer in layers if layer != EMPTY)


def assert_consistent(trace: Trace) -> None:
    """The decoder's column follows from the slots, and these from each other."""
    requests: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in trace.records():
        if record.vfs_ns != EMPTY:
            requests[record.tid, record.start_ns].append(record)
    returns = trace.returns()
    assert len(returns) == trace.status()["returns"]["emitted"] > 0
    expected = []
    for call in returns:
        assert call.waited_ns == EMPTY or call.waited_ns < call.duration_ns
        ends = [total_ns(record) for record in requests[call.tid, call.start_ns]]
        if call.waited_ns != EMPTY:
            assert max(ends) == call.waited_ns
            assert len(ends) == call.requests
            expected.append((call.start_ns, call.start_ns + call.duration_ns))
    assert sorted(expected) == sorted(spans_of(rows_of(trace)))


@pytest.fixture
def buffer() -> mmap.mmap:
    """4 MiB, aligned as O_DIRECT wants it."""
    return mmap.mmap(-1, 4 << 20)


def test_direct_reads_and_writes(disk: str, tmp_path: Path, buffer: mmap.mmap) -> None:
    page = memoryview(buffer)[:4096]
    file = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT)
    try:
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
            calls = [timed(lambda: os.preadv(file, [page], block << 16)) for block in range(200)]  # noqa: B023
            calls += [timed(lambda: os.pwritev(file, [page], block << 16)) for block in range(200)]  # noqa: B023
            assert trace.stop() == 0
    finally:
        page.release()
        os.close(file)
    assert_within(calls, spans_of(rows_of(trace)))
    assert_consistent(trace)
    returns = sorted(trace.returns(), key=lambda call: call.start_ns)
    assert [call.kind for call in returns] == [READ] * 200 + [WRITE] * 200
    assert {(call.bytes, call.bios, call.requests, call.tid) for call in returns} == {(4096, 1, 1, os.getpid())}
    assert trace.status()["returns"] == {"returned": 400, "emitted": 400, "dropped": 0}


def test_only_the_last_of_many_requests_tells_the_return(disk: str, tmp_path: Path, buffer: mmap.mmap) -> None:
    limit = int(Path(f"/sys/block/{disk}/queue/max_sectors_kb").read_text()) << 10
    size = min(len(buffer), 3 * limit)
    data = memoryview(buffer)[:size]
    file = os.open(f"/dev/{disk}", os.O_WRONLY | os.O_DIRECT)
    try:
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
            calls = [timed(lambda: os.pwritev(file, [data], block * size)) for block in range(20)]  # noqa: B023
            assert trace.stop() == 0
    finally:
        data.release()
        os.close(file)
    rows = rows_of(trace)
    assert len(rows) >= 2 * len(calls)
    assert sum(row["size_bytes"] for row in rows) == 20 * size
    assert_within(calls, spans_of(rows))
    assert_consistent(trace)
    assert all(call.bytes == size and call.requests >= 2 for call in trace.returns())


def test_fsync_returns_after_the_journal(mounted: Path, disk: str, tmp_path: Path) -> None:
    file = os.open(mounted / "file", os.O_RDWR | os.O_CREAT)
    os.fsync(file)
    calls = []
    try:
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
            for block in range(50):
                os.pwrite(file, os.urandom(64 << 10), block << 16)
                calls.append(timed(lambda: os.fsync(file)))
            assert trace.stop() == 0
    finally:
        os.close(file)
    assert {call.kind for call in trace.returns()} == {SYNC}
    assert_within(calls, spans_of(rows_of(trace)))
    assert_consistent(trace)


def test_threads_are_told_apart(disk: str, tmp_path: Path) -> None:
    def read(place: int, calls: list[Timed]) -> None:
        file = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as page:
            for block in range(100):
                at = (8 * block + 2 * place) << 12  # no two next to each other: those are merged into one request
                calls.append(timed(lambda: os.preadv(file, [page], at)))  # noqa: B023
        os.close(file)

    calls: list[list[Timed]] = [[] for _ in range(4)]
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid())) as trace:
        threads = [threading.Thread(target=read, args=(place, calls[place])) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert trace.stop() == 0
    assert_consistent(trace)
    rows = rows_of(trace)
    for place in range(4):
        mine = [row for row in rows if row["sector"] // 16 % 4 == place]
        spans = spans_of(mine)
        assert len(spans) == len(mine) == 100
        for call, (begin, end) in zip(calls[place], sorted(spans), strict=True):
            assert call.begin_ns <= begin <= end <= call.end_ns


CALLS = "bpf/syscall.bpf.h"
STORE = "bpf/call.bpf.h"
RETURNED = "	table = bpf_map_lookup_elem(&vfs_tables, &zero);\n"
ROUNDS = "	for (int i = 0; i < 2000 && bpf_ktime_get_ns() - now < %d; i++) {\n%s	}\n"
LINGER = ROUNDS % (60_000, "")
# Longer than a busy disk takes for a read: the verifier follows 8,192 jumps, so each round takes longer instead.
LINGER_LONGER = ROUNDS % (600_000, 10 * "		bpf_ktime_get_ns();\n")
PLACES, FEW = "#define CALL_BUCKET_BITS 13", "#define CALL_BUCKET_BITS 0"
NOTED, OFTEN = "	call->number = number;\n", "	if (bpf_get_prandom_u32() & 1)\n"


@pytest.mark.parametrize("lingers", [False, True])
def test_more_tasks_than_places(disk: str, tmp_path: Path, lingers: bool) -> None:
    """A build with room for four tasks, and twelve; with pauses before a task notes what it enters in its place, too.

    What one of them lost is empty, never another one's.
    """
    crowded = altered(tmp_path, {STORE: {PLACES: FEW}, CALLS: {NOTED: OFTEN + LINGER + NOTED} if lingers else {}})
    limit = int(Path(f"/sys/block/{disk}/queue/max_sectors_kb").read_text()) << 10
    calls: dict[int, list[Timed]] = {}

    def read(place: int) -> None:
        mine = calls[threading.get_native_id()] = []
        file = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, min(4 << 20, 3 * limit)) as data:
            for _ in range(40):
                mine.append(timed(lambda: os.preadv(file, [data], place * len(data))))
        os.close(file)

    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid()), binary=crowded) as trace:
        threads = [threading.Thread(target=read, args=(place,)) for place in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert trace.stop() == 0
    starts: dict[Timed, set[int]] = defaultdict(set)
    known = [record for record in trace.records() if record.vfs_ns != EMPTY]
    assert len(known) > 100
    for record in known:
        end_ns = record.start_ns + total_ns(record)
        (call,) = [call for call in calls[record.tid] if call.begin_ns <= record.start_ns <= end_ns <= call.end_ns]
        starts[call].add(record.start_ns)
    assert {len(of_call) for of_call in starts.values()} == {1}, "a call has one entry, whatever others do meanwhile"
    assert_consistent(trace)


def test_what_is_not_waited_for_has_no_return(mounted: Path, disk: str, tmp_path: Path) -> None:
    """Read ahead, buffered writes, libaio and the journal: a value only where the call waited for all it asked for."""
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs") as trace:
        fio(f"--directory={mounted}", "--rw=readwrite", "--bs=4k", "--fsync=32", "--size=8M", "--invalidate=1")
        fio(f"--directory={mounted}", "--rw=randread", "--ioengine=libaio", "--iodepth=8", "--direct=1", "--size=2M")
        assert trace.stop() == 0
    assert_consistent(trace)
    assert not [row for row in rows_of(trace) if row["return_ns"] is not None and row["vfs_ns"] is None]


def test_what_completes_while_the_call_returns_was_not_waited_for(disk: str, tmp_path: Path) -> None:
    """A build that lingers between the time of the return and the look at what is complete; calls that read ahead."""
    lingering = altered(tmp_path, {CALLS: {RETURNED: LINGER_LONGER + RETURNED}})
    subprocess.run(["blockdev", "--setra", "64", f"/dev/{disk}"], check=True)
    shares = []
    for _ in range(5):  # on a busy machine the loop device's thread may get no CPU while the call lingers
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", binary=lingering) as trace:
            fio(f"--filename=/dev/{disk}", "--rw=read", "--bs=4k", "--size=16M", "--invalidate=1")
            assert trace.stop() == 0
        assert_consistent(trace)
        assert len(trace.returns()) > 50
        ahead = [call for call in trace.returns() if call.waited_ns == EMPTY and call.requests]
        shares.append(len(ahead) / len(trace.returns()))
        if shares[-1] > 0.1:  # here 0.32 to 0.89
            return
    pytest.fail(f"no call returned before what it had read ahead was complete: {shares}")


def test_calls_whose_requests_are_left_out_have_no_record(disk: str, tmp_path: Path) -> None:
    arguments = (f"--filename=/dev/{disk}", "--rw=randrw", "--bs=4k", "--direct=1", "--number_ios=1000")
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--sample", "4", "--mode", "R") as trace:
        fio(*arguments)
        assert trace.stop() == 0
    assert_consistent(trace)
    assert len(trace.returns()) == trace.device(disk)["emitted"] < 500


def test_a_consumer_that_stands_still_loses_returns_but_not_the_count(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--ring-bytes", "65536") as trace:
        trace.process.send_signal(signal.SIGSTOP)
        fio(f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=1000")
        trace.process.send_signal(signal.SIGCONT)
        assert trace.stop() == 0
    returns, device = trace.status()["returns"], trace.device(disk)
    assert returns["dropped"] > 250
    assert returns["emitted"] + returns["dropped"] == returns["returned"] >= 1000
    assert len(trace.returns()) == returns["emitted"]
    assert device["emitted"] + device["dropped"] == device["completions"] >= 1000


def test_without_vfs_nothing_is_known_of_it(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        subprocess.run(["dd", f"if=/dev/{disk}", "of=/dev/null", "bs=4k", "count=50", "iflag=direct"], check=True)
        assert trace.stop() == 0
    assert trace.returns() == []
    assert len(rows_of(trace)) >= 50 and not spans_of(rows_of(trace))
    assert "returns" not in trace.status()
