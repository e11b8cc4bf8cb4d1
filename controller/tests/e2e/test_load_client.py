"""The load client against a real HBase cluster: shards that are one client, operations of several steps, failures.

What the client reports is held against HBase's own count, against the keys that must be there by YCSB's formula, and
against the operation log, read by libraries that are not the client's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from controller.results.oplog import read_operation_log
from controller.tests.e2e.conftest import LIMIT_S, NETWORK, ROOT, Strata, wait_for

pytestmark = pytest.mark.cluster

CLIENT = ROOT / "ycsb-fork/bin/ycsb"
ADMIN = ROOT / "ycsb-fork/bin/ycsb-admin"
QUORUM = f"hbase.zookeeper.quorum={NETWORK}10"
SERVERS = ("node1", "node2", "node3")
MASK = (1 << 64) - 1


@dataclass
class Run:
    """One client process and what it leaves in its folder."""

    process: subprocess.Popen[bytes]
    folder: Path

    def ends(self, code: int = 0) -> Run:
        assert self.process.wait(LIMIT_S) == code, self.errors()
        assert "Exception in thread" not in self.errors()
        return self

    def measures(self) -> bool:
        assert self.process.poll() is None, self.errors()
        return '"measuring"' in self.errors()

    def errors(self) -> str:
        return (self.folder / "stderr.log").read_text()

    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "summary.json").read_text()))

    def operations(self) -> dict[str, dict[str, Any]]:
        return dict(self.summary()["operations"])

    def log(self) -> dict[str, np.ndarray[Any, Any]]:
        """The records of the operation log by operation."""
        log = read_operation_log(self.folder / "ops.bin")
        return {name: log.records[log.records["op"] == code] for code, name in enumerate(log.header["operations"])}


def start(folder: Path, phase: str, *options: str, **properties: object) -> Run:
    """A client in the background; underscores in names of properties are dots, `file` is the workload file."""
    folder.mkdir(parents=True)
    workload = ROOT / "ycsb-fork/workloads" / str(properties.pop("file", "workloada"))
    given = {"hbase.zookeeper.quorum": f"{NETWORK}10", "durability": "SKIP_WAL", "operation.mix": "exact"}
    given["hbase.connect.timeout.ms"] = "120000"  # many processes start at once
    given |= {name.replace("_", "."): str(value) for name, value in properties.items()}
    command = [str(CLIENT), phase, "hbase2", "-P", str(workload), "-status-json"]
    for name, value in given.items():
        command += ["-p", f"{name}={value}"]
    with (folder / "stdout.log").open("wb") as out, (folder / "stderr.log").open("wb") as err:
        process = subprocess.Popen([*command, "-output", str(folder), *options], stdout=out, stderr=err)
    return Run(process, folder)


def admin(verb: str, table: str) -> dict[str, Any]:
    command = [str(ADMIN), "hbase2", verb, "-p", QUORUM, "-p", f"table={table}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


# --- shards ------------------------------------------------------------

RECORDS, OPERATIONS, INSERTS = 600, 6000, 600
MIX = {"readproportion": 0.6, "updateproportion": 0.3, "insertproportion": 0.1}


@pytest.fixture(scope="module")
def sharded(cluster: Strata, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Run]]:
    """One workload run by 1, 2 and 5 clients, each on a table of its own; seeds differ, so that samples do."""
    folder = tmp_path_factory.mktemp("sharded")

    def phase(name: str, n: int, **properties: object) -> list[Run]:
        common = {"table": f"shards{n}", "recordcount": RECORDS, "seed": n} | properties
        shards = [f"{i}/{n}" for i in range(n)]
        runs = [
            start(folder / f"{name}{shard.replace('/', '-of-')}", name, "-shard", shard, "-threads", "2", **common)
            for shard in shards
        ]
        return [run.ends() for run in runs]

    for n in (1, 2, 5):
        phase("load", n, hbase_table_splits="2-per-server", clientbuffering="true")
    return {n: phase("run", n, operationcount=OPERATIONS, **MIX) for n in (1, 2, 5)}


def requests(runs: Iterable[Run]) -> Counter[int]:
    """How often each loaded key was asked for."""
    counts: Counter[int] = Counter()
    for run in runs:
        log = run.log()
        counts.update(np.concatenate([log["READ"]["key_hash"], log["UPDATE"]["key_hash"]]).tolist())
    return counts


def test_any_number_of_shards_leaves_the_same_number_of_distinct_keys(sharded: dict[int, list[Run]]) -> None:
    for n, runs in sharded.items():
        assert sum(run.operations()["INSERT"]["ok"] for run in runs) == INSERTS
        inserted = np.concatenate([run.log()["INSERT"]["key_hash"] for run in runs])
        assert len(set(inserted.tolist())) == INSERTS, "no key was inserted twice"
        assert admin("count", f"shards{n}")["rows"] == RECORDS + INSERTS
    assert sum(admin("status", "shards5")["table_regions"].values()) == 2 * len(SERVERS)


@pytest.mark.parametrize("n", [2, 5])
def test_shards_ask_for_the_same_keys_as_one_client(sharded: dict[int, list[Run]], n: int) -> None:
    one, many = requests(sharded[1]), requests(sharded[n])
    assert one.total() == many.total() == OPERATIONS - INSERTS
    assert deviation(one, many) < 4, "two samples of one distribution"
    # the test can tell: the same sample with the ten hottest keys of one exchanged for cold ones
    keys = [key for key, _ in many.most_common()]
    swapped = dict(zip(keys[:10], keys[-10:], strict=True))
    assert deviation(one, Counter({swapped.get(key, key): count for key, count in many.items()})) > 20


def deviation(one: Counter[int], other: Counter[int]) -> float:
    """Two-sample chi-square in standard deviations (Wilson and Hilferty); keys below 10 requests are one class."""
    keys = one.keys() | other.keys()
    often = [key for key in keys if one[key] + other[key] >= 10]
    cells = [(one[key], other[key]) for key in often]
    cells.append((one.total() - sum(a for a, _ in cells), other.total() - sum(b for _, b in cells)))
    balance = sqrt(other.total() / one.total())
    chi2 = sum((a * balance - b / balance) ** 2 / (a + b) for a, b in cells if a + b)
    freedom = len(cells) - 1
    return float(((chi2 / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom)))


def test_merged_histograms_hold_exactly_what_the_shards_logged(sharded: dict[int, list[Run]]) -> None:
    for n, runs in sharded.items():
        assert sum(sum(op["count"] for op in run.operations().values()) for run in runs) == OPERATIONS
        for operation, share in (("READ", 0.6), ("UPDATE", 0.3), ("INSERT", 0.1)):
            merged, logged = histogram(), histogram()
            for run in runs:
                reader = HistogramLogReader(str(run.folder / f"{operation}.hdr"), histogram())
                while (interval := reader.get_next_interval_histogram()) is not None:
                    merged.add(interval)
                for latency_ns in run.log()[operation]["latency_ns"].tolist():
                    logged.record_value(latency_ns)
            assert merged.get_total_count() == round(share * OPERATIONS)
            assert buckets(merged) == buckets(logged), f"{operation} of {n} shards"


def histogram() -> Any:
    return HdrHistogram(1, 3_600_000_000_000, 3)


def buckets(of: Any) -> dict[int, int]:
    return {item.value_iterated_to: item.count_at_value_iterated_to for item in of.get_recorded_iterator()}


# --- operations of several steps ---------------------------------------

LOADED, ASKED, SCAN_LENGTH, SELECTIVITY = 1000, 2000, 20, 0.25


def key_digits(number: int) -> int:
    """YCSB's hashed key without its prefix: FNV-1a of the number's eight bytes, its sign dropped."""
    value = 0xCBF29CE484222325
    for byte in number.to_bytes(8, "little"):
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value if value < 1 << 63 else (1 << 64) - value


def key_hash(digits: int) -> int:
    """What the operation log holds of a key: SplitMix64's output for its digits, folded."""
    z = (digits + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    z ^= z >> 31
    return (z ^ z >> 32) & 0xFFFFFFFF


NUMBERS = {key_hash(key_digits(number)): number for number in range(ASKED)}
ROWS = sorted(f"user{key_digits(number)}" for number in range(LOADED))


def rows_from(number: int) -> int:
    """How many of the loaded rows a scan from a key can find."""
    return len(ROWS) - bisect_left(ROWS, f"user{key_digits(number)}")


Mode = tuple[Path, list[str], str]
MODES = {"threads": ["-threads", "4"], "clients": ["-threads", "2", "-p", "clients=64"]}


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest, cluster: Strata, tmp_path_factory: pytest.TempPathFactory) -> Mode:
    """Blocking or asynchronous clients, with a table that holds the first half of the keys that will be asked for."""
    folder, table, options = tmp_path_factory.mktemp("mode"), f"steps-{request.param}", MODES[request.param]
    start(folder / "load", "load", *options, table=table, recordcount=LOADED, clientbuffering="true").ends()
    return folder, options, table


def test_scans_return_what_is_there(mode: Mode) -> None:
    folder, how, table = mode
    run = start(
        folder / "scans", "run", *how, file="workloade", table=table, recordcount=ASKED, operationcount=1000,
        seed=3, scanproportion=0.5, filteredscanproportion=0.5, insertproportion=0, minscanlength=SCAN_LENGTH,
        maxscanlength=SCAN_LENGTH, filteredscan_selectivity=SELECTIVITY, requestdistribution="uniform",
    ).ends()  # fmt: skip
    operations, log = run.operations(), run.log()
    scanned = [NUMBERS[key] for key in log["SCAN"]["key_hash"].tolist()]
    assert operations["SCAN"]["records"] == sum(min(SCAN_LENGTH, rows_from(number)) for number in scanned)
    # with so many rows ahead that the limit is reached all but never too late (20 of 200 expected)
    filtered = [rows_from(NUMBERS[key]) for key in log["FILTERED-SCAN"]["key_hash"].tolist()]
    plenty = sum(SCAN_LENGTH for rows in filtered if rows >= 200)
    few = sum(SELECTIVITY * rows for rows in filtered if rows < 200)
    assert plenty <= operations["FILTERED-SCAN"]["records"] <= plenty + min(2 * few, SCAN_LENGTH * len(filtered))
    assert operations["SCAN"]["failed"] == operations["FILTERED-SCAN"]["failed"] == 0


def test_a_filter_lets_its_share_through(mode: Mode) -> None:
    folder, how, table = mode
    run = start(
        folder / "filter", "run", *how, file="workloade", table=table, recordcount=ASKED, operationcount=60, seed=4,
        scanproportion=0, filteredscanproportion=1, insertproportion=0, minscanlength=LOADED, maxscanlength=LOADED,
        filteredscan_selectivity=SELECTIVITY, readallfields="false", requestdistribution="uniform",
    ).ends()  # fmt: skip
    ahead = sum(rows_from(NUMBERS[key]) for key in run.log()["FILTERED-SCAN"]["key_hash"].tolist())
    # of 1000 rows with random values a quarter, five standard deviations
    spread = 5 * sqrt((1 - SELECTIVITY) / SELECTIVITY / LOADED)
    assert run.operations()["FILTERED-SCAN"]["records"] == pytest.approx(SELECTIVITY * ahead, rel=spread)


def test_reads_multi_gets_and_batch_inserts(mode: Mode) -> None:
    folder, how, table = mode
    run = start(
        folder / "batches", "run", *how, table=table, recordcount=ASKED, operationcount=800, seed=5, multiget_size=12,
        batchinsert_size=7, readproportion=0.5, updateproportion=0, multigetproportion=0.25, batchinsertproportion=0.25,
        requestdistribution="uniform",
    ).ends()  # fmt: skip
    operations, log = run.operations(), run.log()
    found = [NUMBERS[key] < LOADED for key in log["READ"]["key_hash"].tolist()]
    assert log["READ"]["status"].tolist() == [0 if there else 1 for there in found], "OK and NOT_FOUND, one by one"
    assert operations["READ"]["not_found"] == found.count(False)
    keys = 200 * 12
    assert operations["MULTI-GET"]["records"] == pytest.approx(keys / 2, abs=5 * sqrt(keys) / 2)
    assert operations["MULTI-GET"]["failed"] == 0
    assert operations["BATCH-INSERT"]["ok"] == 200
    assert admin("count", table)["rows"] == LOADED + 200 * 7


# --- failures ----------------------------------------------------------


def test_operations_that_hbase_cannot_do_are_refused_by_name(tmp_path: Path) -> None:
    run = start(tmp_path / "run", "run", recordcount=10, operationcount=10, traversalproportion=1).ends(2)
    assert "binding hbase2 cannot do TRAVERSAL; remove traversalproportion" in run.errors()


def test_an_unreachable_quorum(tmp_path: Path) -> None:
    run = start(
        tmp_path / "run", "run", recordcount=10, operationcount=10, hbase_zookeeper_quorum=f"{NETWORK}99",
        hbase_connect_timeout_ms=3000,
    ).ends(3)  # fmt: skip
    assert f"cannot reach HBase through ZooKeeper {NETWORK}99 port 2181 within 3000 ms" in run.errors()
    assert run.summary()["status"] == "failed"


@pytest.mark.parametrize("phase", ["load", "run"])
def test_a_missing_table(cluster: Strata, tmp_path: Path, phase: str) -> None:
    properties: dict[str, object] = {"hbase_table_create": "false"} if phase == "load" else {"operationcount": 10}
    run = start(tmp_path / phase, phase, table="nowhere", recordcount=10, **properties).ends(3)
    assert "table nowhere does not exist; run the load phase first, with hbase.table.create=true" in run.errors()
    assert not admin("status", "nowhere")["table_regions"]


def one_region(verb: str, table: str) -> None:
    jars = ROOT / "ycsb-fork/hbase2/target/dependency/*"
    program = Path(__file__).with_name("OneRegion.java")
    command = ["java", "-cp", str(jars), str(program), verb, f"{NETWORK}10", table]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)


def test_the_first_operation_waits_until_every_region_is_served(cluster: Strata, tmp_path: Path) -> None:
    common: dict[str, object] = {"table": "opens", "recordcount": 100}
    start(tmp_path / "load", "load", hbase_table_splits="2-per-server", **common).ends()
    one_region("unassign", "opens")  # HBase's record of where regions are keeps its server
    assert admin("status", "opens")["table_regions"] == dict.fromkeys(admin("status", "opens")["table_regions"], 2)
    patient = start(tmp_path / "patient", "run", operationcount=100, **common)
    hasty = start(tmp_path / "hasty", "run", operationcount=100, hbase_table_wait_ms=2000, **common).ends(3)
    refusal = r"table opens is not served within hbase\.table\.wait\.ms=2000: [\d.]+:16020 does not serve opens,"
    assert re.search(refusal, hasty.errors())
    assert not patient.measures()
    one_region("assign", "opens")
    assert sum(operation["ok"] for operation in patient.ends().operations().values()) == 100


# The last test: it leaves no region server.
def test_region_servers_that_die_in_mid_run(cluster: Strata, tmp_path: Path) -> None:
    common: dict[str, object] = {
        "recordcount": LOADED,
        "operationcount": 0,
        "maxexecutiontime": 90,
        "operation_mix": "random",
    }
    common |= {"hbase_client_operation_timeout": 3000, "hbase_rpc_timeout": 2000}
    start(tmp_path / "load", "load", "-threads", "2", table="dies", recordcount=LOADED, clientbuffering="true").ends()
    runs = {
        name: start(tmp_path / name, "run", *options, table="dies", **common)
        for name, options in {
            "threads": ["-threads", "4"],
            "clients": ["-threads", "2", "-p", "clients=32"],
            "buffered": ["-threads", "4", "-p", "clientbuffering=true", "-p", "writebuffersize=30000"],
        }.items()
    }
    for run in runs.values():
        wait_for(run.measures, 180, "operations")
    for node in SERVERS:
        os.kill(int((cluster.nodes / node / "run/regionserver.pid").read_text().split()[0]), signal.SIGKILL)
    for name, run in runs.items():
        run.ends(4)
        summary, last = run.summary(), json.loads(run.errors().splitlines()[-1])
        assert last["state"] == "failed" and last["message"] == summary["reason"]
        assert re.search(r"\d+ of \d+ operations failed, more than error.bound=0.0 allows", last["message"])
        assert summary["status"] == "failed"
        causes = Counter[str]()
        for operation in summary["operations"].values():
            causes.update(operation["errors"])
        assert causes and all(re.fullmatch(r"\w+(/\w+)?", cause) for cause in causes), causes
        assert causes.total() == sum(operation["failed"] for operation in summary["operations"].values())
        kept = sum(len(records) for records in run.log().values())
        assert kept == sum(operation["count"] for operation in summary["operations"].values()) > causes.total()
        if name == "buffered":
            counted = summary["database"]
            assert counted["lost_writes"] + counted["unconfirmed_writes"] > 0, "answered, then lost"
