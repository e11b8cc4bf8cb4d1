# SPDX-License-Identifier: Apache-2.0
"""Measures what the load client costs, paired with the original YCSB 0.17.0 on the same JDK. See README.md."""

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from figures import Result, allocated_bytes, as_json, intended_p50_us, markdown, slope, successes

BENCH = Path(__file__).resolve().parent
FORK = BENCH.parent
ROWS = ("noop", "oplog", "values", "alloc", "intended", "redis")
YCSB = "YCSB 0.17.0"
OURS = "stratabench"
WITHOUT_LOG, WITH_LOG = "oplog=false", "oplog=true"
# For both sides: what bin/launch.sh gives the JVM, and compilation that is waited for. Otherwise 64 busy threads
# starve the compiler of CPU, and the short run still interprets at its end.
JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xbatch")
RECORDS = 1_000_000
REDIS_RECORDS = 10_000
REDIS_CLIENTS = 16
TARGET_PER_SECOND = 10_000
LONGEST_RUN_S = 1_200
OK, PREFLIGHT_FAILED, RUN_FAILED, INCOMPLETE, INTERRUPTED = 0, 3, 4, 5, 130


class BenchError(Exception):
    """Something failed; ``code`` is the process's exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


# operations and further options of the JVM -> command line
Command = Callable[[int, Sequence[str]], list[str]]


@dataclass(frozen=True)
class Experiment:
    """One measure of several variants: YCSB and the load client, or the load client without and with something."""

    title: str
    unit: str
    commands: dict[str, Command]
    value: Callable[[Command], float]
    # how many times as often as the others: a small difference of two large values needs many short pairs
    times: int = 1


def java() -> str:
    """The JVM that bin/ycsb takes."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin/java")) if home and Path(home, "bin/java").exists() else shutil.which("java")
    if found is None:
        raise BenchError(PREFLIGHT_FAILED, "java not found; install a JDK 17 or set JAVA_HOME")
    return found


def ycsb(database: str, threads: int, *options: str, phase: str = "-t") -> Command:
    """YCSB's client with a database class."""
    class_path = f"{jar('original')}:{BENCH}/original/target/dependency/*"

    def command(operations: int, jvm: Sequence[str]) -> list[str]:
        start = [java(), *JVM, *jvm, "-cp", class_path, "site.ycsb.Client", phase, "-db", database]
        return [*start, *workload(operations, threads), *options]

    return command


def ours(binding: str, threads: int, *options: str) -> Command:
    """The load client with a binding; it writes no files unless there is an ``-output``."""

    def command(operations: int, jvm: Sequence[str]) -> list[str]:
        start = [str(FORK / "bin/ycsb"), "run", binding, *workload(operations, threads), *options]
        return [*start, "-jvm-args", " ".join([*JVM, *jvm])]

    return command


def workload(operations: int, threads: int) -> list[str]:
    """Workload A, as both sides take it."""
    sizes = ["-p", f"recordcount={RECORDS}", "-p", f"operationcount={operations}"]
    return ["-P", str(FORK / "workloads/workloada"), *sizes, "-threads", str(threads)]


def jar(module: str) -> Path:
    """Where a module of the benchmark is built."""
    return BENCH / module / "target" / f"ycsb-bench-{module}-0.1.0.jar"


def build() -> None:
    """Builds the core and the benchmark unless the jars are newer than their sources."""
    jars = [FORK / "core/target/ycsb-core-0.1.0.jar", jar("original"), jar("redis")]
    trees = [FORK / "core/src/main", BENCH / "original/src", BENCH / "redis/src"]
    sources = [p for tree in trees for p in tree.rglob("*") if p.is_file()] + list(BENCH.rglob("pom.xml"))
    if all(p.exists() for p in jars) and max(map(mtime, sources)) <= min(map(mtime, jars)):
        return
    say("building")
    maven = ["mvn", "-q", "-f", str(BENCH / "pom.xml"), "package", "-Dmaven.test.skip=true"]
    offline = subprocess.run([*maven, "-o"], check=False, capture_output=True)
    if offline.returncode != 0 and subprocess.run(maven, check=False, stdout=sys.stderr).returncode != 0:
        raise BenchError(PREFLIGHT_FAILED, f"the build failed: {' '.join(maven)}")
    for built in jars:
        # Maven leaves a jar alone whose classes have not changed
        built.touch()


def mtime(path: Path) -> float:
    """When a file was changed."""
    return path.stat().st_mtime


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def run(command: list[str], operations: int) -> tuple[float, str]:
    """CPU seconds (user and system, whole process) and standard output of a client that must do all its operations."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LONGEST_RUN_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # YCSB exits 0 whatever happens, so its own counts decide
    if done.returncode != 0 or successes(done.stdout) != operations:
        says = f"exit {done.returncode}, {successes(done.stdout)} of {operations} operations\n{done.stderr[-2000:]}"
        raise BenchError(RUN_FAILED, f"{' '.join(command)}\n{says}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def cpu_per_operation(lengths: tuple[int, int], unit_s: float) -> Callable[[Command], float]:
    """Process CPU time for each further operation, in units of ``unit_s`` seconds."""

    def value(command: Command) -> float:
        return slope([(length, run(command(length, ()), length)[0]) for length in lengths]) / unit_s

    return value


def cpu_of_whole(length: int, unit_s: float) -> Callable[[Command], float]:
    """Process CPU time divided by the operations, start-up included: it cancels in the difference of two variants."""
    return lambda command: run(command(length, ()), length)[0] / length / unit_s


def allocation_per_operation(lengths: tuple[int, int], scratch: Path) -> Callable[[Command], float]:
    """Bytes of heap for each further operation, from the collector's log."""
    log = scratch / "heap.log"

    def value(command: Command) -> float:
        points = []
        for length in lengths:
            run(command(length, [f"-Xlog:gc+heap=info,gc+heap+exit=info:file={log}:tags"]), length)
            points.append((length, allocated_bytes(log.read_text())))
        return slope(points)

    return value


def intended_p50(operations: int) -> Callable[[Command], float]:
    """Median time from the scheduled start to the answer, in microseconds."""
    return lambda command: intended_p50_us(run(command(operations, ()), operations)[1])


def noop(quick: bool, _: Path) -> Iterator[Experiment]:
    """A database that does nothing."""
    lengths = (6_400_000, 16_000_000) if quick else (9_600_000, 32_000_000)
    for threads in (1, 8, 64):
        commands = {
            YCSB: ycsb("site.ycsb.BasicDB", threads, "-p", "basicdb.verbose=false"),
            OURS: ours("noop", threads),
        }
        title = f"no-op, A, {count(threads, 'thread')}"
        yield Experiment(title, "CPU ns/op", commands, cpu_per_operation(lengths, 1e-9))


def oplog(quick: bool, scratch: Path) -> Iterator[Experiment]:
    """The load client with and without its operation log; histogram logs and summary are written in both."""
    length = 8_000_000 if quick else 16_000_000
    output = str(scratch / "out")
    for threads in (1, 8):
        commands = {log: ours("noop", threads, "-output", output, "-p", log) for log in (WITHOUT_LOG, WITH_LOG)}
        title = f"no-op, A, {count(threads, 'thread')}, what the operation log adds"
        yield Experiment(title, "CPU ns/op", commands, cpu_of_whole(length, 1e-9), times=8)


def consuming(threads: int, *options: str) -> dict[str, Command]:
    """Both sides with a database that reads the values."""
    return {
        YCSB: ycsb("org.stratabench.ycsb.bench.original.ConsumingDb", threads, *options),
        OURS: ours("noop", threads, "-p", "noop.consume=true", *options),
    }


def values(quick: bool, _: Path) -> Iterator[Experiment]:
    """1 KB for each update, produced and read."""
    lengths = (1_600_000, 4_800_000) if quick else (4_800_000, 16_000_000)
    for threads in (1, 8):
        commands = consuming(threads, "-p", "writeallfields=true")
        title = f"no-op, A, 1 KB values produced and read, {count(threads, 'thread')}"
        yield Experiment(title, "CPU ns/op", commands, cpu_per_operation(lengths, 1e-9))


def alloc(quick: bool, scratch: Path) -> Iterator[Experiment]:
    """What the collector has to clean up."""
    lengths = (1_600_000, 4_800_000) if quick else (3_200_000, 9_600_000)
    value = allocation_per_operation(lengths, scratch)
    yield Experiment("no-op, A", "allocated bytes/op", consuming(1), value)
    yield Experiment("no-op, A, 1 KB values", "allocated bytes/op", consuming(1, "-p", "writeallfields=true"), value)


def intended(quick: bool, _: Path) -> Iterator[Experiment]:
    """What an open loop charges to a database that takes no time."""
    target = ("-target", str(TARGET_PER_SECOND))
    both = ("-p", "measurement.interval=both", "-p", "hdrhistogram.percentiles=50,99")
    for threads in (1, 4):
        commands = {
            YCSB: ycsb("site.ycsb.BasicDB", threads, "-p", "basicdb.verbose=false", *target, *both),
            OURS: ours("noop", threads, *target),
        }
        title = f"no-op, A, {TARGET_PER_SECOND} ops/s, {count(threads, 'thread')}"
        yield Experiment(title, "intended p50 us", commands, intended_p50(50_000 if quick else 150_000))


def redis(quick: bool, scratch: Path) -> Iterator[Experiment]:
    """A real server over loopback: driver and system calls included."""
    lengths = (160_000, 480_000) if quick else (320_000, 1_280_000)
    with redis_server(scratch) as port:
        there = ["redis.host=127.0.0.1", f"redis.port={port}", f"recordcount={REDIS_RECORDS}"]
        options = [word for given in there for word in ("-p", given)]
        database = "org.stratabench.ycsb.bench.original.RedisDb"
        run(ycsb(database, REDIS_CLIENTS, *options, phase="-load")(1, ()), REDIS_RECORDS)
        binding = ("org.stratabench.ycsb.bench.redis.RedisDatabase", "-cp", str(jar("redis")))
        commands = {
            YCSB: ycsb(database, REDIS_CLIENTS, *options),
            "one thread": ours(binding[0], 1, *binding[1:], *options, "-p", f"clients={REDIS_CLIENTS}"),
            f"{REDIS_CLIENTS} blocking threads": ours(binding[0], REDIS_CLIENTS, *binding[1:], *options),
        }
        title = f"Redis on loopback, A, {REDIS_CLIENTS} clients"
        yield Experiment(title, "client CPU us/op", commands, cpu_per_operation(lengths, 1e-6))


@contextlib.contextmanager
def redis_server(scratch: Path) -> Iterator[int]:
    """A Redis server on a free loopback port that keeps nothing; its port."""
    program = shutil.which("redis-server")
    if program is None:
        raise BenchError(INCOMPLETE, "redis-server is not installed (Debian: apt-get install redis-server)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(scratch)]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_pong(server, port)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def await_pong(server: "subprocess.Popen[bytes]", port: int) -> None:
    """Waits until the server answers."""
    until = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"PING\r\n")
            if connection.recv(16).startswith(b"+PONG"):
                return
        time.sleep(0.05)
    raise BenchError(INCOMPLETE, f"redis-server on port {port} does not answer")


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def measure(experiment: Experiment, repetitions: int) -> Result:
    """Runs all variants in turn, every other time in reverse order."""
    samples: dict[str, list[float]] = {variant: [] for variant in experiment.commands}
    for repetition in range(repetitions * experiment.times):
        order = list(experiment.commands)
        for variant in order if repetition % 2 == 0 else reversed(order):
            value = experiment.value(experiment.commands[variant])
            samples[variant].append(value)
            say(f"{experiment.title}, {variant}: {value:.1f} {experiment.unit}")
    return Result(experiment.title, experiment.unit, samples)


def environment() -> dict[str, object]:
    """Where this was measured."""
    version = subprocess.run([java(), "-version"], check=False, capture_output=True, text=True).stderr.splitlines()
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "jdk": version[1] if len(version) > 1 else "".join(version),
        "kernel": platform.release(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else "",
        "cpus": os.cpu_count(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average_at_start": os.getloadavg()[0],
    }


def main(arguments: list[str]) -> int:
    """Measures the rows asked for; table on standard output, everything in a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="which of %(default)s")
    parser.add_argument("--quick", action="store_true", help="shorter runs, less exact")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("bench.json"), help="the JSON file (%(default)s)")
    parser.add_argument("--scratch", type=Path, help="folder for operation logs of up to 1 GB (the system's)")
    asked = parser.parse_args(arguments)
    rows = asked.rows.split(",")
    if unknown := set(rows) - set(ROWS):
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}; known: {', '.join(ROWS)}")
    if asked.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    kinds = {"noop": noop, "oplog": oplog, "values": values, "alloc": alloc, "intended": intended, "redis": redis}
    missing: dict[str, str] = {}
    results: list[Result] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
    try:
        build()
        about = environment()
        with tempfile.TemporaryDirectory(dir=asked.scratch, prefix="bench-") as scratch:
            for row in rows:
                try:
                    for experiment in kinds[row](asked.quick, Path(scratch)):
                        results.append(measure(experiment, asked.repetitions))
                except BenchError as error:
                    if error.code != INCOMPLETE:
                        raise
                    missing[row] = str(error)
    except BenchError as error:
        say(f"error: {error}")
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
    about |= {"ended": datetime.now(UTC).isoformat(timespec="seconds"), "load_average_at_end": os.getloadavg()[0]}
    about |= {"arguments": arguments, "not_measured": missing}
    asked.output.write_text(json.dumps(about | {"measures": as_json(results)}, indent=2) + "\n")
    print(markdown(results, YCSB, OURS))
    for row, why in missing.items():
        say(f"not measured: {row}: {why}")
    return INCOMPLETE if missing else OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
