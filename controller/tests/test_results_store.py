from __future__ import annotations

import csv
import errno
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import ConfigError, DataError, RunError
from controller.results.convert import write_csv
from controller.results.store import RunStore, _unquoted_lines, count_rows, new_folder, runs, write_atomically


def test_a_run_folder_has_a_timed_id_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    first = RunStore.create(tmp_path, "demo", now_unix_ns=1_790_000_000 * 10**9)
    second = RunStore.create(tmp_path, "demo", now_unix_ns=1_790_000_060 * 10**9)
    assert re.fullmatch(r"20260921T141320Z-[0-9a-f]{4}", first.run_id)
    assert RunStore.open(tmp_path / "demo" / "latest").run_id == second.run_id


def test_ids_of_the_same_second_differ_in_order(tmp_path: Path) -> None:
    made = [RunStore.create(tmp_path, name).run_id for name in ("a", "b", "c") for _ in range(300)]
    assert len(set(made)) == len(made) and made == sorted(made)


def test_runs_lists_every_run_once_oldest_first(tmp_path: Path) -> None:
    created = [RunStore.create(tmp_path, name, now_unix_ns=t * 10**9) for t, name in ((20, "b"), (10, "a"), (30, "b"))]
    for store in created:
        store.write_manifest({})
    assert [store.run_id for store in runs(tmp_path)] == sorted(store.run_id for store in created)
    with pytest.raises(ConfigError, match=r"no results in .*/nothing: No such file"):
        runs(tmp_path / "nothing")


def test_runs_of_a_scaling_experiment_are_listed_too(tmp_path: Path) -> None:
    series = new_folder(tmp_path / "scaling")
    inner = [RunStore.create(series, f"servers-{n}", now_unix_ns=n * 10**18) for n in (1, 2)]
    plain = RunStore.create(tmp_path, "demo", now_unix_ns=15 * 10**17)
    for store in (*inner, plain):
        store.write_manifest({})
    assert (tmp_path / "scaling" / "latest").resolve() == series.resolve()
    assert [store.path for store in runs(tmp_path)] == [inner[0].path, plain.path, inner[1].path]
    assert [store.path for store in runs(series)] == [store.path for store in inner]


def test_events_are_appended_and_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "demo")
    store.append_event("run_start", t_unix_ns=5)
    store.append_event("phase_start", t_unix_ns=6, phase="p")
    with (store.path / "events.jsonl").open("a") as file:
        file.write('{"event":"phase_e')
    assert store.events() == [
        {"t_unix_ns": 5, "event": "run_start"},
        {"t_unix_ns": 6, "event": "phase_start", "phase": "p"},
    ]


@pytest.mark.parametrize("line", ["[]", "{}", "nonsense", '{"event":1,"t_unix_ns":1}', '{"event":"x","t_unix_ns":"1"}'])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    store = RunStore.create(tmp_path, "demo")
    (store.path / "events.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"events\.jsonl line 1"):
        store.events()


def test_a_changed_raw_file_keeps_its_old_checksum_and_a_derived_one_gets_a_new(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "demo")
    store.write_manifest({"status": "complete"})
    raw, derived = store.path / "raw.csv", store.joined("ops.csv")
    raw.write_text("a\n1\n")
    derived.write_text("a\n1\n2\n")
    before = store.record_files()
    assert before["raw.csv"]["rows"] == 1 and before["joined/ops.csv"]["rows"] == 2
    raw.write_text("a\n2\n")
    derived.write_text("a\n")
    after = store.record_files([derived])
    assert after["raw.csv"] == before["raw.csv"]
    assert after["joined/ops.csv"]["rows"] == 0
    assert store.manifest()["files"] == after


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "demo")
    (store.path / "manifest.json").write_text(json.dumps({"schema_version": 2}))
    with pytest.raises(DataError, match="schema_version 2"):
        store.manifest()


@pytest.mark.parametrize("content", ["", "[1]", "{", "\ud800".encode("utf-8", "surrogatepass")])
def test_what_is_no_json_object_is_a_data_error(tmp_path: Path, content: str | bytes) -> None:
    store = RunStore.create(tmp_path, "demo")
    path = store.path / "plan.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=r"plan\.json"):
        store.plan()


def test_a_full_disk_is_one_error_that_names_the_path_and_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("controller.results.store.os.fsync", full)
    with pytest.raises(RunError, match=r"no space left.*manifest\.json"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_while_appending_an_event(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "demo")
    (store.path / "events.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunError, match="no space left"):
        store.append_event("run_start")


def test_rows_are_known_for_tables_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n{}\n")
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no parquet")
    assert count_rows(tmp_path / "a.jsonl") == 2
    assert count_rows(tmp_path / "a.log") is None
    with pytest.raises(DataError, match=r"a\.parquet"):
        count_rows(tmp_path / "a.parquet")


@given(st.lists(st.text(alphabet='ab,"\n\r', max_size=6), min_size=1, max_size=30), st.integers(1, 9))
def test_rows_of_a_table_are_counted_also_where_texts_hold_ends_of_lines(texts: list[str], block_bytes: int) -> None:
    content = io.StringIO()
    csv.writer(content, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["name"], *([text] for text in texts)])
    written = content.getvalue().encode()
    blocks = [written[i : i + block_bytes] for i in range(0, len(written), block_bytes)]
    assert _unquoted_lines(blocks) == 1 + len(texts)


def test_a_text_with_an_end_of_a_line_is_one_row_of_the_manifest(tmp_path: Path) -> None:
    paths = ["/data/a\nb", 'say "x"', None]
    path = write_csv(pa.table({"path": pa.array(paths, pa.string()), "inode": [1, 2, 3]}), tmp_path / "io.csv")
    assert count_rows(path) == 3
    with path.open(newline="") as file:
        assert [row["path"] for row in csv.DictReader(file)] == [text or "" for text in paths]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("controller.results.store.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "report.html", "new")
    assert not list(tmp_path.iterdir())


def test_a_limit_of_the_size_of_files_is_one_error_that_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ulimit -f`, which the report of 5 MB is the first to meet."""

    def limited(_: int) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr("controller.results.store.os.fsync", limited)
    with pytest.raises(RunError, match=r"cannot write .*report\.html: File too large"):
        write_atomically(tmp_path / "report.html", "new")
