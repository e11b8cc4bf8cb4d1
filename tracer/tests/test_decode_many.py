"""Traces of many files and tasks: what is decoded, and what memory that takes."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer import decode, tracefile
from tracer.tests.test_decode import NAMES, PLAIN, anywhere, file_of
from tracer.tests.tracing import SLOT, Record, pack, text_slots

#: Of these each is known to other rules.
COMMS = [
    "java",
    "MemStoreFlusher",
    "rocksdb:low",
    "rocksdb:high",
    "MemtableFlush",
    "CompactionExec",
    "redis-",
    "valkey-",
]
FILES = ("/srv/files/{:07}.dat", "/data/WALs/{:07}", "/db/{:07}.sst")
COMPONENTS = (None, "wal", "sst")


def one_record_for_each(files: int) -> list[Record]:
    """Every third file is of a database."""
    return [replace(PLAIN, inode=i + 1, path=FILES[i % 3].format(i)) for i in range(files)]


def peak_bytes(path: Path, files: int) -> int:
    """Of a trace with a record for each file."""
    slots = [text_slots({"task": i + 1, "pid": 1, "cgroup_id": 1, "comm": comm}) for i, comm in enumerate(COMMS)]
    device = text_slots({"device": 0, "name": "loop0"})
    record = pack([PLAIN], NAMES)[-SLOT.size :]
    for i in range(files):
        slots.append(text_slots({"file": i + 1, "inode": i + 1, "path": FILES[i % 3].format(i)}))
        numbered = b"".join(number.to_bytes(4, "little") for number in (i % len(COMMS) + 1, i + 1))
        slots.append(record[:40] + numbered + record[48:])
    path.write_bytes(file_of([]) + device + b"".join(slots))
    tracemalloc.start()
    try:
        assert sum(batch.num_rows for batch in decode.read_batches(path)) == files
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_takes_little_memory(tmp_path: Path) -> None:
    """Its name, and some numbers: else a server with millions of files could not be decoded."""
    few, more = (peak_bytes(tmp_path / "io.bin", files) for files in (6_000, 16_000))
    assert (more - few) / 10_000 < 1_000


@pytest.mark.parametrize("most", [tracefile.BLOCK_SLOTS, 64])
def test_each_file_has_its_own_row(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefile, "BLOCK_SLOTS", most)
    monkeypatch.setattr(decode, "BLOCK_SLOTS", most)
    written = one_record_for_each(1_000)
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([*written, *written[::-1], replace(PLAIN, inode=5000, path=None)]))
    table = decode.read_table(path)
    assert table["path"].to_pylist() == [r.path for r in [*written, *written[::-1]]] + [None]
    assert table["component"].to_pylist()[:1_000] == [COMPONENTS[i % 3] for i in range(1_000)]
    # The dictionaries of all blocks together: one name a row, and what the first blocks shared.
    assert sum(len(chunk.dictionary) for chunk in table["path"].chunks) <= table.num_rows + most


numbers = st.one_of(st.integers(1, 5), st.integers(1, 2**24 - 1))


@anywhere
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12))
def test_any_numbers_may_be_defined_in_any_order(tmp_path: Path, pairs: list[tuple[int, int]]) -> None:
    """Also once more: in the next block of slots the number stands for the later one."""
    content, expected = file_of([]) + text_slots({"device": 0, "major": 7, "minor": 0, "name": "loop0"}), []
    empty = pack([replace(PLAIN, flags=0, inode=0)], NAMES)[-SLOT.size :]
    for i, (task, file) in enumerate(pairs):
        content += text_slots({"task": task, "pid": i, "tid": i, "cgroup_id": i, "comm": f"t{i}"})
        content += text_slots({"file": file, "inode": i + 1, "path": f"/f/{i}"})
        numbered = b"".join(number.to_bytes(4, "little") for number in (task, file))
        content += empty[:40] + numbered + empty[48:]
        expected.append((i, f"t{i}", i + 1, f"/f/{i}"))
    path = tmp_path / "io.bin"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracefile, "BLOCK_SLOTS", 1)
        table = decode.read_table(path)
    columns = (table[name].to_pylist() for name in ("pid", "comm", "inode", "path"))
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.parametrize("kind", ["task", "file"])
def test_a_damaged_number_takes_no_memory(kind: str, tmp_path: Path) -> None:
    definition = {"pid": 1, "tid": 1, "cgroup_id": 1, "comm": "x", "inode": 1, "path": "/x"}
    path = tmp_path / "io.bin"
    path.write_bytes(file_of([PLAIN]) + text_slots({kind: 16_000_000, **definition}) + pack([PLAIN] * 10, NAMES))
    done = subprocess.run(
        [sys.executable, "-m", "tracer.decode", str(path)],
        capture_output=True,
        text=True,
        check=False,
        # The libraries alone reserve 370 MB.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert (done.returncode, done.stderr) == (0, "11 records\n")


def test_a_number_beyond_all_is_not_defined(tmp_path: Path) -> None:
    """The highest that can be defined is not taken for those above it."""
    last = tracefile.MOST_DEFINITIONS - 1
    defined = file_of([PLAIN]) + text_slots({"file": last, "inode": 1, "path": "/x"})
    path = tmp_path / "io.bin"
    for number in (last, last + 1, last + 2, 2**32 - 1):
        slot = pack([PLAIN], NAMES)[-SLOT.size :]
        path.write_bytes(defined + slot[:44] + number.to_bytes(4, "little") + slot[48:])
        if number == last:
            assert decode.read_table(path)["path"].cast(pa.string()).to_pylist()[-1] == "/x"
            continue
        with pytest.raises(tracefile.TraceFileError, match=f"file {number}, which is not defined"):
            decode.read_table(path)
