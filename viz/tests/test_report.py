from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.errors import DataError
from controller.results.finish import finish
from controller.results.store import RunStore
from viz.page import UNKNOWN, Cell, number, table
from viz.report import header, remarks, verdict, write_report
from viz.run_data import load_run
from viz.tables import accounts, headline, system


def text_of(store: RunStore) -> str:
    page = write_report(store.path).read_text()
    return html.unescape(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


def test_the_page_is_self_contained(complete_run: RunStore) -> None:
    page = write_report(complete_run.path).read_text()
    assert page.count("plotly.js v") == 1
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    # the pages of the nodes lie beside it
    assert set(re.findall(r"(?:src|href)=\"(?!#)([^\"]*)", outside)) == {"nodes.html"}
    assert "@import" not in outside and "url(" not in outside
    assert not re.search(r"<script[^>]+src", page)


def test_the_page_shows_status_numbers_and_settings(complete_run: RunStore) -> None:
    text = text_of(complete_run)
    for expected in (
        "complete",
        complete_run.run_id,
        "5,600 operations in 4 phases, 0 failed",
        "7,128 I/Os traced on 3 nodes, 0 lost",
        "throughput (ops/s)",
        "p99.9 (ms)",
        "SYNC_WAL",
        "hbase.regionserver.handler.count",
        "Synthetic CPU",
        "2 in flight at start",
    ):
        assert expected in text, expected


def test_calls_on_files_are_told_with_their_means(complete_run: RunStore, untraced_run: RunStore) -> None:
    (row,) = re.findall(r"<tr><td>node2</td><td>read</td>.*?</tr>", text_of(complete_run))
    # 1,800,000 ns in 900 calls and 25,000,000 ns in 100
    assert re.findall(r">([\d.,]+)</td>", row) == ["900", "100", "0.900", "2", "250"]
    assert "Calls on files were not counted." in text_of(untraced_run)


def cells(text: str, beginning: str) -> list[str]:
    """Of the one row of a table that begins so."""
    (row,) = re.findall(rf"<tr[^>]*>{re.escape(beginning)}.*?</tr>", text)
    return [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]


def test_the_accounts_of_a_disk_are_what_was_counted(complete_run: RunStore, gappy_run: RunStore) -> None:
    """29.7 s of 40 requests a second; of two more, which were under way before, diskstats knows."""
    run = load_run(complete_run.path)
    counts = ["1,188", "0", "1,188", "1,190", "2"]
    assert cells(accounts(run), "<td>node1</td>") == ["node1", "loop1", *counts, "2 in flight at start", UNKNOWN]
    device = run.traces["node1"]["devices"][0] | {"diskstats_settled": False, "dropped": 3, "excluded": {"merged": 0}}
    odd = replace(run, traces={"node1": run.traces["node1"] | {"devices": [device]}}, io_rows={})
    expected = ["node1", "loop1", "0", "3", "1,188", "1,190", "0", "none (diskstats not settled)", UNKNOWN]
    assert cells(accounts(odd), "<td>node1</td>") == expected
    gappy = accounts(load_run(gappy_run.path))
    assert cells(gappy, "<td>node1</td>")[-1] == "vfs"
    reason = "tracing unavailable: no right to load BPF programs (needs root)"
    assert cells(gappy, "<td>node2</td>") == ["node2", UNKNOWN, *[UNKNOWN] * 5, "", reason]


def test_the_headline_has_the_numbers_of_the_summary(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    values = run.summary.set_index(["phase", "op", "metric"])["value"]
    text = headline(run)
    assert re.findall(r'<tr class="total"><td>([^<]*)</td>', text) == [span.phase for span in run.timeline.spans]
    per_second = values["messenger-load", "all", "throughput_ops_per_s"]
    total = ["messenger-load", "all", "1,000", "0", number(per_second).text]
    assert cells(text, "<td>messenger-load</td>") == [*total, *[UNKNOWN] * 7]
    deletes = [values["messenger-run", "DELETE", f"{name}_us"] for name in ("mean", "p50", "p99", "p999", "max")]
    found = cells(text, "<td></td><td>DELETE</td>")
    assert found[2:4] == ["120", "0"] and found[5:10] == [number(value / 1000).text for value in deletes]


def test_what_the_run_ran_on_is_told_once_where_all_nodes_agree(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    text = system(run)
    assert cells(text, "<td>version</td><td>kernel</td>")[2] == "6.1.0-synthetic (all nodes)"
    assert cells(text, "<td>version</td><td>java</td>")[2] == "17.0.0-synthetic"
    assert cells(text, "<td>hbase setting</td><td>hbase.storage</td>")[2] == "hdfs", "what the run found"
    assert cells(text, "<td>hbase setting</td><td>hbase.regionserver.handler.count</td>")[2] == "30", "what was planned"
    assert cells(text, "<td>memory_bytes</td>") == ["memory_bytes", "8,589,934,592 (8.0 GiB)"]
    assert cells(text, "<td>disks.0.name</td>") == ["disks.0.name", "loop0"]
    assert "<td>node</td>" not in text, "it is a column"
    facts: dict[str, dict[str, Any]] = {
        "n1": {"cpu": {"cores": 2}, "nics": ["a", "b"]},
        "n2": {"cpu": {"cores": 4}, "tags": None, "x_bytes": 5},
    }
    versions = {"kernel": {"n1": "6.1", "n2": "6.2"}, "jvm": {"n1": "17"}}
    mixed = system(replace(run, facts=facts, manifest=run.manifest | {"versions": versions}))
    assert cells(mixed, "<td>cpu.cores</td>") == ["cpu.cores", "2", "4"]
    assert cells(mixed, "<td>nics</td>") == ["nics", "a, b", UNKNOWN]
    assert cells(mixed, "<td>x_bytes</td>") == ["x_bytes", UNKNOWN, "5"]
    assert "tags</td>" not in mixed and "all nodes" not in mixed
    assert cells(mixed, "<td>version</td><td>kernel.n2</td>")[2] == "6.2"
    assert cells(mixed, "<td>version</td><td>jvm</td>")[2] == "17"
    assert "No node has reported its hardware" in system(replace(run, facts={}))


def test_a_node_without_a_disk_to_trace_has_a_row_that_says_so(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    without = replace(run, traces={node: trace | {"devices": []} for node, trace in run.traces.items()})
    assert re.findall(r"<tr><td>(node\d)</td>.*?<td>no disk was traced</td></tr>", accounts(without)) == run.nodes


def test_the_description_of_the_experiment_is_a_line_of_the_page(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    described = replace(run, plan=run.plan | {"description": "Reads & <writes>"})
    assert '<p class="run">Reads &amp; &lt;writes&gt;</p>' in header(described)
    assert header(run).count('<p class="run">') == 1


def test_the_first_sentence_does_not_make_a_zero_of_what_is_unknown(
    complete_run: RunStore, empty_run: RunStore
) -> None:
    assert verdict(load_run(empty_run.path)).startswith("No client has reported an operation in 4 phases;")
    run = load_run(complete_run.path)
    traces = {node: trace | {"dropped": 3} for node, trace in run.traces.items()}
    # A trace that could not be judged left no count in the manifest.
    not_judged = replace(run, traces=traces, manifest=run.manifest | {"lost_events": {}})
    assert "7,128 I/Os traced on 3 nodes, 9 lost" in verdict(not_judged)
    assert "an unknown number lost" in verdict(replace(run, traces={"node1": {"emitted": 5}}))


def test_the_first_sentence_counts_one_as_one(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    everything = run.summary[(run.summary["op"] == "all") & (run.summary["phase"] == "content-run")]
    one = everything.assign(value=(everything["metric"] == "count").astype(float))
    timeline = replace(run.timeline, spans=run.timeline.spans[:1])
    assert verdict(replace(run, summary=one, timeline=timeline)).startswith("1 operation in 1 phase, 0 failed; ")


def test_results_of_an_open_loop_show_what_a_user_waited(complete_run: RunStore, gappy_run: RunStore) -> None:
    run = load_run(complete_run.path)
    (row,) = re.findall(r"<td>READ</td>.*?</tr>", headline(run).split("messenger-run")[1])
    values = run.summary.set_index(["phase", "op", "metric"])["value"]
    scheduled = [values["messenger-run", "READ", f"intended_{name}_us"] / 1000 for name in ("p50", "p99")]
    assert re.findall(r">([\d.,]+)</td>", row)[-2:] == [number(value).text for value in scheduled]
    head = re.findall(r"<th[^>]*>([^<]*)</th>", headline(run))
    assert head[-2:] == ["p50 from schedule (ms)", "p99 from schedule (ms)"]
    assert "schedule" not in headline(load_run(gappy_run.path)), "a closed loop has none"


def test_every_entry_of_the_contents_leads_somewhere(complete_run: RunStore) -> None:
    text = text_of(complete_run)
    targets = re.findall(r'href="#([^"]+)"', text)
    assert len(targets) >= 9
    assert all(f'id="{target}"' in text for target in targets)


def test_reasons_and_gaps_are_on_the_page(gappy_run: RunStore) -> None:
    text = text_of(gappy_run)
    assert '<span class="status partial">partial' in text
    assert "client2/messenger-run: no summary.json" in text
    assert "node2: tracing unavailable: no right to load BPF programs (needs root)" in text
    assert "node1: layer vfs is missing: kprobe on vfs_read" in text


def test_a_run_whose_data_contradict_each_other_has_not_passed_every_check(complete_run: RunStore) -> None:
    run = load_run(complete_run.path)
    sound = run.manifest | {"reasons": [], "warnings": []}
    assert "every check passed" in remarks(replace(run, manifest=sound))
    text = remarks(replace(run, manifest=sound | {"status": "partial", "reasons": ["ops.csv: 7 operations, not 8"]}))
    assert "check passed" not in text and "is not complete" in text


def test_a_node_of_which_the_manifest_knows_nothing_was_not_traced(untraced_run: RunStore) -> None:
    run = load_run(untraced_run.path)
    assert run.missing_trace("node1").startswith("tracing unavailable: no right")
    assert replace(run, manifest=run.manifest | {"tracing": {}}).missing_trace("node1") == "not traced"
    for state, said in (("traced", "its trace was not collected"), ("off", "tracing off")):
        told = replace(run, manifest=run.manifest | {"tracing": {"node1": {"state": state}}})
        assert told.missing_trace("node1") == said


def test_a_run_without_anything_has_a_page_without_plots(empty_run: RunStore) -> None:
    text = text_of(empty_run)
    assert "No client has reported an operation" in text
    assert 'id="plot-' not in text


def test_the_page_is_in_the_manifest(complete_run: RunStore) -> None:
    write_report(complete_run.path)
    assert "report.html" in complete_run.manifest()["files"]


def test_a_run_that_was_not_joined_is_a_data_error(complete_run: RunStore, tmp_path: Path) -> None:
    for name in ("plan.json", "manifest.json", "events.jsonl"):
        (tmp_path / name).write_bytes((complete_run.path / name).read_bytes())
    with pytest.raises(DataError, match=r"ops\.csv is missing"):
        write_report(tmp_path)


@pytest.mark.parametrize("table", ["ops.csv", "joined.csv", "summary.csv"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: text.rindex(",", 0, len(text) // 2) - 20], "cut off"),
        (lambda text: "a,b\n" + text.split("\n", 1)[1], "no column"),
        (lambda text: text.replace(",0,", ",none,"), "no number"),
    ],
    ids=["cut off", "other columns", "words for numbers"],
)
def test_a_damaged_table_is_a_data_error(
    table: str, damage: Callable[[str], str], said: str, complete_run: RunStore, tmp_path: Path
) -> None:
    folder = shutil.copytree(complete_run.path, tmp_path / "run")
    path = folder / "joined" / table
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataError, match=said) as error:
        write_report(folder)
    assert str(path) in str(error.value) and error.value.hint


@pytest.mark.parametrize("table", ["ops.csv", "joined.csv", "summary.csv"])
def test_a_table_that_was_changed_by_hand_is_not_drawn(table: str, complete_run: RunStore, tmp_path: Path) -> None:
    folder = shutil.copytree(complete_run.path, tmp_path / "run")
    path = folder / "joined" / table
    path.write_text(re.sub(r",(\d+),", lambda m: f",{int(m[1]) + 1},", path.read_text(), count=1))
    with pytest.raises(DataError, match="is not what the manifest") as error:
        write_report(folder)
    assert str(path) in str(error.value) and "strata join" in error.value.hint
    finish(folder)
    write_report(folder)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\u2013"),
        (float("nan"), "\u2013"),
        (0, "0"),
        (1234567, "1,234,567"),
        (12.345, "12.3"),
        (0.01234, "0.012"),
        (0.000234, "0.00023"),
        (-0.000234, "-0.00023"),
        (1234.5, "1,234"),
    ],
)
def test_numbers_are_shown_with_three_digits(value: float | None, shown: str) -> None:
    assert number(value).text == shown


def test_a_name_that_is_no_utf_8_is_shown_escaped(complete_run: RunStore, tmp_path: Path) -> None:
    folder = shutil.copytree(complete_run.path, tmp_path / "run")
    store = RunStore.open(folder)
    # So Python reads the bytes of a file's name, and so JSON keeps them.
    store.update_manifest(status="partial", reasons=["caf\udce9.csv: the file is missing"])
    assert "caf\\udce9.csv: the file is missing" in write_report(folder).read_text()
    assert not list(folder.glob(".*"))


def test_text_from_the_run_cannot_become_markup() -> None:
    assert "<script>" not in table([Cell("<script>")], [[Cell("<script>alert(1)</script>")]])
