"""What the tracer makes of the times of a request, held against the table in docs/tracer.md: any times, in any order.

The layers of its own C code, compiled alone, go through a file and the decoder, and are compared with a model that
knows neither.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracer import decode
from tracer.tests.test_decode import HEADER, file_of
from tracer.tests.tracing import EMPTY_40_BITS, SLOT, text_slots

TRACER = Path(decode.__file__).parent
LAYERS = ("vfs_ns", "block_ns", "driver_ns", "device_ns")
MODES = ("block", "irq", "nvme", "scsi", "fentry", "kprobe")
FLUSHED, UNTIMED = 2048, 8192
OTHER_FLAGS = (1, 4, 8, 16, 32, 64, 128, 256, 4096)
#: 18 minutes.
LONGEST = 2**40 - 2
UNIX_MINUS_MONO = HEADER["anchor_unix_ns"] - HEADER["anchor_mono_ns"]

TIMES = ("enter_ns", "queue_ns", "insert_ns", "submit_ns", "issue_ns", "dispatch_ns", "seen_ns", "done_ns")


class Event(ctypes.Structure):
    """struct iotrace_event."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in TIMES),
        ("task", ctypes.c_uint8 * 32),
        ("sector", ctypes.c_uint64),
        ("file", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("flags", ctypes.c_uint16),
        ("bios", ctypes.c_uint16),
        ("requeues", ctypes.c_uint16),
        ("origin", ctypes.c_uint8),
        ("tracing", ctypes.c_uint8),
        ("mode", ctypes.c_uint8),
        ("status", ctypes.c_uint8),
        ("wait", ctypes.c_uint16),
    )


@dataclass(frozen=True)
class Seen:
    """What the programs saw of a request; 0 = not seen."""

    times: dict[str, int]
    tracing: int
    flags: int


@dataclass(frozen=True)
class Split:
    """What is to become of it."""

    layers: dict[str, int | None]
    start_ns: int
    tracing: int
    is_negative: bool


def split(seen: Seen) -> Split:
    """By docs/tracer.md: from the completion backwards, each layer begins where the one before it ends."""
    enter, queue, _, submit, issue, dispatch, interrupt, done = (seen.times[name] for name in TIMES)
    layers: dict[str, int | None] = dict.fromkeys(LAYERS)
    begins: list[tuple[str, int]] = []
    end, tracing = done, 0
    taken, sent = submit or issue, dispatch or issue
    in_order = (queue or taken) <= taken <= issue <= sent < interrupt < done
    if seen.tracing and issue and in_order and not seen.flags & FLUSHED:
        layers["device_ns"] = interrupt - sent
        layers["driver_ns"] = sent - taken + done - interrupt
        end, tracing = taken, seen.tracing
    elif issue:
        begins.append(("device_ns", issue))
    if queue and not seen.flags & UNTIMED:
        begins.append(("block_ns", queue))
        if enter:
            begins.append(("vfs_ns", enter))
    is_negative = False
    for layer, begin in begins:
        if begin > end:
            is_negative = True
            break
        layers[layer], end = end - begin, begin
    cut = {name: None if value is None else min(value, LONGEST) for name, value in layers.items()}
    return Split(cut, end, tracing, is_negative)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("no compiler here")
    path = tmp_path_factory.mktemp("record") / "record.so"
    sources = ["-I", str(TRACER / "bpf"), str(TRACER / "src" / "record.c")]
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(path), *sources], check=True
    )
    loaded = ctypes.CDLL(str(path))
    loaded.records_negative.restype = ctypes.c_ulonglong
    return loaded


def rows_of(library: ctypes.CDLL, requests: Sequence[Seen], path: Path) -> list[dict[str, Any]]:
    assert ctypes.sizeof(Event) == 128
    content = file_of([]) + text_slots({"device": 0, "major": 7, "minor": 0, "name": "loop0"})
    for number, seen in enumerate(requests):
        event = Event(**seen.times, tracing=seen.tracing, flags=seen.flags, sector=number, size_bytes=4096, mode=1)
        slot = ctypes.create_string_buffer(SLOT.size)
        library.record_fill(slot, ctypes.byref(event))
        content += slot.raw
    path.write_bytes(content)
    return decode.read_table(path).to_pylist()  # type: ignore[no-any-return]


modes = st.integers(0, len(MODES) - 1)
flags = st.lists(st.sampled_from((FLUSHED, UNTIMED, *OTHER_FLAGS)), max_size=3, unique=True).map(sum)
#: Few values, so that they are often the same or in the wrong order; and any at all.
any_time = st.one_of(st.integers(0, 6), st.integers(2**41, 2**41 + 3), st.integers(0, 2**62))
unordered = st.builds(Seen, st.fixed_dictionaries(dict.fromkeys(TIMES, any_time)), modes, flags)


@st.composite
def in_order(draw: st.DrawFn) -> Seen:
    """As a machine does it: one after the other, within 18 minutes; some not seen."""
    steps = draw(st.lists(st.integers(1, 2**36), min_size=len(TIMES), max_size=len(TIMES)))
    at, times = 2**50, {}
    for name, step in zip(TIMES, steps, strict=True):
        at += step
        times[name] = at if name == "done_ns" or draw(st.integers(0, 4)) else 0
    return Seen(times, draw(modes), draw(flags))


anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)


def check(
    library: ctypes.CDLL, requests: Sequence[Seen], path: Path, each: Callable[[Seen, dict[str, Any]], None]
) -> None:
    before = library.records_negative()
    rows = rows_of(library, requests, path)
    wanted = [split(seen) for seen in requests]
    assert library.records_negative() - before == sum(one.is_negative for one in wanted)
    assert [row["sector"] for row in rows] == list(range(len(requests)))
    for seen, row, one in zip(requests, rows, wanted, strict=True):
        assert {name: row[name] for name in LAYERS} == one.layers, seen
        assert row["t_unix_ns"] - UNIX_MINUS_MONO == one.start_ns, seen
        assert row["tracing_mode"] == MODES[one.tracing], seen
        each(seen, row)


def nothing_is_impossible(seen: Seen, row: dict[str, Any]) -> None:
    present = [row[name] for name in LAYERS if row[name] is not None]
    assert all(0 <= value <= LONGEST for value in present)
    assert row["total_ns"] == (sum(present) if present else None)
    assert row["vfs_ns"] is None or row["block_ns"] is not None
    # In whatever order: what is there lies end to end up to the completion.
    if LONGEST not in present:
        assert row["t_unix_ns"] - UNIX_MINUS_MONO + sum(present) == seen.times["done_ns"]


def all_of_it_is_there(seen: Seen, row: dict[str, Any]) -> None:
    nothing_is_impossible(seen, row)
    times = seen.times
    timed = times["queue_ns"] and not seen.flags & UNTIMED
    if timed and times["enter_ns"]:
        assert row["total_ns"] == times["done_ns"] - times["enter_ns"]
    elif timed:
        assert row["total_ns"] == times["done_ns"] - times["queue_ns"]
    elif times["issue_ns"]:
        begin = times["issue_ns"] if row["tracing_mode"] == "block" else times["submit_ns"] or times["issue_ns"]
        assert row["total_ns"] == times["done_ns"] - begin
    else:
        assert row["total_ns"] is None
    shows_driver = seen.tracing and times["issue_ns"] and times["seen_ns"] and not seen.flags & FLUSHED
    assert (row["driver_ns"] is not None) == bool(shows_driver)
    assert (row["device_ns"] is not None) == bool(times["issue_ns"])
    assert (row["block_ns"] is not None) == bool(timed)


@anything
@given(st.lists(in_order(), min_size=1, max_size=8))
def test_layers_of_events_in_order_fill_the_whole_time(
    library: ctypes.CDLL, tmp_path: Path, requests: list[Seen]
) -> None:
    before = library.records_negative()
    check(library, requests, tmp_path / "io.bin", all_of_it_is_there)
    assert library.records_negative() == before


@anything
@given(st.lists(unordered, min_size=1, max_size=8))
def test_no_order_of_events_makes_a_layer_negative(library: ctypes.CDLL, tmp_path: Path, requests: list[Seen]) -> None:
    check(library, requests, tmp_path / "io.bin", nothing_is_impossible)


def scheduler(seen: Seen) -> int:
    """From the insertion until the block layer ends; EMPTY_40_BITS: not seen, or not within that layer."""
    one, insert = split(seen), seen.times["insert_ns"]
    end = (one.tracing and seen.times["submit_ns"]) or seen.times["issue_ns"]
    if one.layers["block_ns"] is None or not insert or not seen.times["issue_ns"] or insert > end:
        return EMPTY_40_BITS
    return min(end - insert, LONGEST)


@anything
@given(st.lists(st.one_of(in_order(), unordered), min_size=1, max_size=8))
def test_the_scheduler_has_a_part_of_the_block_layer(library: ctypes.CDLL, requests: list[Seen]) -> None:
    for seen in requests:
        slot = ctypes.create_string_buffer(SLOT.size)
        library.record_fill(slot, ctypes.byref(Event(**seen.times, tracing=seen.tracing, flags=seen.flags)))
        _, _, *rest = SLOT.unpack(slot.raw)
        assert rest[4] | rest[12] << 32 == scheduler(seen), seen


def test_what_is_no_time_arrives_as_it_was(library: ctypes.CDLL) -> None:
    event = Event(
        done_ns=9,
        issue_ns=5,
        sector=1 << 40,
        size_bytes=123,
        flags=0x1FF,
        bios=7,
        requeues=8,
        origin=4,
        mode=2,
        status=10,
    )
    slot = ctypes.create_string_buffer(SLOT.size)
    library.record_fill(slot, ctypes.byref(event))
    start, sector, *rest = SLOT.unpack(slot.raw)
    assert (start, sector, rest[5]) == (5, 1 << 40, 123)
    mode, _, origin, kept_flags, status, tracing, bios, requeues = rest[13:]
    assert (mode, origin, kept_flags, status, tracing, bios, requeues) == (2, 4, 0xFF, 10, 0, 7, 8)
