"""Who and which file, held against what the workload did: every request is looked up in the file's extents."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tracer import decode
from tracer.tests.tracing import EMPTY, Record, Trace, diskstats, tracing

pytestmark = [pytest.mark.bpf, pytest.mark.root]

OTHER, SYSCALL, WRITEBACK, JOURNAL, IO_URING = range(5)
READ, WRITE, DISCARD, FLUSH = range(4)
DIRTIER = 32
SHARE = 0.99
#: mkfs.xfs refuses smaller ones.
DISK_BYTES = 320 << 20


@dataclass(frozen=True)
class FileSystem:
    disk: str
    directory: Path
    kind: str


MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0"],
    "xfs": ["mkfs.xfs", "-q"],
    "vfat": ["mkfs.vfat"],
}


@contextmanager
def mounted_image(kind: str, folder: Path) -> Iterator[FileSystem]:
    image, directory = folder / "disk.img", folder / "mounted"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    directory.mkdir()
    made = subprocess.run(["losetup", "--show", "-f", str(image)], check=False, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    disk = made.stdout.strip()
    try:
        try:
            subprocess.run([*MAKE[kind], disk], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["mount", disk, str(directory)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no {kind} here: {error}")
        try:
            yield FileSystem(Path(disk).name, directory, kind)
        finally:
            subprocess.run(["umount", str(directory)], check=True)
    finally:
        subprocess.run(["losetup", "-d", disk], check=True)
        image.unlink()


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def volume(
    request: pytest.FixtureRequest, can_trace: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FileSystem]:
    with mounted_image(request.param, tmp_path_factory.mktemp(request.param)) as mounted:
        yield mounted


@pytest.fixture
def filesystem(volume: FileSystem) -> Iterator[FileSystem]:
    """A folder of the test's own, and nothing of the tests before it is still to be written."""
    directory = Path(tempfile.mkdtemp(dir=volume.directory))
    (directory / "db" / "WALs").mkdir(parents=True)
    os.sync()
    yield replace(volume, directory=directory)
    shutil.rmtree(directory)


def extents(path: Path) -> list[tuple[int, int]]:
    """First sector and the one behind the last, of each extent (FIEMAP)."""
    listing = subprocess.run(
        ["filefrag", "-v", "-s", "-b512", str(path)], check=True, capture_output=True, text=True
    ).stdout
    found = []
    for line in listing.splitlines():
        fields = line.replace("..", " ").replace(":", " ").split()
        if len(fields) >= 6 and fields[0].isdigit():
            found.append((int(fields[3]), int(fields[4]) + 1))
    return found


def of_file(records: list[Record], path: Path) -> list[Record]:
    """The requests that touched the blocks of the file."""
    places = extents(path)
    return [r for r in records if r.size_bytes and any(begin <= r.sector < end for begin, end in places)]


def share(records: list[Record], pid: int, inode: int, path: Path) -> float:
    right = [r for r in records if r.pid == pid and r.inode == inode and r.path == str(path)]
    return len(right) / len(records)


def run_fio(path: Path, *arguments: str) -> int:
    """Runs one job in a thread of fio's own process; returns its pid."""
    command = ["fio", "--name=job", f"--filename={path}", "--thread", "--randseed=3", "--output=/dev/null", *arguments]
    process = subprocess.Popen(command)
    assert process.wait(60) == 0
    return process.pid


def lay_out(path: Path, megabytes: int) -> None:
    path.write_bytes(bytes(megabytes << 20))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def rows_of(trace: Trace) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = decode.read_table(trace.output).to_pylist()
    return rows


BATCHED = ["--iodepth_batch=16", "--number_ios=1600"]
WORKLOADS = {
    "psync": ["--ioengine=psync", "--direct=1", "--rw=randrw", "--bs=4k", "--number_ios=600"],
    "libaio": ["--ioengine=libaio", "--direct=1", "--rw=randrw", "--bs=4k", "--iodepth=16", "--number_ios=600"],
    "io_uring": ["--ioengine=io_uring", "--direct=1", "--rw=randrw", "--bs=4k", "--iodepth=8", "--number_ios=600"],
    "mmap": ["--ioengine=mmap", "--rw=randrw", "--bs=4k", "--fsync=100", "--number_ios=600"],
    "buffered": ["--ioengine=psync", "--rw=randrw", "--bs=4k", "--fsync=8", "--number_ios=400"],
    "split": ["--ioengine=libaio", "--direct=1", "--rw=randrw", "--bs=4m", "--iodepth=4", "--number_ios=20"],
    "merged": ["--ioengine=libaio", "--direct=1", "--rw=read", "--bs=4k", "--iodepth=32", *BATCHED],
}


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_task_file_and_component(filesystem: FileSystem, workload: str, tmp_path: Path) -> None:
    path = filesystem.directory / "db" / "WALs" / "host,16020.log"
    lay_out(path, 32)
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        pid = run_fio(path, "--size=32m", *WORKLOADS[workload])
        os.sync()
        assert trace.stop() == 0
    touched = of_file(trace.records(), path)
    assert len(touched) >= 10
    assert share(touched, pid, path.stat().st_ino, path) >= SHARE
    rows = rows_of(trace)
    named = [row for row in rows if row["path"] == str(path)]
    assert len(named) == len([r for r in trace.records() if r.path == str(path)]) >= SHARE * len(touched)
    assert all(row["component"] == "wal" and row["inode"] == path.stat().st_ino for row in named)
    direct = "--direct=1" in WORKLOADS[workload]
    origin = IO_URING if workload == "io_uring" else SYSCALL
    if direct:
        assert sum(r.origin == origin for r in touched) >= SHARE * len(touched)
    if workload == "split":
        assert len(touched) > 20, "no request was split"
    if workload == "merged":
        assert any(r.bios > 1 for r in touched), "no request was merged"


def test_large_write_back(filesystem: FileSystem, tmp_path: Path) -> None:
    """More than one bio takes; the memory of a bio may still hold pages of another file."""
    paths = [filesystem.directory / f"{i}" for i in range(8)]
    for path in paths:
        path.touch()
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        for path in (*paths, *reversed(paths)):
            with path.open("rb+") as file:
                for page in random.sample(range(1536), 1536):  # else neighbours in the file would be so in memory
                    os.pwrite(file.fileno(), bytes(4096), page * 4096)
                os.fsync(file.fileno())
        assert trace.stop() == 0
    records = trace.records()
    for path in paths:
        touched = of_file(records, path)
        assert sum(r.size_bytes for r in touched) >= 12 << 20
        assert share(touched, os.getpid(), path.stat().st_ino, path) >= SHARE


def test_write_back_is_of_the_task_that_dirtied_the_page(filesystem: FileSystem, tmp_path: Path) -> None:
    path = filesystem.directory / "dirty"
    lay_out(path, 8)
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        pid = run_fio(path, "--size=8m", "--ioengine=psync", "--rw=randwrite", "--bs=4k", "--number_ios=500")
        subprocess.run(["sync"], check=True)
        assert trace.stop() == 0
    written = [r for r in of_file(trace.records(), path) if r.mode == WRITE and r.origin == WRITEBACK]
    assert len(written) > 20
    assert share(written, pid, path.stat().st_ino, path) >= SHARE
    assert all(r.comm.startswith(b"fio") and r.flags & DIRTIER and r.vfs_ns == EMPTY for r in written)


def test_a_pid_filter_takes_what_the_process_has_dirtied(filesystem: FileSystem, tmp_path: Path) -> None:
    path, other = filesystem.directory / "wanted", filesystem.directory / "other"
    go = "read go; exec dd if=/dev/urandom of={} bs=64k count=32 conv=notrunc"
    writers = [subprocess.Popen(["sh", "-c", go.format(p)], stdin=-1, stderr=-3) for p in (path, other)]
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk, "--pid", str(writers[0].pid)) as trace:
        for writer in writers:
            writer.communicate(b"\n")
        subprocess.run(["sync"], check=True)
        assert trace.stop() == 0
    records = trace.records()
    assert sum(r.size_bytes for r in records if r.path == str(path)) == 32 * 65536
    assert not any(r.path == str(other) for r in records)
    assert trace.device(filesystem.disk)["excluded"]["filtered"] > 0


def test_write_back_after_exec_is_of_the_program_that_wrote_last(filesystem: FileSystem, tmp_path: Path) -> None:
    """A script writes to a log, and becomes the program that goes on writing there: one thread, two names."""
    path = filesystem.directory / "log"
    script = f"echo begins > {path}; exec dd if=/dev/urandom of={path} bs=64k count=32 seek=1 conv=notrunc status=none"
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        writer = subprocess.Popen(["sh", "-c", script])
        assert writer.wait(60) == 0
        subprocess.run(["sync"], check=True)
        assert trace.stop() == 0
    written = [r for r in of_file(trace.records(), path) if r.mode == WRITE and r.flags & DIRTIER]
    assert sum(r.size_bytes for r in written) >= 32 << 16
    assert {(r.pid, r.comm) for r in written} == {(writer.pid, b"dd")}


@pytest.fixture
def encrypted(disk: str, tmp_path: Path) -> Iterator[Path]:
    """A folder whose files ext4 encrypts on their way to the disk."""
    directory = tmp_path / "mounted"
    directory.mkdir()
    folder = directory / "encrypted"
    try:
        subprocess.run(["mkfs.ext4", "-q", "-O", "encrypt", f"/dev/{disk}"], check=True)
        subprocess.run(["mount", f"/dev/{disk}", str(directory)], check=True)
        folder.mkdir()
        subprocess.run(["e4crypt", "add_key", "-S", "0x1234", str(folder)], check=True, input=b"key\n")
        (folder / "probe").touch()  # which needs the ciphers, too
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this kernel or machine cannot encrypt files (CONFIG_FS_ENCRYPTION, ciphers, e4crypt): {error}")
    else:
        yield folder
    finally:
        if directory.is_mount():
            subprocess.run(["umount", str(directory)], check=True)


def test_files_that_the_kernel_encrypts(encrypted: Path, disk: str, tmp_path: Path) -> None:
    """It writes copies of their pages."""
    synced, left = encrypted / "synced", encrypted / "left"
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        for path in (synced, left):
            path.write_bytes(os.urandom(1 << 20))
        with synced.open("rb") as file:
            os.fsync(file.fileno())
        subprocess.run(["sync"], check=True)
        assert trace.stop() == 0
    for path, origin in ((synced, SYSCALL), (left, WRITEBACK)):
        written = [r for r in of_file(trace.records(), path) if r.mode == WRITE]
        assert sum(r.size_bytes for r in written) >= 1 << 20
        assert share(written, os.getpid(), path.stat().st_ino, path) >= SHARE
        assert {r.origin for r in written} == {origin}


#: ext4 writes back a file that was emptied and written anew when it is closed, in the task that closes it.
WRITES_AND_WAITS = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(file, bytes(1 << 20))
os.write(1, b"written")
os.read(0, 1)
"""


def test_what_a_killed_process_leaves_is_of_no_call(mounted: Path, disk: str, tmp_path: Path) -> None:
    """It was in read() for a second; the kernel closes its files when that has returned."""
    path = mounted / "left"
    lay_out(path, 1)
    with tracing(tmp_path / "io.bin", "--device", disk) as trace:
        with subprocess.Popen([sys.executable, "-c", WRITES_AND_WAITS, path], stdin=-1, stdout=-1) as writer:
            assert writer.stdout and writer.stdout.read(7) == b"written"
            time.sleep(1)
            before, deadline = diskstats(disk), time.monotonic() + 10
            writer.kill()
        while (diskstats(disk) - before).written_sectors * 512 < 1 << 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert trace.stop() == 0
    written = [r for r in trace.records() if r.pid == writer.pid and r.path == str(path) and r.mode == WRITE]
    assert sum(r.size_bytes for r in written) == 1 << 20
    assert {(r.comm[:6], r.origin, r.vfs_ns) for r in written} == {(b"python", OTHER, EMPTY)}


def write_direct(descriptor: int, count: int) -> None:
    with mmap.mmap(-1, 4096) as aligned:
        for i in range(count):
            os.pwrite(descriptor, memoryview(aligned), i * 4096)


def test_renamed_and_deleted_files(filesystem: FileSystem, tmp_path: Path) -> None:
    old, new, gone = (filesystem.directory / name for name in ("old", "new", "gone"))
    for path in (old, gone):
        lay_out(path, 1)
    renamed = os.open(old, os.O_WRONLY | os.O_DIRECT)
    deleted = os.open(gone, os.O_WRONLY | os.O_DIRECT)
    gone.unlink()
    try:
        with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
            write_direct(renamed, 50)
            old.rename(new)
            write_direct(renamed, 60)
            write_direct(deleted, 70)
            assert trace.stop() == 0
        inodes = [os.fstat(descriptor).st_ino for descriptor in (renamed, deleted)]
    finally:
        os.close(renamed)
        os.close(deleted)
    count = {
        (r.inode, r.path): sum((s.inode, s.path) == (r.inode, r.path) for s in trace.records())
        for r in trace.records()
        if r.pid == os.getpid() and r.inode
    }
    assert count == {(inodes[0], str(old)): 50, (inodes[0], str(new)): 60, (inodes[1], str(gone)): 70}


def test_memory_that_maps_a_file_says_nothing_of_the_disk(disk: str, tmp_path: Path) -> None:
    """Direct I/O on the disk itself, with pages of a file that lies elsewhere."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 5):
        pytest.skip("this kernel does not mark pages that are pinned for direct I/O: needs Linux 6.5")
    mapped = tmp_path / "mapped"
    mapped.write_bytes(bytes(65536))
    raw = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT)
    try:
        with (
            mapped.open("r+b") as file,
            mmap.mmap(file.fileno(), 65536) as memory,
            tracing(tmp_path / "io.bin", "--device", disk) as trace,
        ):
            for size in (4096, 65536):
                for _ in range(20):
                    assert os.preadv(raw, [memoryview(memory)[:size]], 0) == size
                    assert os.pwrite(raw, memoryview(memory)[:size], 0) == size
            assert trace.stop() == 0
    finally:
        os.close(raw)
    rows = [row for row in rows_of(trace) if row["pid"] == os.getpid()]
    assert len(rows) == 80
    assert {(row["inode"], row["path"]) for row in rows} == {(None, None)}


REGION = "hbase/data/default/usertable/0123456789abcdef0123456789abcdef"
CASSANDRA = "cassandra/data/ks/t-1b255f4def2540a6"
#: A file as a database lays it out, the thread that uses it, and the component; each is of a size of its own.
LAID_OUT = [
    ("hbase/WALs/node1,16020,1700000000000/node1%2C16020%2C1700000000000.1700000000001", "RS-EventLoopGro", "wal"),
    (f"{REGION}/.tmp/cf/5f0c3c7f0b8e4c1b9a1d5f0c3c7f0b8e", "MemStoreFlusher", "flush"),
    (f"{REGION}/.tmp/cf/6f0c3c7f0b8e4c1b9a1d5f0c3c7f0b8e", "regionserver/no", "compaction"),
    (f"{REGION}/cf/7f0c3c7f0b8e4c1b9a1d5f0c3c7f0b8e", "RpcServer.defau", "hfile"),
    ("dn/current/BP-1-10.0.0.1-17/current/finalized/subdir0/subdir1/blk_1073741825", "DataXceiver for", "hdfs_block"),
    ("dn/current/BP-1-10.0.0.1-17/current/rbw/blk_1073741826_1002.meta", "DataXceiver for", "hdfs_checksum"),
    ("rocksdb/000012.log", "db_bench", "wal"),
    ("rocksdb/000012.sst", "db_bench", "sst"),
    ("rocksdb/000013.sst", "rocksdb:low", "compaction"),
    ("rocksdb/000014.sst", "rocksdb:high", "flush"),
    ("rocksdb/MANIFEST-000004", "rocksdb:high", "manifest"),
    ("cassandra/commitlog/CommitLog-7-1700000000000.log", "PERIODIC-COMMIT", "commit_log"),
    (f"{CASSANDRA}/nb-1-big-Data.db", "ReadStage-1", "sstable"),
    (f"{CASSANDRA}/nb-2-big-Data.db", "CompactionExecu", "compaction"),
    (f"{CASSANDRA}/nb-3-big-Data.db", "MemtableFlushWr", "flush"),
    ("redis/appendonlydir/appendonly.aof.1.incr.aof", "redis-server", "aof"),
    ("redis/appendonlydir/appendonly.aof.1.base.rdb", "redis-server", "aof"),
    ("redis/dump.rdb", "redis-server", "rdb"),
    ("var/log/nginx/access.log", "nginx", None),
    ("kafka/orders-0/00000000000000000000.log", "kafka-request-h", None),
]


def test_bytes_of_components(filesystem: FileSystem, tmp_path: Path) -> None:
    """Written once and read twice, directly, by threads that are called as the databases'."""
    wanted: Counter[tuple[str, str | None]] = Counter()
    inodes = set()

    def use(path: Path, comm: str, blocks: int) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(comm)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        inodes.add(os.fstat(descriptor).st_ino)
        write_direct(descriptor, blocks)
        with mmap.mmap(-1, 4096) as aligned:
            for i in range(2 * blocks):
                assert os.preadv(descriptor, [aligned], i % blocks * 4096) == 4096
        os.close(descriptor)

    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        for i, (name, comm, component) in enumerate(LAID_OUT):
            path, blocks = filesystem.directory / name, 3 + i * (i + 1) // 2
            path.parent.mkdir(parents=True, exist_ok=True)
            thread = threading.Thread(target=use, args=(path, comm, blocks))
            thread.start()
            thread.join()
            wanted["W", component] += blocks * 4096
            wanted["R", component] += 2 * blocks * 4096
        assert trace.stop() == 0
    assert len(inodes) == len(LAID_OUT)
    found: Counter[tuple[object, object]] = Counter()
    for row in rows_of(trace):
        if row["inode"] in inodes:
            assert row["pid"] == os.getpid()
            found[row["mode"], row["component"]] += int(str(row["size_bytes"]))
    assert found == wanted


def test_no_file_is_made_up(filesystem: FileSystem, tmp_path: Path) -> None:
    """XFS writes small metadata from the kernel's own memory; what stands there where pages name their file is none."""
    inodes = set()
    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        for turn in range(8):
            for i in range(200):
                path = filesystem.directory / f"{i}" / f"{turn}"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"x")
                inodes.add(path.stat().st_ino)
                if turn and i % 3 == 0:
                    path.with_name(f"{turn - 1}").unlink()
        # The journal is not enough: all metadata shall be written to its place.
        for to in ("--freeze", "--unfreeze"):
            subprocess.run(["fsfreeze", to, str(filesystem.directory)], check=True)
        assert trace.stop() == 0
    named = {row["inode"] for row in rows_of(trace)} - {None}
    assert named and named <= inodes


def test_many_files_at_once(filesystem: FileSystem, tmp_path: Path) -> None:
    """More names in a moment than one round of the reader takes; two threads, so two CPUs."""
    directory = filesystem.directory / "many"
    directory.mkdir()
    # neighbouring files of two threads would else be merged into one request, which has the name of the first
    merging = Path(f"/sys/block/{filesystem.disk}/queue/nomerges")
    before = merging.read_text()
    merging.write_text("2")

    def write(part: int) -> None:
        for i in range(part, 1000, 2):
            descriptor = os.open(directory / f"{i:04}-{'x' * 100}", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
            write_direct(descriptor, 1)
            os.close(descriptor)

    with tracing(tmp_path / "io.bin", "--device", filesystem.disk) as trace:
        threads = [threading.Thread(target=write, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        merging.write_text(before)
        assert trace.stop() == 0
    seen = {(r.inode, r.path) for r in trace.records() if r.path and r.path.startswith(str(directory) + "/")}
    status = json.loads(Path(f"{trace.output}.json").read_text())
    assert status["names_dropped"] == 0
    written = {(p.stat().st_ino, str(p)) for p in directory.iterdir()}
    assert seen == written
