from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import ConfigError, DataError
from controller.results.clock import UNREAD, NodeClock, bucket_ns, read_clock
from controller.results.timeline import Timeline, read_timeline

T0 = 1_790_000_000_000_000_000
DAY = 86_400 * 10**9
HEAD = "t_unix_ns,t_mono_ns,offset_ns,error_bound_ns\n"


def clock(*readings: tuple[int, int], bound: int = 1000) -> NodeClock:
    times, offsets = (np.array(column, dtype=np.int64) for column in zip(*readings, strict=True))
    return NodeClock(times, times - T0, offsets, bound)


def machine(*seconds: float, bound: int = 1000, drift: float = 0, **events: tuple[float, float]) -> NodeClock:
    """Readings of a node that is a day ahead, at these seconds of the controller. `was_set`: at which second its unix
    clock was set by how many; `stood_still`: when its monotonic clock did not run for how long."""
    set_at, ahead = events.get("was_set", (1e9, 0))
    still_at, still = events.get("stood_still", (1e9, 0))
    gone = np.array([second * (1 + drift) for second in seconds])  # as the node counts
    late = np.array(seconds)
    unix = DAY + T0 + ((gone + ahead * (late > set_at)) * 1e9).astype(np.int64)
    mono = ((gone - still * (late > still_at)) * 1e9).astype(np.int64)
    return NodeClock(unix, mono, unix - T0 - (late * 1e9).astype(np.int64), bound)


@given(
    ahead=st.floats(-100, 100),
    set_at=st.floats(1, 599),
    begun_at=st.floats(0, 600),
    times=st.lists(st.integers(0, 600 * 10**9), min_size=1),
)
def test_times_stay_right_when_the_unix_clock_is_set(
    ahead: float, set_at: float, begun_at: float, times: list[int]
) -> None:
    """Whether the file was begun before that or after it."""
    node = machine(0, 600, was_set=(set_at, ahead))
    epoch = T0 + DAY + (int(ahead * 1e9) if begun_at > set_at else 0)
    found = node.to_controller(np.array(times) + epoch, epoch)
    assert np.abs(found - T0 - times).max() <= 1


@pytest.mark.parametrize(
    ("node", "unix_s", "mono_s"),
    [
        (machine(0, 600), 0, 0),
        (machine(0), 0, 0),
        (UNREAD, 0, 0),
        (machine(0, 600, drift=1e-4), 0, 0),
        (machine(0, 300, 600, was_set=(299, 2)), 2, 0),
        (machine(0, 300, 600, was_set=(299, -2), drift=1e-4), -2, 0),
        (machine(0, 600, was_set=(299, 0.001), bound=500_000), 0, 0),
        (machine(0, 600, was_set=(299, 0.002), bound=500_000), 0.002, 0),
        (machine(0, 600, stood_still=(299, 2)), 0, 2),
        (machine(0, 600, drift=1e-2), 0, -6),
    ],
)
def test_a_clock_that_was_set_is_told_from_a_machine_that_stood_still(
    node: NodeClock, unix_s: float, mono_s: float
) -> None:
    assert list(node.jumps()) == pytest.approx([unix_s * 1e9, mono_s * 1e9], abs=10)
    assert [jump != 0 for jump in node.jumps()] == [unix_s != 0, mono_s != 0], "no jump is none at all"


@given(offset=st.integers(-(10**15), 10**15), times=st.lists(st.integers(0, 10**13), min_size=1))
def test_a_steady_offset_is_taken_off_exactly(offset: int, times: list[int]) -> None:
    node = clock((T0, offset), (T0 + 10**10, offset))
    unix = np.array(times, dtype=np.int64) + T0
    assert (node.to_controller(unix + offset) == unix).all()


@given(
    offset=st.integers(-(10**12), 10**12),
    drift=st.integers(-200_000, 200_000),
    share=st.integers(0, 1000),
)
def test_between_two_readings_the_offset_is_interpolated(offset: int, drift: int, share: int) -> None:
    node = clock((T0, offset), (T0 + 1000 * 10**6, offset + drift))
    at = T0 + share * 10**6
    expected = at - (offset + round(drift * share / 1000))
    assert abs(int(node.to_controller(np.array([at]))[0]) - expected) <= 1


def test_outside_the_readings_the_nearest_one_holds() -> None:
    node = clock((T0, 100), (T0 + 1000, 300))
    assert node.to_controller(np.array([T0 - 10**9, T0 + 10**9])).tolist() == [T0 - 10**9 - 100, T0 + 10**9 - 300]


def test_a_node_without_readings_is_taken_as_it_is(tmp_path: Path) -> None:
    assert read_clock(tmp_path / "clock.csv") is UNREAD
    assert UNREAD.to_controller(np.array([T0])).tolist() == [T0]
    (tmp_path / "clock.csv").write_text(HEAD)
    assert read_clock(tmp_path / "clock.csv") is UNREAD


def test_readings_are_sorted_by_the_monotonic_clock_and_the_largest_bound_counts(tmp_path: Path) -> None:
    """Here the unix clock was set back between the two. A bound of 0 is one that can be."""
    (tmp_path / "clock.csv").write_text(HEAD + f"{T0 - 5},9,-7,0\n{T0},4,5,900\n")
    node = read_clock(tmp_path / "clock.csv")
    assert [column.tolist() for column in (node.t_unix_ns, node.t_mono_ns, node.offset_ns)] == [
        [T0, T0 - 5],
        [4, 9],
        [5, -7],
    ]
    assert node.error_bound_ns == 900


@pytest.mark.parametrize(
    "content", ["t_unix_ns\n1\n", HEAD + "1,2,x,4\n", HEAD + "1,2\n", HEAD + "1,2,3,-4\n", HEAD + f"{1 << 64},2,3,4\n"]
)
def test_a_damaged_clock_table_is_a_data_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "clock.csv").write_text(content)
    with pytest.raises(DataError, match=r"clock\.csv"):
        read_clock(tmp_path / "clock.csv")


def test_no_bucket_is_finer_than_twice_the_worst_error_bound() -> None:
    clocks = {"good": clock((T0, 0), bound=10), "bad": clock((T0, 0), bound=500_000_001), "unread": UNREAD}
    with pytest.raises(DataError, match="finer than twice") as caught:
        bucket_ns({"bucket_ms": 1000}, clocks)
    assert caught.value.node == "bad"
    assert bucket_ns({"bucket_ms": 1001}, clocks) == 1_001_000_000
    assert bucket_ns({}, {}) == 1_000_000_000


@pytest.mark.parametrize("bucket_ms", [0, -1, 1.5, "1000", True, 500])
def test_a_bucket_that_cannot_be_is_refused(bucket_ms: object) -> None:
    with pytest.raises(ConfigError, match="bucket_ms"):
        bucket_ns({"bucket_ms": bucket_ms}, {})


@given(t=st.integers(-(10**14), 10**14), bucket_ms=st.integers(1, 10**5))
def test_a_bucket_holds_its_time(t: int, bucket_ms: int) -> None:
    timeline = Timeline(T0, T0 + 10**15, (), bucket_ms * 10**6)
    start_us = timeline.bucket_start_us(T0 + t)
    assert start_us * 1000 <= t < start_us * 1000 + timeline.bucket_ns
    assert start_us % timeline.bucket_us == 0


INSTANTS = st.builds(lambda bucket, off: 3000 * bucket + off, st.integers(-3, 3), st.sampled_from([-1, 0, 1, 1500]))


@given(start=INSTANTS, end=INSTANTS)
def test_the_buckets_of_a_stretch_are_those_of_its_nanoseconds(start: int, end: int) -> None:
    """None when it is empty, also within a bucket."""
    timeline = Timeline(T0, T0 + 10**15, (), 3000)
    touched = {t // 3000 * 3 for t in range(start, end)}
    assert list(timeline.buckets(T0 + start, T0 + end)) == sorted(touched)


def test_a_day_longer_than_what_was_recorded_is_the_longest() -> None:
    """A run that was cut off may have gone on behind its last event."""
    assert Timeline(T0, T0 + 7, (), 10**9).longest_ns == 7 + DAY


def event(name: str, t: int, phase: str | None = None) -> dict[str, object]:
    return {"event": name, "t_unix_ns": T0 + t} | ({"phase": phase} if phase else {})


def test_a_phase_without_an_end_lasts_until_the_next_one_or_the_last_event() -> None:
    events = [
        event("run_start", 0),
        event("phase_start", 5, "a"),
        event("phase_start", 9, "b"),
        event("phase_end", 12, "b"),
    ]
    events += [event("phase_start", 12, "c"), event("fault", 20), event("other", 19)]
    timeline = read_timeline(events, 10**9)
    found = [(span.phase, span.start_unix_ns - T0, span.end_unix_ns - T0, span.complete) for span in timeline.spans]
    assert found == [("a", 5, 9, False), ("b", 9, 12, True), ("c", 12, 20, False)]
    assert (timeline.start_unix_ns, timeline.end_unix_ns) == (T0, T0 + 20)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [event("phase_start", 1, "a")],
        [event("run_start", 0), event("run_start", 1)],
        [event("run_start", 0), event("phase_end", 1, "a")],
        [event("run_start", 0), event("phase_start", 1)],
        [event("run_start", 0), event("phase_start", 5, "a"), event("phase_end", 4, "a")],
        [event("run_start", 0), event("phase_start", 5, "a"), event("phase_end", 6, "b")],
        [event("run_start", 0), *(event(f"phase_{e}", t, "a") for e, t in (("start", 1), ("end", 2)))]
        + [event(f"phase_{e}", t, "a") for e, t in (("start", 3), ("end", 4))],
        [event("run_start", 0), *(event(f"phase_{e}", t, "a") for e, t in (("start", 1), ("end", 5)))]
        + [event(f"phase_{e}", t, "b") for e, t in (("start", 4), ("end", 6))],
    ],
)
def test_events_that_make_no_sense_are_a_data_error(events: list[dict[str, object]]) -> None:
    with pytest.raises(DataError, match=r"events\.jsonl"):
        read_timeline(events, 10**9)
