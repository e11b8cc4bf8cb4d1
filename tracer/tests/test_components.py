"""The rules on paths as databases lay them out, and rules files that are wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer import components, decode
from tracer.components import Components, RulesError, read_rules
from tracer.tests.test_decode import PLAIN, file_of
from tracer.tracefile import NO_TEXT, RECORD, Definitions

REGION = "/data/hbase/data/default/usertable/0123456789abcdef0123456789abcdef"
HDFS = "/data/dfs/dn/current/BP-1073741-10.0.0.1-1700000000000/current"
META, SWAP, JOURNAL = 16, 128, 3
#: By their codes (docs/tracer-file.md).
MODES = ("R", "W", "D", "F")
ORIGINS = ("other", "syscall", "writeback", "journal", "io_uring")


@pytest.mark.parametrize(
    ("path", "comm", "component"),
    [
        ("/data/hbase/WALs/node1,16020,1700000000000/node1%2C16020%2C1700000000000.1700000000001", "java", "wal"),
        ("/data/hbase/oldWALs/node1%2C16020%2C1700000000000.1700000000001", "java", "wal"),
        ("/data/hbase/MasterData/WALs/node1,16000,1/node1%2C16000", "java", "wal"),
        (f"{REGION}/.tmp/cf/5f0c3c7f0b8e4c1b9a1d", "MemStoreFlusher", "flush"),
        (f"{REGION}/.tmp/cf/5f0c3c7f0b8e4c1b9a1d", "regionserver/no", "compaction"),
        (f"{REGION}/cf/5f0c3c7f0b8e4c1b9a1d", "RpcServer.defau", "hfile"),
        (f"{HDFS}/rbw/blk_1073741825", "DataXceiver for", "hdfs_block"),
        (f"{Path(HDFS).parent}/tmp/blk_1073741826", "DataXceiver for", "hdfs_block"),
        (f"{Path(HDFS).parent}/tmp/blk_1073741826_1002.meta", "DataXceiver for", "hdfs_checksum"),
        (f"{HDFS}/finalized/subdir0/subdir1/blk_1073741825", "java", "hdfs_block"),
        (f"{HDFS}/finalized/subdir0/subdir1/blk_1073741825_1001.meta", "java", "hdfs_checksum"),
        ("/data/dfs/nn/current/edits_inprogress_0000000000000000001", "java", "hdfs_edits"),
        ("/data/dfs/nn/current/fsimage_0000000000000000000", "java", "hdfs_image"),
        ("/data/zookeeper/version-2/log.1", "SyncThread:0", "zookeeper_log"),
        ("/data/zookeeper/version-2/snapshot.0", "java", "zookeeper_snapshot"),
        ("/var/lib/arangodb3/engine-rocksdb/journals/000123.log", "arangod", "wal"),
        ("/var/lib/arangodb3/engine-rocksdb/000124.sst", "rocksdb:low", "compaction"),
        ("/var/lib/arangodb3/engine-rocksdb/000124.sst", "rocksdb:bottom", "compaction"),
        ("/var/lib/arangodb3/engine-rocksdb/000124.sst", "rocksdb:high", "flush"),
        ("/var/lib/arangodb3/engine-rocksdb/000124.sst", "Worker", "sst"),
        ("/var/lib/arangodb3/engine-rocksdb/MANIFEST-000005", "rocksdb:high", "manifest"),
        ("/srv/rocks/000007.log", "db_bench", "wal"),
        ("/var/lib/cassandra/commitlog/CommitLog-7-1700000000000.log", "PERIODIC-COMMIT", "commit_log"),
        ("/var/lib/cassandra/data/ks/t-1b255f4def2540a6/nb-1-big-Data.db", "ReadStage-1", "sstable"),
        ("/var/lib/cassandra/data/ks/t-1b255f4def2540a6/nb-1-big-Data.db", "CompactionExecu", "compaction"),
        ("/var/lib/cassandra/data/ks/t-1b255f4def2540a6/nb-1-big-Index.db", "MemtableFlushWr", "flush"),
        ("/var/lib/cassandra/data/ks/t-1b255f4def2540a6/nb-1-big-Index.db", "PerDiskMemtable", "flush"),
        ("/var/lib/cassandra/data/system/local-7ad54392bcdd35a6/nb-1-big-Data.db", "LocalSystemKeys", "flush"),
        ("/var/lib/redis/appendonlydir/appendonly.aof.1.incr.aof", "redis-server", "aof"),
        ("/var/lib/redis/appendonly.aof", "redis-server", "aof"),
        ("/var/lib/redis/temp-123.rdb", "redis-rdb-bgsave", "rdb"),
        ("/var/lib/postgresql/15/main/pg_wal/000000010000000000000001", "postgres", "wal"),
        (f"{REGION}/recovered.edits/0000000000000000123", "java", "wal"),
        (f"{REGION}/cf/5f0c3c7f0b8e4c1b9a1d_SeqId_4_", "RpcServer.defau", "hfile"),
        ("/data/hbase/data/hbase/meta/1588230740/info/5f0c3c7f0b8e4c1b9a1d", "RpcServer.defau", "hfile"),
        ("/data/hbase/data/hbase/meta/1588230740/.tmp/info/5f0c3c7f0b8e4c1b9a1d", "MemStoreFlusher", "flush"),
        ("/data/hbase/data/hbase/meta/1588230740/.tmp/info/5f0c3c7f0b8e4c1b9a1d", "regionserver/no", "compaction"),
        ("/data/dfs/nn/current/edits_0000000000000000001-0000000000000000042", "java", "hdfs_edits"),
        ("/data/dfs/nn/current/fsimage_0000000000000000042.md5", "java", "hdfs_image"),
        ("/data/dfs/nn/current/fsimage.ckpt_0000000000000000042", "java", "hdfs_image"),
        ("/data/zookeeper/version-2/log.10000002f", "SyncThread:0", "zookeeper_log"),
        ("/data/zookeeper/version-2/snapshot.10000002f.snappy", "java", "zookeeper_snapshot"),
        ("/srv/rocks/1000007.log", "db_bench", "wal"),
        ("/srv/rocks/archive/000003.log", "db_bench", "wal"),
        ("/srv/rocks/1000008.sst", "db_bench", "sst"),
        ("/srv/rocks/MANIFEST-1000004", "db_bench", "manifest"),
        ("/var/lib/cassandra/cdc_raw/CommitLog-7-1700000000000.log", "java", "commit_log"),
        ("/var/lib/cassandra/commitlog/CommitLog-7-1700000000000_cdc.idx", "java", "commit_log"),
        ("/var/lib/cassandra/data/ks/t-1b255f/nb-3fw2_0tj4_46w3k2cpidnirvjy7k-big-Index.db", "java", "sstable"),
        ("/var/lib/cassandra/data/ks/t-1b255f/da-1-bti-Partitions.db", "java", "sstable"),
        ("/var/lib/cassandra/data/ks/t-1b255f/me-1-big-CompressionInfo.db", "java", "sstable"),
        ("/var/lib/redis/appendonlydir/appendonly.aof.1.base.rdb", "redis-server", "aof"),
        ("/var/lib/redis/appendonlydir/appendonly.aof.manifest", "redis-server", "aof"),
        ("/var/lib/redis/temp-rewriteaof-bg-4711.aof", "redis-server", "aof"),
        ("/var/lib/redis/dump.rdb", "redis-server", "rdb"),
        ("/var/lib/redis/temp-1700000000.4711.rdb", "redis-server", "rdb"),
        ("/srv/cache/sessions.rdb", "redis-server", "rdb"),
        ("/var/lib/mysql/ib_logfile0", "mysqld", "wal"),
        ("/var/lib/mysql/#innodb_redo/#ib_redo12", "mysqld", "wal"),
        ("/var/lib/mysql/#innodb_redo/#ib_redo13_tmp", "mysqld", "wal"),
    ],
)
def test_rules_of_databases(path: str, comm: str, component: str | None, tmp_path: Path) -> None:
    file = tmp_path / "io.bin"
    file.write_bytes(file_of([replace(PLAIN, path=path, comm=comm.encode())]))
    assert decode.read_table(file)["component"].to_pylist() == [component]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/home/me/notes.log",
        "/var/log/nginx/access.log",
        "/var/log/daemon.log",
        "/opt/kafka/logs/server.log",
        "/opt/kafka/data/orders-0/00000000000000000000.log",
        "/var/log/app/20241129.log",
        "/var/log/app/00012a.log",
        "/var/log/app/12345.log",
        "/home/me/journals/monday.log",
        "/usr/lib/app/symbols.sst",
        "/backup/MANIFEST-of-files",
        "/home/me/commitlog/notes.txt",
        "/var/log/CommitLog-review.log",
        "/home/me/my-holiday-in-2024.db",
        "/home/me/ab-1-2-3.db",
        "/srv/appendonly-notes.txt",
        "/usr/lib/R/library/base/R/base.rdb",
        "/data/home/me/project/.tmp/draft",
        "/data/photos/2024/of-a-holiday-with-all-the-family/at/sea",
        "/srv/current/edits_by_me",
        "/srv/current/fsimages.txt",
        "/srv/version-2/log.txt",
        "/srv/version-2/snapshot.png",
        "/home/me/ib_logfiles.txt",
    ],
)
def test_files_of_others_are_nobodys(path: str, tmp_path: Path) -> None:
    """Some that look like those above."""
    file = tmp_path / "io.bin"
    file.write_bytes(file_of([replace(PLAIN, path=path)]))
    assert decode.read_table(file)["component"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("/[0-9].x", ["/0.x", "/9.x"], ["/a.x", "/10.x", "/.x", "//.x", "/0ax"]),
        ("/[0-9a-c]{2}", ["/0c", "/aa"], ["/d0", "/0", "/0cc"]),
        ("/[0-9]{2,3}*", ["/12", "/123", "/1234", "/12a"], ["/1", "/1a", "/12/3"]),
        ("/a[!0-9]{1,}", ["/ab", "/abc"], ["/a", "/a1", "/a/", "/ab/c"]),
        ("/[^\\\\&&a]", ["/^", "/\\", "/&", "/a"], ["/b", "/]"]),
        ("/[[]x]", ["/[x]"], ["/x]", "/[x"]),
        ("/{1}", ["/{1}"], ["/1", "/"]),
        ("/**/[a-b]", ["/x/a", "/x/y/b"], ["/x/c", "/xa"]),
        ("**.x", ["/a\n/b.x", "/\n.x"], ["/a.x\n"]),
        ("/*/?", ["/a\n/b", "/a/\n"], ["/a/b\n"]),
    ],
)
def test_classes_in_paths(glob: str, matching: list[str], others: list[str]) -> None:
    (rule,) = [components._parse(["c", f"path={glob}"])]
    assert rule.path
    assert [path for path in (*matching, *others) if rule.path.fullmatch(path)] == matching


def test_the_file_systems_own_requests(tmp_path: Path) -> None:
    file = tmp_path / "io.bin"
    nameless = replace(PLAIN, inode=0)
    changes: list[dict[str, Any]] = [{}, {"flags": 2 | META}, {"origin": JOURNAL}, {"flags": 1 | SWAP}]
    file.write_bytes(file_of([replace(nameless, **change) for change in changes]))
    assert decode.read_table(file)["component"].to_pylist() == [None, "metadata", "journal", "swap"]


def test_kinds_that_this_version_does_not_know_are_none_of_those_of_a_rule(tmp_path: Path) -> None:
    """Of a newer tracer: the first codes that it does not know."""
    rules = tmp_path / "my.rules"
    rules.write_text("flushes mode=F\nuring origin=io_uring\nrest path=/**\n")
    file = tmp_path / "io.bin"
    known = [replace(PLAIN, mode=3), replace(PLAIN, origin=4)]
    file.write_bytes(file_of([*known, replace(PLAIN, mode=4), replace(PLAIN, origin=5)]))
    assert decode.read_table(file, rules=rules)["component"].to_pylist() == ["flushes", "uring", "rest", "rest"]


def test_rules_of_ones_own(tmp_path: Path) -> None:
    rules = tmp_path / "my.rules"
    lines = "logs path=/data/** mode=W comm=ja*  # first\n\n# mine\nreads path=/data/**\n"
    file = tmp_path / "io.bin"
    file.write_bytes(file_of([PLAIN, replace(PLAIN, mode=0), replace(PLAIN, comm=b"cat")]))
    for text in (lines, lines.replace("\n", "\r\n"), "\ufeff" + lines):  # as other systems write text
        rules.write_text(text, encoding="utf-8", newline="")
        assert decode.read_table(file, rules=rules)["component"].to_pylist() == ["logs", "reads", "reads"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("wal", "no condition"),
        ("wal path=", "not a condition"),
        ("wal /data", "not a condition"),
        ("wal paths=/data", "not a condition"),
        ("wal path=/data/[0-9", "a [ without its ]"),
        ("wal path=/data/[]", "a [ without its ]"),
        ("wal path=/data/[a/b]", "a [ without its ]"),
        ("wal path=/data/[9-0]", "bad character range"),
        ("wal path=/data/[0-9]{7,6}", "path=/data/[0-9]{7,6}: "),
        ("wal path=/a path=/b", "not a condition"),
        ("wal mode=X", "not one of R, W, D, F"),
        ("wal origin=kernel", "not one of"),
        ("wal meta=1", "not one of no, yes"),
        ("wal swap=1", "not one of no, yes"),
    ],
)
def test_wrong_rules(line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, file = tmp_path / "my.rules", tmp_path / "io.bin"
    rules.write_text(f"# comment\n{line}\n")
    file.write_bytes(file_of([PLAIN]))
    with pytest.raises(RulesError, match=":2: "):
        read_rules(rules)
    assert decode.main([str(file), "--rules", str(rules)]) == 2
    message = capsys.readouterr().err
    assert said in message and message.count("\n") == 1
    assert decode.main([str(file), "--rules", str(tmp_path / "missing")]) == 2


def test_rules_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, file = tmp_path / "my.rules", tmp_path / "io.bin"
    rules.write_bytes(b"wal path=/\xff\n")
    file.write_bytes(file_of([PLAIN]))
    assert decode.main([str(file), "--rules", str(rules)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"tracer.decode: {rules}: ") and message.count("\n") == 1


#: What each condition of the test below is for, by hand; `None` is a request without a path.
PATHS = {
    "/a/*": {"/a/b"},
    "/a/**": {"/a/b", "/a/b/c.log"},
    "**.log": {"/a/b/c.log", "/x.log"},
    "/[a-c]/[!d]{1,}": {"/a/b"},
}
COMMS = {"j*": {"java", "j"}, "kw?": {"kw1"}}


def holds(condition: str, path: str | None, comm: str, mode: str, origin: str, flag: int) -> bool:
    key, _, value = condition.partition("=")
    if key in ("meta", "swap"):
        return (flag == {"meta": META, "swap": SWAP}[key]) == (value == "yes")
    if key in ("path", "comm"):
        return path in PATHS[value] if key == "path" else comm in COMMS[value]
    return value == {"mode": mode, "origin": origin}[key]


conditions = st.lists(
    st.sampled_from(
        [
            *(f"path={glob}" for glob in PATHS),
            *(f"comm={glob}" for glob in COMMS),
            *("mode=R", "mode=D", "origin=other", "origin=journal"),
            *("meta=yes", "meta=no", "swap=yes", "swap=no"),
        ]
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda condition: condition.split("=")[0],
)
records = st.tuples(
    st.sampled_from([None, "/a/b", "/a/b/c.log", "/x.log"]),
    st.sampled_from(["java", "kw1", "x", "j"]),
    st.sampled_from(MODES),
    st.sampled_from(ORIGINS),
    st.sampled_from([0, META, SWAP]),
)


@given(st.lists(conditions, min_size=1, max_size=6), st.lists(st.lists(records, max_size=8), min_size=1, max_size=3))
def test_the_table_says_what_the_rules_say(lines: list[list[str]], blocks: list[list[Any]]) -> None:
    """Files and threads come while the file is read, block after block."""
    rules = [components._parse([f"c{i % 4}", *line]) for i, line in enumerate(lines)]
    table, definitions = Components(rules), Definitions()
    files: dict[str | None, int] = {None: 0}
    tasks: dict[str, int] = {}
    for rows in blocks:
        block = np.zeros(len(rows), RECORD)
        for slot, (path, comm, mode, origin, flag) in zip(block, rows, strict=True):
            if path not in files:
                files[path] = len(files)
                definitions.add(b'{"file": %d, "inode": 1, "path": "%s"}' % (files[path], str(path).encode()))
            if comm not in tasks:
                tasks[comm] = len(tasks) + 1
                definitions.add(b'{"task": %d, "pid": 1, "cgroup_id": 1, "comm": "%s"}' % (tasks[comm], comm.encode()))
            slot["file"], slot["task"], slot["flags"] = files[path], tasks[comm], flag | 3
            slot["mode"], slot["origin"] = MODES.index(mode), ORIGINS.index(origin)
        comm = definitions.task_comm.values[definitions.tasks.places(block["task"])]
        path = definitions.file_path.values[definitions.files.places(block["file"])]
        codes = table.codes(definitions, comm, path, block)
        names = [None if code == NO_TEXT else table.names[code] for code in codes]
        expected = [[f"c{i % 4}" for i, line in enumerate(lines) if all(holds(c, *row) for c in line)] for row in rows]
        assert names == [matching[0] if matching else None for matching in expected]
