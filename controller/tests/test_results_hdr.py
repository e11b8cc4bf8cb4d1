from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.errors import DataError
from controller.results import hdr
from controller.results.hdr import counts_table, log_content, read_intervals
from controller.results.operations import run_statistics
from controller.tests.synthetic import SECOND, T0
from controller.tests.synthetic.clients import write_hdr

values = st.lists(st.integers(1, 10**11), min_size=1, max_size=60)
anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def rows(latencies: list[int]) -> list[dict[str, Any]]:
    return [{"start": T0 + i * 37_000_000, "latency_ns": value, "delay_ns": -1} for i, value in enumerate(latencies)]


@anything
@given(parts=st.lists(values, min_size=1, max_size=3))
def test_merging_the_logs_of_several_clients_is_recording_all_in_one(tmp_path: Path, parts: list[list[int]]) -> None:
    tables = []
    one = HdrHistogram(1, 3600 * SECOND, 3)
    for index, latencies in enumerate(parts):
        path = tmp_path / f"READ{index}.hdr"
        write_hdr(path, rows(latencies), T0)
        tables.append(counts_table(path))
        for value in latencies:
            one.record_value(value)
    merged = pa.concat_tables(tables).append_column("what", pa.repeat(hdr.OK, sum(t.num_rows for t in tables)))
    keyed = merged.append_column("op", pa.repeat("READ", merged.num_rows))
    (found,) = run_statistics(ibis.memtable(keyed), ["op"]).to_pyarrow().to_pylist()
    everything = sorted(value for part in parts for value in part)
    assert found["n"] == len(everything)
    assert found["max_ns"] == one.get_max_value()
    assert found["mean_ns"] == pytest.approx(one.get_mean_value())
    for name, permille in {"p50": 500, "p95": 950, "p99": 990, "p999": 999}.items():
        rank = -(-len(everything) * permille // 1000)  # the smallest value with that share at or below it
        assert found[f"{name}_ns"] == one.get_highest_equivalent_value(everything[rank - 1])


def test_intervals_keep_their_instant_to_the_millisecond(tmp_path: Path) -> None:
    path = tmp_path / "READ.hdr"
    write_hdr(path, rows([5_000_000, 5_000_000, 2 * SECOND]), T0, offset_ns=7_000_000)
    intervals = list(read_intervals(path))
    assert [int(interval.count.sum()) for interval in intervals] == [2, 1]
    assert [round((interval.start_unix_ns - T0 - 7_000_000) / SECOND, 2) for interval in intervals] == [0, 2]
    assert all(interval.length_ns == SECOND for interval in intervals)


def test_times_relative_to_a_base_and_tags_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "READ.hdr"
    histogram = HdrHistogram(1, SECOND, 3)
    histogram.record_value(1000)
    rest = f"0.250,0.001,{histogram.encode().decode()}\n"
    head = "#[StartTime: 1790000000.125 (seconds since epoch), x]\n#[BaseTime: 1790000000.125 (seconds since epoch)]\n"
    path.write_text(f"{head}0.000,{rest}Tag=a,0.500,{rest}")
    found = [(interval.start_unix_ns, interval.length_ns) for interval in read_intervals(path)]
    assert found == [(1_790_000_000_125_000_000, 250_000_000), (1_790_000_000_625_000_000, 250_000_000)]


@pytest.mark.parametrize("lowest", [1, 1000, 1 << 20])
def test_ranges_are_those_of_the_histogram_also_where_it_does_not_tell_nanoseconds_apart(
    tmp_path: Path, lowest: int
) -> None:
    values = [3 << 20, 77_777_777, 3 * SECOND]
    histogram = HdrHistogram(lowest, 3600 * SECOND, 3)
    for value in values:
        histogram.record_value(value)
    path = tmp_path / "READ.hdr"
    path.write_text(f"1790000000.000,1.000,0.001,{histogram.encode().decode()}\n")
    table = counts_table(path)
    assert table["value_high_ns"].to_pylist() == [histogram.get_highest_equivalent_value(value) for value in values]
    assert sum(table["value_mid_ns"].to_pylist()) == pytest.approx(histogram.get_mean_value() * len(values))


def test_a_last_line_without_its_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "READ.hdr"
    write_hdr(path, rows([1000]), T0)
    path.write_text(path.read_text() + "1790000001.000,1.000,0.5,HISTFAAAA")
    assert counts_table(path)["count"].to_pylist() == [1]


@anything
@given(position=st.integers(0, 10**6), replacement=st.sampled_from("A/=9,. \x00é"))
def test_a_damaged_log_is_a_data_error_that_names_its_line(tmp_path: Path, position: int, replacement: str) -> None:
    path = tmp_path / "READ.hdr"
    write_hdr(path, rows([1000, 2000]), T0)
    text = path.read_text()
    at = position % (len(text) - 1)
    path.write_text(text[:at] + replacement + text[at + 1 :])
    try:
        counts_table(path)
    except DataError as error:
        assert f"READ.hdr line {text.count(chr(10), 0, at) + 1} " in f"{error} ".replace(":", " ")


def test_an_empty_log_has_no_counts(tmp_path: Path) -> None:
    (tmp_path / "READ.hdr").write_text("")
    assert counts_table(tmp_path / "READ.hdr").num_rows == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("READ.hdr", ("READ", "ok")),
        ("READ-MODIFY-WRITE.hdr", ("READ-MODIFY-WRITE", "ok")),
        ("READ-MODIFY-WRITE-FAILED.hdr", ("READ-MODIFY-WRITE", "failed")),
        ("Intended-SCAN.hdr", ("SCAN", "intended")),
        ("Intended-SCAN-FAILED.hdr", None),
    ],
)
def test_the_name_says_what_a_log_holds(name: str, content: tuple[str, str] | None) -> None:
    assert log_content(Path(name)) == content
