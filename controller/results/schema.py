"""The single truth of what stands in a run folder: tables, columns, types, units and meanings.

The documentation (docs/results-format.md) is tested against :func:`markdown`, the join and the readers take
their column lists from here. A change of a name, a type or a meaning raises :data:`SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SCHEMA_VERSION = 1

#: `phase` of an I/O that happened while no phase was running (between two phases, before or after them).
BETWEEN_PHASES = "between"
#: `op` of a summary row that covers all operations of a phase.
ALL_OPERATIONS = "all"
#: The last file of a run: one without it has not come to its end.
REPORT = "report.html"
#: The layers of one I/O, outermost first; those that are there add up to `total_ns`.
LAYERS = ("vfs", "block", "driver", "device")
TIMED = ("total", *LAYERS)
#: Quantiles in permille and their column names.
QUANTILES = {"p50": 500, "p95": 950, "p99": 990, "p999": 999}


@dataclass(frozen=True)
class Column:
    """`kind` is the Arrow type's name; `empty` says when a cell has no value ("" = it always has one)."""

    name: str
    kind: str
    unit: str
    meaning: str
    empty: str = ""


@dataclass(frozen=True)
class Table:
    """One kind of file in the run folder; `row` says what one row is."""

    path: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


_NO_LATENCY = "no successful operation in this bucket"
_CLOSED_LOOP = "closed loop: there is no schedule"

_OPS_VALUES = (
    Column("count", "int64", "operations", "finished operations, failed ones included"),
    Column("errors", "int64", "operations", "those of them that failed"),
    Column(
        "throughput_ops_per_s",
        "double",
        "operations/s",
        "count divided by the part of the bucket in which the phase was measured",
        "less than a tenth of the bucket was measured",
    ),
    Column("latency_mean_us", "double", "us", "mean latency of the successful operations", _NO_LATENCY),
    *(
        Column(f"latency_{name}_us", "double", "us", f"{permille / 10:g}th percentile of it", _NO_LATENCY)
        for name, permille in QUANTILES.items()
    ),
    Column("latency_max_us", "double", "us", "largest of them", _NO_LATENCY),
    *(
        Column(
            f"intended_{name}_us",
            "double",
            "us",
            f"{QUANTILES[name] / 10:g}th percentile from the scheduled start",
            _CLOSED_LOOP,
        )
        for name in ("p50", "p99")
    ),
)


def _layer_columns(prefix: str = "") -> tuple[Column, ...]:
    return tuple(
        Column(
            f"{prefix}{layer}_{statistic}_ns",
            "double",
            "ns",
            f"{'mean' if statistic == 'mean' else '99th percentile'} of `{layer}_ns`",
            "no I/O here, or the layer is not visible on this kernel",
        )
        for layer in TIMED
        for statistic in ("mean", "p99")
    )


_BUCKET = Column("bucket_start_us", "int64", "us", "start of the bucket, since the run's start")

OPS = Table(
    "joined/ops.csv",
    "bucket x phase x operation",
    (
        _BUCKET,
        Column("phase", "string", "", "name of the phase"),
        Column("op", "string", "", "YCSB's name of the operation"),
        *_OPS_VALUES,
    ),
)

IO = Table(
    "joined/io.csv",
    "bucket x phase x node x device x mode, where there was I/O",
    (
        _BUCKET,
        Column("phase", "string", "", f"phase that holds the I/O's start, else `{BETWEEN_PHASES}`"),
        Column("node", "string", "", "name of the node"),
        Column("device", "string", "", "block device"),
        Column("mode", "string", "", "R read, W write, D discard, F flush"),
        Column("ios", "int64", "requests", "completed requests"),
        Column("bytes", "int64", "bytes", "their size"),
        *_layer_columns(),
    ),
)

#: The fixed columns; `{op}_...` columns of each operation of the run stand between `node` and `io_reads`.
_NOT_TRACED = "the node was not traced in this part of the bucket"
JOINED_HEAD = (
    _BUCKET,
    Column("phase", "string", "", f"name of the phase, else `{BETWEEN_PHASES}`"),
    Column("node", "string", "", "name of the database node"),
)
JOINED_PER_OP = tuple(
    Column(f"{{op}}_{name.removeprefix('latency_')}", kind, unit, f"`{name}` of ops.csv, whole cluster", empty)
    for name, kind, unit, empty in (
        ("count", "int64", "operations", "outside the measured window of a phase, or not an operation of it"),
        ("errors", "int64", "operations", "as above"),
        ("throughput_ops_per_s", "double", "operations/s", "as above"),
        ("latency_mean_us", "double", "us", _NO_LATENCY),
        ("latency_p99_us", "double", "us", _NO_LATENCY),
    )
)
JOINED_IO = (
    Column("io_reads", "int64", "requests", "read requests of this node", _NOT_TRACED),
    Column("io_writes", "int64", "requests", "write requests of this node", _NOT_TRACED),
    Column("io_discards", "int64", "requests", "discard requests of this node", _NOT_TRACED),
    Column("io_flushes", "int64", "requests", "flush requests of this node", _NOT_TRACED),
    Column("read_bytes", "int64", "bytes", "bytes read by this node", _NOT_TRACED),
    Column("write_bytes", "int64", "bytes", "bytes written by this node", _NOT_TRACED),
    *_layer_columns("io_"),
)
JOINED = Table("joined/joined.csv", "bucket x phase x node", JOINED_HEAD + JOINED_PER_OP + JOINED_IO)

SUMMARY = Table(
    "joined/summary.csv",
    "run x phase x operation x metric",
    (
        Column("run", "string", "", "run id"),
        Column("phase", "string", "", "name of the phase"),
        Column(
            "op",
            "string",
            "",
            f"operation, `{ALL_OPERATIONS}`, or `io:<node>:<mode>` for a node's I/O in this phase",
        ),
        Column("metric", "string", "", "name of the metric (docs/metrics.md)"),
        Column("unit", "string", "", "unit of the value"),
        Column("value", "double", "see unit", "the value"),
        Column("ci_low", "double", "see unit", "lower end of the 95 % interval over the runs", "n is 1"),
        Column("ci_high", "double", "see unit", "upper end of it", "n is 1"),
        Column("n", "int64", "runs", "runs that the value stands for"),
    ),
)

OPERATION_LOG = Table(
    "clients/<client>/<phase>/ops.parquet",
    "one operation",
    (
        Column("t_us", "double", "us", "start of the operation, since the run's start"),
        Column("t_unix_ns", "int64", "ns", "the same in unix time, on the controller's clock"),
        Column("client", "string", "", "client node"),
        Column("phase", "string", "", "name of the phase"),
        Column("op", "string", "", "YCSB's name of the operation"),
        Column("latency_ns", "int64", "ns", "from the real start to the answer"),
        Column("intended_latency_ns", "int64", "ns", "from the scheduled start to the answer", _CLOSED_LOOP),
        Column("status", "string", "", "status that the database binding returned"),
        Column("key_hash", "int64", "", "SplitMix64 of the number in the key, folded", "the operation has no key"),
        Column("thread", "int64", "", "client thread"),
    ),
)

_ONE_RUN = "fewer than two runs"
_REFERENCE = "the smallest number of servers, or fewer than two runs"


def _with_interval(name: str, unit: str, meaning: str, empty: str, no_interval: str) -> tuple[Column, ...]:
    return (
        Column(name, "double", unit, meaning, empty),
        Column(f"{name}_ci_low", "double", unit, "lower end of its 95 % interval over the runs", no_interval),
        Column(f"{name}_ci_high", "double", unit, "upper end of it", no_interval),
    )


_NO_LOCALITY = "nothing is on disk yet, or all servers share one folder"
SCALING = Table(
    "scaling.csv",
    "phase x number of servers, over all complete runs",
    (
        Column("phase", "string", "", "name of the phase"),
        Column("kind", "string", "", "`load` or `run`"),
        Column("workload", "string", "", "the workload's property file, as the experiment names it"),
        Column("records", "int64", "records", "records of the table"),
        Column("threads", "int64", "threads", "threads of all clients together"),
        Column("servers", "int64", "servers", "data servers of the cluster"),
        Column("runs", "int64", "runs", "complete runs"),
        *_with_interval("throughput_ops_per_s", "operations/s", "mean over the runs", "not measured", _ONE_RUN),
        *_with_interval("runtime_s", "s", "mean over the runs", "not measured", _ONE_RUN),
        *_with_interval(
            "speedup", "", "throughput by that of the smallest number of servers", "either is unknown", _REFERENCE
        ),
        *_with_interval(
            "efficiency", "", "speed-up by the growth in servers: 1 is linear", "either is unknown", _REFERENCE
        ),
        Column("io_node", "string", "", "node of the largest part of the I/O time, see below", "no I/O was traced"),
        Column("io_layer", "string", "", "its layer", "no I/O was traced"),
        Column("io_share", "double", "", "that part by the I/O time of all nodes and layers", "no I/O was traced"),
        Column("regions", "string", "", "regions of the table by server (`node1=4 node2=4`), worst run", "no regions"),
        Column("uneven_regions", "int64", "regions", "most regions of a server minus fewest, worst run", "no regions"),
        Column("locality", "double", "", "mean over servers and runs, see below", _NO_LOCALITY),
        Column("lowest_locality", "double", "", "lowest of a server in a run", _NO_LOCALITY),
    ),
)

LAW_PARAMETERS = ("lambda_ops_per_s", "sigma", "kappa", "peak_servers")
LAW = Table(
    "law.csv",
    "phase x parameter of the Universal Scalability Law",
    (
        Column("phase", "string", "", "name of the phase"),
        Column("parameter", "string", "", ", ".join(f"`{name}`" for name in LAW_PARAMETERS)),
        Column("value", "double", "see name", "the fitted value", "see `note`; `peak_servers`: throughput has no peak"),
        Column("ci_low", "double", "see name", "lower end of its 95 % interval", "see `note`; `peak_servers`: always"),
        Column("ci_high", "double", "see name", "upper end of it", "as above"),
        Column("runs", "int64", "runs", "runs that were fitted", "there is no fit"),
        Column("note", "string", "", "what is missing, and why", "nothing is missing"),
    ),
)

#: One row per I/O. Types and order are the decoder's (`tracer.decode.IO_COLUMNS`); here: unit, meaning.
IO_ROW_MEANINGS: dict[str, tuple[str, str]] = {
    "t_us": ("us", "start of the I/O, since the run's start"),
    "t_unix_ns": ("ns", "the same in unix time, on the controller's clock"),
    "node": ("", "name of the node"),
    "device": ("", "block device"),
    "sector": ("512 bytes", "first sector; empty for a flush, which has none"),
    "mode": ("", "R read, W write, D discard, F flush"),
    "sync": ("", "the submitter waits for it"),
    "size_bytes": ("bytes", "size of the request"),
    "total_ns": ("ns", "sum of the layers that are there, exactly"),
    "vfs_ns": ("ns", "from the start of the call (io_uring: the request) to the block layer; empty without one"),
    "block_ns": ("ns", "in the block layer"),
    "driver_ns": ("ns", "in the device driver"),
    "device_ns": ("ns", "in the device"),
    "return_ns": (
        "ns",
        "from the completion of a system call's last request to its return; only on that request, see tracer.md",
    ),
    "origin": ("", "syscall, writeback, journal, io_uring or other"),
    "pid": ("", "process that caused the I/O"),
    "comm": ("", "name of its thread that did"),
    "cgroup_id": ("", "its control group"),
    "inode": ("", "inode of the file"),
    "path": ("", "path of the file"),
    "component": ("", "part of the database that the file belongs to"),
    "tracing_mode": ("", "how the driver was timed for this request, see tracer.md"),
    "error": ("", "why the request failed, the kernel's name (`medium`, `nospc`, `ioerr`); empty: it has not failed"),
}

TABLES = (OPS, IO, JOINED, SUMMARY, OPERATION_LOG, SCALING, LAW)


def markdown(table: Table) -> str:
    """The table's columns as a Markdown table, as docs/results-format.md shows them."""
    lines = ["| column | type | unit | meaning | empty when |", "|---|---|---|---|---|"]
    for column in table.columns:
        lines.append(f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning} | {column.empty} |")
    return "\n".join(lines)


def op_prefix(op: str) -> str:
    """`READ-MODIFY-WRITE` -> `read_modify_write`: how an operation's columns start in joined.csv."""
    return op.lower().replace("-", "_")


def joined_columns(operations: Iterable[str]) -> list[str]:
    """Column names of joined.csv for a run that has these operations, in file order."""
    per_op = [column.name.replace("{op}", op_prefix(op)) for op in sorted(operations) for column in JOINED_PER_OP]
    return [column.name for column in JOINED_HEAD] + per_op + [column.name for column in JOINED_IO]
