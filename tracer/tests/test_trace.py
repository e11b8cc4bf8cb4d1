"""The tracer on real requests, held against fio and /proc/diskstats."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from tracer import decode
from tracer.tests.tracing import (
    BACKEND,
    EMPTY,
    Record,
    Trace,
    counted_in_records,
    counted_while_tracing,
    diskstats,
    fio,
    ftrace,
    tracing,
    unless_hidden,
    wait_for_requests,
)

pytestmark = [pytest.mark.bpf, pytest.mark.root]

OTHER, SYSCALL, WRITEBACK, JOURNAL, IO_URING = range(5)
READ, WRITE, DISCARD, FLUSH = range(4)


def assert_closed(trace: Trace, disk: str) -> None:
    """Rows, losses and exclusions add up to what the kernel counted, exactly; and no time is an impossible one."""
    device, status = trace.device(disk), trace.status()
    records = [r for r in trace.records() if f"{r.device >> 20}:{r.device & 0xFFFFF}" == numbers(disk)]
    assert status["layers_negative"] == 0
    longest = status["stopped_mono_ns"] - status["started_mono_ns"]
    assert all(sum(value for value in layers(r) if value != EMPTY) <= longest for r in records)
    assert device["diskstats_settled"]
    assert device["emitted"] + device["dropped"] == device["completions"]
    assert len(records) == device["emitted"]
    excluded = device["excluded"]
    counted, ours = counted_while_tracing(device).requests, device["completions"] + sum(excluded.values())
    if counted != ours and not (excluded["before_switch_on"] or excluded["after_switch_off"]):
        pytest.fail(f"{counted} in diskstats, {ours} in {device}")  # hidden completions, too, must be counted
    assert counted == ours
    if device["dropped"] == 0 and not any(device["excluded"].values()):
        assert counted_in_records(records) == counted_while_tracing(device)


def numbers(disk: str) -> str:
    """Those of a hidden disk are not in sysfs."""
    lines = (line.split() for line in Path("/proc/diskstats").read_text().splitlines())
    return next(f"{major}:{minor}" for major, minor, name, *_ in lines if name == disk)


def modes(records: list[Record]) -> dict[int, int]:
    return {mode: sum(r.mode == mode for r in records) for mode in range(4)}


def layers(record: Record) -> list[int]:
    return [record.vfs_ns, record.block_ns, record.driver_ns, record.device_ns]


def test_every_direct_request_of_fio_is_one_record(disk: str, tmp_path: Path) -> None:
    before = diskstats(disk)
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        job = fio(f"--filename=/dev/{disk}", "--rw=randrw", "--bs=4k", "--direct=1", "--number_ios=1500")
        time.sleep(0.1)
        assert trace.stop() == 0
    counted = diskstats(disk) - before
    records = trace.records()
    assert counted.reads == job["read"]["total_ios"]
    assert counted.writes == job["write"]["total_ios"]
    assert counted_in_records(records) == counted
    assert_closed(trace, disk)
    own = [r for r in records if r.comm == b"fio"]
    assert len(own) == 1500
    assert all(r.size_bytes == 4096 and r.origin == SYSCALL and r.vfs_ns != EMPTY for r in own)


LARGE_BYTES = 512 << 10
#: Of what fio saw, whole calls are 0.98 and more.
PART_OF_A_CALL = 0.9
BLOCK_EVENT = re.compile(r" ([0-9.]+): (block_bio_queue|block_rq_complete): (\d+,\d+) .* \d+ \+ (\d+) ")


def in_the_block_layer_ns(log: Path, disk: str) -> list[float]:
    """From bio to completion by the kernel's own log, of each large read; they follow one another."""
    spans, queued, wanted = [], 0.0, numbers(disk).replace(":", ",")
    for at, event, device, sectors in BLOCK_EVENT.findall(log.read_text()):
        if device == wanted and int(sectors) * 512 == LARGE_BYTES:
            if event == "block_bio_queue":
                queued = float(at)
            else:
                spans.append((float(at) - queued) * 1e9)
    return spans


def large_reads(disk: str, tmp_path: Path) -> tuple[list[int], list[int], list[float], dict[str, Any]]:
    """Nanoseconds until complete, of whole calls, and by the kernel's own log; and what fio says about them.

    Where memory is slow, a third of a call lies behind the completion (by reading the kernel, 128 pages are let go).
    """
    with ftrace(tmp_path, "block/block_bio_queue", "block/block_rq_complete") as log:
        with tracing(tmp_path / "io.bin", "--device", disk, "--vfs") as trace:
            job = fio(f"--filename=/dev/{disk}", "--rw=randread", "--bs=512k", "--direct=1", "--number_ios=300")
            assert trace.stop() == 0
        logged = in_the_block_layer_ns(log, disk)
    totals = [sum(v for v in layers(r) if v != EMPTY) for r in trace.records() if r.size_bytes == LARGE_BYTES]
    calls = [call.duration_ns for call in trace.returns() if call.bytes == LARGE_BYTES]
    assert len(totals) + trace.device(disk)["excluded"]["completion_not_seen"] == len(logged) == 300
    assert len(calls) == len(totals)
    return totals, calls, logged, job["read"]


def test_latency_lies_between_what_the_block_layer_logged_and_what_fio_saw(disk: str, tmp_path: Path) -> None:
    totals, calls, logged, read = large_reads(disk, tmp_path)
    assert 0.97 * median(logged) < median(totals)
    assert mean(totals) <= mean(calls) < read["lat_ns"]["mean"]
    assert max(totals) <= max(calls) <= read["lat_ns"]["max"]
    assert PART_OF_A_CALL * read["clat_ns"]["percentile"]["50.000000"] < median(calls)


def test_whole_calls_are_most_of_what_fio_saw(disk: str, tmp_path: Path) -> None:
    """Of the mean, which a CPU that stands still once makes another."""
    _, calls, _, read = large_reads(disk, tmp_path)
    assert PART_OF_A_CALL * read["lat_ns"]["mean"] < mean(calls)


def test_queue_depth_and_splits_keep_their_owner(disk: str, tmp_path: Path) -> None:
    limit_kb = int(Path(f"/sys/block/{disk}/queue/max_sectors_kb").read_text())
    block_kb = 2 * limit_kb
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        fio(
            f"--filename=/dev/{disk}",
            "--rw=randwrite",
            f"--bs={block_kb}k",
            "--direct=1",
            "--ioengine=libaio",
            "--iodepth=8",
            "--number_ios=40",
        )
        assert trace.stop() == 0
    writes = [r for r in trace.records() if r.mode == WRITE]
    assert sum(r.size_bytes for r in writes) == 40 * block_kb * 1024
    assert len(writes) >= 80, "no request was split"
    assert all(r.comm == b"fio" and r.block_ns != EMPTY for r in writes)
    assert_closed(trace, disk)


def test_buffered_writes_with_fsync_on_a_file_system(mounted: Path, disk: str, tmp_path: Path) -> None:
    os.sync()
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        fio(f"--directory={mounted}", "--rw=write", "--bs=4k", "--fsync=4", "--number_ios=200", "--size=8M")
        inode = (mounted / "test.0.0").stat().st_ino
        with (mounted / "later").open("wb") as file:
            file.write(bytes(1 << 20))
        os.sync()
        assert trace.stop() == 0
    records = trace.records()
    assert_closed(trace, disk)
    data = [r for r in records if r.inode == inode]
    assert sum(r.size_bytes for r in data) >= 200 * 4096
    fsynced = [r for r in data if r.origin == SYSCALL]
    assert fsynced and all(r.vfs_ns != EMPTY for r in fsynced)
    assert any(r.origin == JOURNAL and r.comm.startswith(b"jbd2/") for r in records)
    assert any(r.origin == WRITEBACK for r in records)
    flushes = [r for r in records if r.mode == FLUSH]
    assert flushes and all(r.device_ns != EMPTY and r.block_ns == EMPTY and not r.flags & 2 for r in flushes)


def test_fsync_of_a_disk_waits_for_the_device_not_for_the_block_layer(disk: str, tmp_path: Path) -> None:
    """An fsync of nothing is an empty write that waits for a flush command of the kernel."""
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        for _ in range(50):
            descriptor = os.open(f"/dev/{disk}", os.O_WRONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        assert trace.stop() == 0
    records = trace.records()
    waiting = [r for r in records if r.mode == WRITE and r.size_bytes == 0]
    assert len(waiting) == modes(records)[FLUSH] == 50
    flush_of = {r.start_ns: r for r in records if r.mode == FLUSH}
    for record in waiting:
        flush = flush_of[record.start_ns + record.vfs_ns + record.block_ns]
        assert flush.device_ns <= record.device_ns
        assert record.pid == os.getpid()


def test_layers_add_up_in_every_row_of_the_csv(mounted: Path, disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin") as trace:
        fio(f"--directory={mounted}", "--rw=randrw", "--bs=8k", "--fsync=8", "--number_ios=400", "--size=8M")
        assert trace.stop() == 0
    assert decode.main([str(trace.output), "--csv", str(tmp_path / "io.csv"), "--node", "n1"]) == 0
    with (tmp_path / "io.csv").open() as file:
        rows = list(csv.DictReader(file))
    records = trace.records()
    assert list(rows[0]) == list(decode.IO_COLUMNS)
    assert len(rows) == len(records) == trace.status()["emitted"] > 400
    for row, record in zip(rows, records, strict=True):
        cells = [row[name] for name in ("vfs_ns", "block_ns", "driver_ns", "device_ns")]
        assert cells == ["" if value == EMPTY else str(value) for value in layers(record)]
        assert int(row["total_ns"]) == sum(int(cell) for cell in cells if cell)
    assert {row["device"] for row in rows} >= {disk}


def test_a_consumer_that_stands_still_loses_records_but_not_the_count(disk: str, tmp_path: Path) -> None:
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", "65536") as trace:
        trace.process.send_signal(signal.SIGSTOP)
        job = fio(f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=1000")
        trace.process.send_signal(signal.SIGCONT)
        assert trace.stop() == 0
    device = trace.device(disk)
    assert device["dropped"] > 500
    assert device["completions"] >= job["read"]["total_ios"] == 1000
    assert_closed(trace, disk)


def test_nothing_is_dropped_where_hundreds_of_threads_want_to_run(disk: str, tmp_path: Path) -> None:
    """With 4,096 places for each of two CPUs a reader without priority came too late in six of seven runs."""
    reads = ["--numjobs=500", "--thread", "--group_reporting", f"--filename=/dev/{disk}", "--rw=randread", "--direct=1"]
    with tracing(tmp_path / "io.bin", "--device", disk, "--ring-bytes", str(1 << 20)) as trace:
        # Made to come late. Five hundred threads do that, too, but not in each second (in none of ten, once).
        deadline = time.monotonic() + 30
        while not goes_first(trace) and time.monotonic() < deadline:
            trace.process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            trace.process.send_signal(signal.SIGCONT)
            time.sleep(0.1)
        assert goes_first(trace)
        for _ in range(4):
            assert fio(*reads, "--number_ios=100")["read"]["total_ios"] == 50_000
        assert trace.stop() == 0
    assert trace.device(disk)["dropped"] == 0
    assert_closed(trace, disk)


def goes_first(trace: Trace) -> bool:
    threads = [int(thread.name) for thread in Path(f"/proc/{trace.process.pid}/task").iterdir()]
    return len(threads) > 1 and all(os.getpriority(os.PRIO_PROCESS, thread) == -20 for thread in threads)


def test_counts_agree_when_switched_under_load(disk: str, tmp_path: Path) -> None:
    load = subprocess.Popen(
        f"exec fio --name=load --filename=/dev/{disk} --rw=randrw --bs=4k --direct=1 --ioengine=libaio"
        " --iodepth=8 --time_based --runtime=120 --output=/dev/null",
        shell=True,
    )
    try:
        wait_for_requests(load, disk, 1000)
        for i in range(5):
            # A request that was under way when the tracer began is not known when no program sees its end.
            directory = tmp_path / str(i)
            directory.mkdir()
            with unless_hidden("block/block_rq_complete", directory):
                with tracing(directory / "io.bin", "--device", disk) as trace:
                    wait_for_requests(load, disk, 1000)
                    assert trace.stop() == 0
                assert trace.device(disk)["completions"] > 100
                assert_closed(trace, disk)
    finally:
        load.terminate()
        load.wait(30)


def test_io_uring_is_an_origin_of_its_own(disk: str, tmp_path: Path) -> None:
    arguments = (f"--filename=/dev/{disk}", "--rw=randread", "--bs=4k", "--direct=1", "--number_ios=200")
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        try:
            fio(*arguments, "--ioengine=io_uring", "--iodepth=4")
        except subprocess.CalledProcessError:
            pytest.skip("no io_uring here")
        assert trace.stop() == 0
    own = [r for r in trace.records() if r.origin == IO_URING]
    assert len(own) == 200
    assert all((r.vfs_ns == EMPTY) == (BACKEND == "bcc") for r in own)


def start_dd(disk: str, seek: int, count: int) -> subprocess.Popen[bytes]:
    """A process that writes `count` blocks as soon as it is told; its pid is known before."""
    return subprocess.Popen(
        [
            "sh",
            "-c",
            f"read go; exec dd if=/dev/zero of=/dev/{disk} bs=4k count={count} seek={seek} oflag=direct",
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_pid_filter_keeps_one_process_and_counts_the_others(disk: str, tmp_path: Path) -> None:
    wanted, other = start_dd(disk, 0, 120), start_dd(disk, 1000, 80)
    with tracing(tmp_path / "io.bin", "--device", disk, "--pid", str(wanted.pid)) as trace:
        for process in (wanted, other):
            process.communicate(b"\n")
        assert trace.stop() == 0
    records = trace.records()
    assert modes(records)[WRITE] == 120
    assert {r.pid for r in records} == {wanted.pid}
    assert trace.device(disk)["excluded"]["filtered"] >= 80
    filters = trace.status()["filters"]
    assert (filters["devices"], filters["cgroups"], filters["pids"]) == ([disk], [], [wanted.pid])
    assert_closed(trace, disk)


def test_cgroup_filter_keeps_tasks_of_the_cgroup(disk: str, tmp_path: Path) -> None:
    roots = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if " cgroup2 " in line]
    if not roots:
        pytest.skip("no cgroup v2 here")
    group = Path(roots[0]) / f"strata-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        wanted, other = start_dd(disk, 0, 60), start_dd(disk, 1000, 40)
        (group / "cgroup.procs").write_text(str(wanted.pid))
        with tracing(tmp_path / "io.bin", "--device", disk, "--cgroup", str(group)) as trace:
            for process in (wanted, other):
                process.communicate(b"\n")
            assert trace.stop() == 0
        assert modes(trace.records())[WRITE] == 60
        assert {r.cgroup_id for r in trace.records()} == {group.stat().st_ino}
        assert_closed(trace, disk)
    finally:
        group.rmdir()
