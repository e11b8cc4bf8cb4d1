"""Requests of io_uring from the ring to the block layer and back, held against the clock of the calling program."""

from __future__ import annotations

import errno
import mmap
import os
import platform
import statistics
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.tests import uring
from tracer.tests.conftest import loop_device
from tracer.tests.test_names import read_direct
from tracer.tests.test_return import AROUND_NS, Timed, assert_consistent, assert_within, rows_of, spans_of
from tracer.tests.tracing import (
    BACKEND,
    EMPTY,
    TRACER,
    Trace,
    altered,
    counted_in_records,
    counted_while_tracing,
    fio,
    tracing,
)
from tracer.tests.uring import ASYNC, FIXED_FILE, LINK, Request, Ring, Seen

pytestmark = [pytest.mark.bpf, pytest.mark.root]

READ, WRITE, SYNC = 2, 3, 4
ROUNDS = 100
#: A worker wakes the caller up.
AROUND_WORKER_NS = 5 * AROUND_NS
BATCH = 8
MAP_LOCKED = 0x2000  # asm-generic/mman.h, so x86 and arm64; Python has no name for it
STRIDE = 1 << 16  # no two requests are neighbours: those would be merged
#: No tracepoint says before which request is complete.
TELLS_RETURNS = tuple(int(part) for part in platform.release().split(".")[:2]) >= (6, 0)
NO_RINGS = "the bcc backend does not look at rings (use CO-RE)"
ASKED = "	wait->asked += size_bytes ?: 1;\n"


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    ring.close()


@pytest.fixture
def buffer() -> mmap.mmap:
    """A page for each request of a batch."""
    return mmap.mmap(-1, BATCH << 12)


@pytest.fixture
def raw(disk: str) -> Iterator[int]:
    file = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT)
    yield file
    os.close(file)


@pytest.fixture
def file(mounted: Path) -> Iterator[Path]:
    """32 MiB, on the disk and in no cache."""
    path = mounted / "file"
    path.write_bytes(os.urandom(32 << 20))
    with path.open("rb") as content:
        os.fsync(content.fileno())
        os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.sync()
    yield path


def kept_in_memory(descriptor: int, size: int) -> mmap.mmap:
    """The file's first bytes, in the page cache until this is closed: the kernel takes other pages back any time.

    They are read first, for the map alone would read around them.
    """
    os.pread(descriptor, size, 0)
    return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | MAP_LOCKED, prot=mmap.PROT_READ)


def mine(disk: str, output: Path, binary: Path = TRACER) -> Any:
    if not TELLS_RETURNS:
        pytest.skip("before Linux 6.0 nothing tells which request of io_uring is complete; needs a newer kernel")
    if BACKEND == "bcc":
        pytest.skip(NO_RINGS)
    return tracing(output / "io.bin", "--device", disk, "--vfs", "--pid", str(os.getpid()), binary=binary)


def timed(seen: list[Seen]) -> list[Timed]:
    return [Timed(request.begin_ns, request.end_ns) for request in seen]


class Paired:
    """Requests, each followed by one that does nothing: what the caller's own program takes, in the same moments."""

    def __init__(self, ring: Ring, flags: int = ASYNC) -> None:
        self._ring = ring
        self._nothing = [Request(uring.NOP, flags=flags)]
        self._least_ns = AROUND_WORKER_NS if flags else AROUND_NS
        self._own_ns: list[int] = []

    def run(self, requests: list[Request]) -> list[Seen]:
        seen = self._ring.run(requests)
        self._own_ns += [one.end_ns - one.begin_ns for one in self._ring.run(self._nothing)]
        return seen

    def around_ns(self, times: int = 3) -> int:
        """What may lie around a request's span. In an emulated machine one that does nothing is slow as well.

        There that is 200 to 430 us, and what lies around a span 0.8 to 2.3 times as much (6.1), around an fsync up to
        3.01 times, around one of 4 MiB 3 to 10 times (6.12), when the host is as fast for both; elsewhere the fixed
        bounds count.
        """
        return max(self._least_ns, int(times * statistics.median(self._own_ns)))


def calls(trace: Trace, name: str) -> tuple[int, int]:
    """Of a class: with I/O, cached."""
    cells = trace.status()["vfs"][name]
    return cells["with_io"]["calls"], cells["cached"]["calls"]


def assert_each_in_its_own(seen: list[Seen], rows: list[dict[str, Any]], sector_of: dict[int, int]) -> None:
    """Each row is that of one request, which its place on the disk tells, and lies within it by the caller's clock."""
    by_sector = {row["sector"]: row for row in rows}
    assert len(by_sector) == len(rows) == len(seen)
    for one in seen:
        row = by_sector[sector_of[one.request.offset]]
        assert row["vfs_ns"] is not None and row["return_ns"] is not None
        end = row["start_ns"] + row["total_ns"] + row["return_ns"]
        assert one.begin_ns <= row["start_ns"] <= end <= one.end_ns


@pytest.mark.parametrize("opcode", [uring.READ, uring.WRITE])
@pytest.mark.parametrize("flags", [0, ASYNC])
def test_one_at_a_time_on_the_disk(
    disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path, opcode: int, flags: int
) -> None:
    """In the task that submits, and (ASYNC) in a worker."""
    requests = [Request(opcode, raw, n * STRIDE, uring.address_of(buffer), 4096, flags) for n in range(ROUNDS)]
    paired = Paired(ring, flags)
    with mine(disk, tmp_path) as trace:
        seen = [one for request in requests for one in paired.run([request])]
        assert trace.stop() == 0
    assert {one.result for one in seen} == {4096}
    rows = rows_of(trace)
    assert_within(timed(seen), spans_of(rows), paired.around_ns())
    assert_each_in_its_own(seen, rows, {n * STRIDE: n * STRIDE // 512 for n in range(ROUNDS)})
    assert_consistent(trace)
    assert {row["origin"] for row in rows} == {"io_uring"}
    returned = trace.returns()
    kind = READ if opcode == uring.READ else WRITE
    assert {(call.kind, call.bytes, call.bios) for call in returned} == {(kind, 4096, 1)}
    assert all((call.tid != os.getpid()) == bool(flags) for call in returned)
    assert calls(trace, "read") == calls(trace, "write") == (0, 0), "no regular file"


def test_batches_begin_one_after_the_other(disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    page = uring.address_of(buffer)
    batches: list[list[Seen]] = []
    with mine(disk, tmp_path) as trace:
        for n in range(ROUNDS):
            places = [(n * BATCH + (5 * i) % BATCH) * STRIDE // 16 * 2 for i in range(BATCH)]
            batch = [Request(uring.READ, raw, p, page + (i << 12), 4096) for i, p in enumerate(places)]
            batches.append(ring.run(batch))
        assert trace.stop() == 0
    rows = rows_of(trace)
    seen = [one for batch in batches for one in batch]
    assert_each_in_its_own(seen, rows, {one.request.offset: one.request.offset // 512 for one in seen})
    assert_consistent(trace)
    by_sector = {row["sector"]: row for row in rows}
    for in_batch in batches:
        starts = [by_sector[one.request.offset // 512]["start_ns"] for one in in_batch]
        assert starts == sorted(set(starts)), "in the order of the ring, each at an instant of its own"
    sums = counted_while_tracing(trace.device(disk))
    assert counted_in_records(trace.records()).reads == sums.reads == ROUNDS * BATCH


def read_neighbours(raw: int, ring: Ring | Paired, buffer: mmap.mmap, trace: Trace) -> list[list[Seen]]:
    page = uring.address_of(buffer)
    batches = []
    for n in range(ROUNDS):
        places = [n * STRIDE + (i << 12) for i in range(BATCH)]
        batches.append(ring.run([Request(uring.READ, raw, p, page + (i << 12), 4096) for i, p in enumerate(places)]))
    assert trace.stop() == 0
    return batches


def test_neighbours_that_become_one_request(disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    """The first of a batch has the row and its return; the others have lost their bios to it."""
    paired = Paired(ring)
    with mine(disk, tmp_path) as trace:
        batches = read_neighbours(raw, paired, buffer, trace)
    rows = rows_of(trace)
    assert {row["size_bytes"] for row in rows} == {BATCH << 12} and len(rows) == ROUNDS
    assert_within(timed([batch[0] for batch in batches]), spans_of(rows), paired.around_ns())
    assert {(call.bytes, call.bios, call.requests) for call in trace.returns()} == {(4096, 1, 1)}
    assert_consistent(trace)


def test_others_bytes_do_not_stand_for_what_is_under_way(
    disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path
) -> None:
    """A build in which each request has asked for as much again: no other's bytes in its row make up for that."""
    asks_more = altered(tmp_path, {"bpf/return.bpf.h": {ASKED: "	wait->asked += 2 * size_bytes;\n"}})
    with mine(disk, tmp_path, binary=asks_more) as trace:
        read_neighbours(raw, ring, buffer, trace)
    assert {(call.bytes, call.waited_ns) for call in trace.returns()} == {(4096, EMPTY)}
    assert len(trace.returns()) == ROUNDS


def test_a_large_read_has_one_return(disk: str, raw: int, ring: Ring, tmp_path: Path) -> None:
    """More than one bio or one request of the disk can hold; in a worker, where no kernel begins anew for that."""
    size = 4 << 20
    with mmap.mmap(-1, size) as large:
        at = uring.address_of(large)
        requests = [Request(uring.READ, raw, n * size, at, size, ASYNC) for n in range(10)]
        paired = Paired(ring)
        with mine(disk, tmp_path) as trace:
            seen = [one for request in requests for one in paired.run([request])]
            assert trace.stop() == 0
    rows = rows_of(trace)
    assert sum(row["size_bytes"] for row in rows) == 10 * size and len(rows) > 20
    assert_within(timed(seen), spans_of(rows), paired.around_ns(times=10))
    for one in seen:
        first, last = one.request.offset // 512, (one.request.offset + size) // 512
        for row in (row for row in rows if first <= row["sector"] < last):
            assert one.begin_ns <= row["start_ns"] <= row["start_ns"] + row["total_ns"] <= one.end_ns
    assert_consistent(trace)
    assert {(call.bytes, call.kind) for call in trace.returns()} == {(size, READ)}


def test_registered_buffers_and_files(disk: str, file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_DIRECT)
    page = uring.address_of(buffer)
    ring.register(uring.REGISTER_BUFFERS, struct.pack("<QQ", page, len(buffer)), 1)
    ring.register(uring.REGISTER_FILES, struct.pack("<i", descriptor), 1)
    vector = mmap.mmap(-1, 16)
    vector[:] = struct.pack("<QQ", page, 4096)
    at_vector = uring.address_of(vector)
    kinds = [
        (uring.READ_FIXED, 0, page, 4096, FIXED_FILE), (uring.WRITE_FIXED, 0, page, 4096, FIXED_FILE),
        (uring.READV, descriptor, at_vector, 1, 0), (uring.WRITEV, descriptor, at_vector, 1, 0),
    ]  # fmt: skip
    requests = [Request(op, fd, n * STRIDE, at, size, flags) for n in range(50) for op, fd, at, size, flags in kinds]
    paired = Paired(ring, flags=0)
    try:
        with mine(disk, tmp_path) as trace:
            seen = [one for request in requests for one in paired.run([request])]
            assert trace.stop() == 0
    finally:
        ring.register(uring.UNREGISTER_FILES)
        os.close(descriptor)
    assert {one.result for one in seen} == {4096}
    rows = [row for row in rows_of(trace) if row["path"] == str(file)]
    assert_within(timed(seen), spans_of(rows), paired.around_ns())
    assert_consistent(trace)
    assert (calls(trace, "read"), calls(trace, "write")) == ((100, 0), (100, 0))


def test_vectors_of_registered_buffers(disk: str, file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_DIRECT)
    page = uring.address_of(buffer)
    ring.register(uring.REGISTER_BUFFERS, struct.pack("<QQ", page, len(buffer)), 1)
    vector = mmap.mmap(-1, 16)
    vector[:] = struct.pack("<QQ", page, 4096)
    kinds = (uring.READV_FIXED, uring.WRITEV_FIXED)
    requests = [Request(op, descriptor, n * STRIDE, uring.address_of(vector), 1) for n in range(20) for op in kinds]
    try:
        if ring.run(requests[:1])[0].result == -errno.EINVAL:
            pytest.skip("no such requests before Linux 6.15; needs a newer kernel")
        with mine(disk, tmp_path) as trace:
            seen = [one for request in requests for one in ring.run([request])]
            assert trace.stop() == 0
    finally:
        os.close(descriptor)
    assert {one.result for one in seen} == {4096}
    assert (calls(trace, "read"), calls(trace, "write")) == ((20, 0), (20, 0))


def test_fsync_in_a_worker(disk: str, file: Path, ring: Ring, tmp_path: Path) -> None:
    descriptor = os.open(file, os.O_RDWR)
    seen, paired = [], Paired(ring)
    try:
        with mine(disk, tmp_path) as trace:
            for n in range(50):
                os.pwrite(descriptor, os.urandom(4096), n * STRIDE)
                seen += paired.run([Request(uring.FSYNC, descriptor)])
            assert trace.stop() == 0
    finally:
        os.close(descriptor)
    rows = [row for row in rows_of(trace) if row["origin"] == "io_uring"]
    assert_within(timed(seen), spans_of(rows), paired.around_ns(times=4))
    assert_consistent(trace)
    assert {call.kind for call in trace.returns()} == {SYNC}
    assert calls(trace, "sync") == (50, 0)


def test_buffered_reads(disk: str, file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    """Cached ones are counted. Those that miss have no VFS layer and are in no count, unless a worker does them."""
    page = uring.address_of(buffer)
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    cached = [Request(uring.READ, descriptor, n << 12, page, 4096) for n in range(BATCH)]
    cold = [Request(uring.READ, descriptor, (2 << 20) + n * STRIDE, page, 4096) for n in range(ROUNDS)]
    worker = [Request(uring.READ, descriptor, (16 << 20) + n * STRIDE, page, 4096, ASYNC) for n in range(ROUNDS)]
    behind = [Request(uring.READ, descriptor, 1 << 40, page, 4096) for _ in range(BATCH)]  # reads nothing
    paired = Paired(ring)
    try:
        with kept_in_memory(descriptor, BATCH << 12), mine(disk, tmp_path) as trace:
            for _ in range(ROUNDS):
                ring.run(cached)
                ring.run(behind)
            in_worker = [one for request in worker for one in paired.run([request])]
            for request in cold:
                ring.run([request])
            assert trace.stop() == 0
    finally:
        os.close(descriptor)
    rows = [row for row in rows_of(trace) if row["path"] == str(file) and row["mode"] == "R"]
    known = [row for row in rows if row["vfs_ns"] is not None]
    assert (len(known), len(rows)) == (ROUNDS, 2 * ROUNDS)
    assert_within(timed(in_worker), spans_of(known), paired.around_ns())
    assert_consistent(trace)
    assert calls(trace, "read") == (ROUNDS, BATCH * ROUNDS)


def test_reads_of_another_disk_are_neither_hit_nor_miss(
    file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path
) -> None:
    page = uring.address_of(buffer)
    with loop_device(tmp_path / "traced.img") as traced, mine(traced, tmp_path) as trace, file.open("rb") as content:
        os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

        def reads(first: int, flags: int = 0) -> list[Request]:
            places = range(first * STRIDE, (first + ROUNDS) * STRIDE, STRIDE)
            return [Request(uring.READ, content.fileno(), place, page, 4096, flags) for place in places]

        for request in (*reads(0), *reads(ROUNDS, ASYNC)):
            ring.run([request])
        for request in reads(0):  # from memory
            ring.run([request])
        assert trace.stop() == 0
    assert calls(trace, "read") == (0, ROUNDS)


def test_cached_reads_that_read_ahead(disk: str, file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path) -> None:
    """In no count: the same reads as system calls tell how many there are."""
    descriptor = os.open(file, os.O_RDONLY)
    page = memoryview(buffer)[:4096]
    places = range(0, 8 << 20, 4096)
    counted = []
    try:
        for read in (
            lambda place: os.preadv(descriptor, [page], place),
            lambda place: ring.run([Request(uring.READ, descriptor, place, uring.address_of(buffer), 4096)]),
        ):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            with mine(disk, tmp_path) as trace:
                for place in places:
                    read(place)
                assert trace.stop() == 0
            counted.append(calls(trace, "read"))
    finally:
        page.release()
        os.close(descriptor)
    (with_io, cached), of_ring = counted
    assert with_io + cached == len(places) and with_io > 4
    assert of_ring[0] == 0 and len(places) // 2 < of_ring[1] <= cached


def test_a_linked_request_begins_when_it_is_taken(
    disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path
) -> None:
    """All of a chain are taken before the first is complete. Done by workers, but on 6.1, where not all are known."""
    page = uring.address_of(buffer)
    chains = []
    with mine(disk, tmp_path) as trace:
        for n in range(ROUNDS):
            places = [(4 * n + i) * STRIDE for i in range(4)]
            flags = [LINK | ASYNC] * 3 + [ASYNC]
            pairs = zip(places, flags, strict=True)
            chains.append(ring.run([Request(uring.READ, raw, p, page, 4096, f) for p, f in pairs]))
        assert trace.stop() == 0
    rows = rows_of(trace)
    by_sector = {row["sector"]: row for row in rows if row["vfs_ns"] is not None and row["return_ns"] is not None}
    chains = [chain for chain in chains if all(one.request.offset // 512 in by_sector for one in chain)]
    assert len(chains) > ROUNDS // 2
    seen = [one for in_chain in chains for one in in_chain]
    sector_of = {one.request.offset: one.request.offset // 512 for one in seen}
    assert_each_in_its_own(seen, [by_sector[sector] for sector in sector_of.values()], sector_of)
    for in_chain in chains:
        of_chain = [by_sector[one.request.offset // 512] for one in in_chain]
        starts = [row["start_ns"] for row in of_chain]
        queued = [row["start_ns"] + row["vfs_ns"] for row in of_chain]
        done = [row["start_ns"] + row["total_ns"] for row in of_chain]
        assert starts == sorted(set(starts)) and starts[-1] <= min(queued)
        assert all(before <= then for before, then in zip(done, queued[1:], strict=False))
    assert_consistent(trace)


def test_linked_requests_wait_for_each_other(
    disk: str, file: Path, ring: Ring, buffer: mmap.mmap, tmp_path: Path
) -> None:
    """A chain is issued one after the other, partly at the end of other system calls."""
    page = uring.address_of(buffer)
    descriptor = os.open(file, os.O_RDWR | os.O_DIRECT)
    chains = []
    try:
        with mine(disk, tmp_path) as trace:
            for n in range(ROUNDS):
                places = [((n * 4 + i) * STRIDE) % (16 << 20) + (n % 2) * 4096 for i in range(4)]
                flags = [LINK, LINK, LINK, 0]
                chain = zip(places, flags, strict=True)
                requests = [Request(uring.READ, descriptor, p, page, 4096, f) for p, f in chain]
                chains.append(ring.run(requests, elsewhere=n % 2 == 0))
            assert trace.stop() == 0
    finally:
        os.close(descriptor)
    seen = [one for chain in chains for one in chain]
    rows = [row for row in rows_of(trace) if row["path"] == str(file)]
    known = sorted((row for row in rows if row["vfs_ns"] is not None), key=lambda row: row["start_ns"])
    assert len(rows) == len(seen) == len(known) and {row["origin"] for row in rows} == {"io_uring"}
    for row in known:
        assert any(one.begin_ns <= row["start_ns"] and row["start_ns"] + row["total_ns"] <= one.end_ns for one in seen)
    with_io, cached = calls(trace, "read")
    assert cached == 0 and with_io == len(known)
    assert_consistent(trace)


@pytest.mark.skipif(BACKEND == "bcc", reason=NO_RINGS)
@pytest.mark.parametrize("more", ["--iodepth=1", "--iodepth=32 --iodepth_batch=8", "--iodepth=8 --sqthread_poll=1"])
def test_under_load(disk: str, tmp_path: Path, more: str) -> None:
    arguments = (f"--filename=/dev/{disk}", "--rw=randrw", "--bs=4k", "--direct=1", "--number_ios=4000")
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs") as trace:
        try:
            fio(*arguments, "--ioengine=io_uring", *more.split())
        except subprocess.CalledProcessError:
            pytest.skip("fio cannot do this here")
        assert trace.stop() == 0
    rows = [row for row in rows_of(trace) if row["origin"] == "io_uring"]
    assert len(rows) > 3500
    assert all(row["vfs_ns"] is not None for row in rows)
    if TELLS_RETURNS:
        assert_consistent(trace)
    else:
        assert all(row["return_ns"] is None for row in rows)


@pytest.mark.skipif(BACKEND == "bcc", reason=NO_RINGS)
@pytest.mark.parametrize("more", ["--iodepth=1", "--sqthread_poll=1", "--force_async=1"])
def test_threads_of_io_uring_are_chosen_as_their_process(disk: str, tmp_path: Path, more: str) -> None:
    """They are called iou-sqp-... and iou-wrk-...; a process of another name beside it is left out."""
    arguments = (f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=300")
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs", "--comm", "fio") as trace:
        fio(*arguments, "--ioengine=io_uring", more)
        read_direct(Path(f"/dev/{disk}"))
        assert trace.stop() == 0
    device, rows = trace.device(disk), rows_of(trace)
    assert device["excluded"]["filtered"] >= 1
    assert {row["pid"] for row in rows}.isdisjoint({os.getpid()})
    assert len(rows) + device["excluded"]["completion_not_seen"] >= 300
    if TELLS_RETURNS:
        assert_consistent(trace)


def test_libaio_has_no_vfs_layer(disk: str, tmp_path: Path) -> None:
    arguments = (f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=400")
    with tracing(tmp_path / "io.bin", "--device", disk, "--vfs") as trace:
        fio(*arguments, "--ioengine=libaio", "--iodepth=4")
        assert trace.stop() == 0
    own = [record for record in trace.records() if record.comm == b"fio"]
    assert len(own) >= 400 and all(record.vfs_ns == EMPTY for record in own)


@pytest.mark.skipif(BACKEND == "bcc", reason=NO_RINGS)
@pytest.mark.parametrize("flags", [0, ASYNC])
def test_without_vfs_it_has_the_layer_but_no_return(
    disk: str, raw: int, ring: Ring, buffer: mmap.mmap, tmp_path: Path, flags: int
) -> None:
    requests = [Request(uring.READ, raw, n * STRIDE, uring.address_of(buffer), 4096, flags) for n in range(ROUNDS)]
    with tracing(tmp_path / "io.bin", "--device", disk, "--pid", str(os.getpid())) as trace:
        seen = [one for request in requests for one in ring.run([request])]
        assert trace.stop() == 0
    rows = sorted(rows_of(trace), key=lambda row: row["start_ns"])
    for one, row in zip(seen, rows, strict=True):
        assert row["vfs_ns"] is not None and row["return_ns"] is None
        assert one.begin_ns <= row["start_ns"] <= row["start_ns"] + row["total_ns"] <= one.end_ns
    assert "io_uring_complete" not in trace.status()["program_misses"]
