"""The measurement itself, in small: its counts, its statistics, what it says of tools that fail, what it leaves."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from tracer.bench import alternating, cycles, memory, ratio, report
from tracer.bench.alternating import Result
from tracer.bench.block_trace import end_block_trace, traced_disks
from tracer.bench.counters import BPF_STATS, BpfObjects, bpf_statistics
from tracer.bench.load import BLOCK_BYTES, WORKLOADS, Load, LoadError, running
from tracer.bench.tools import (
    RECORD_BYTES_OF_A_FLOOR,
    REQUEST_TRACEPOINTS,
    Attached,
    Tool,
    ToolError,
    control,
    floors,
    strata,
    variant,
)
from tracer.bench.windows import OUTPUT_ROOT, Plan, Window, measure, tool_attached
from tracer.tests.tracing import diskstats

TINY = Plan(blocks=2, window_s=0.3, settle_s=0.05)


def test_an_interval_holds_the_true_ratio_in_95_of_100_measurements() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(4000):
        drift = generator.normal(1000, 200, 6).clip(200)
        blocks = [(d * math.exp(generator.normal(math.log(0.9), 0.05)), d) for d in drift]
        found = ratio.of_blocks(blocks)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.9 <= found.high
    assert 0.94 < held / 4000 < 0.96


def test_the_medians_interval_holds_it_whatever_the_noise() -> None:
    """Cauchy's, which has no mean."""
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(2000):
        found = ratio.median_of_blocks([(left, 1.0) for left in 0.97 + 0.03 * generator.standard_t(1, 100)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.97 <= found.high
    assert 0.95 < held / 2000 < 0.98  # it is 0.965: an interval of order statistics cannot be more exact


def test_five_blocks_are_too_few_for_the_medians_interval() -> None:
    """Six blocks lie all on one side of it in one of 32 cases."""
    assert ratio.median_of_blocks([(float(i), 4.0) for i in range(1, 6)]) == ratio.Ratio(0.75, None, None, 5)
    assert ratio.median_of_blocks([(float(i), 4.0) for i in range(1, 7)]) == ratio.Ratio(0.875, 0.25, 1.5, 6)


@pytest.mark.parametrize("found_by", [ratio.of_blocks, ratio.median_of_blocks])
def test_runs_that_differ_are_one_measurement_each(
    found_by: Callable[[list[tuple[float, float]], int], ratio.Ratio],
) -> None:
    """A program is up to some per cent cheaper all through a run, by where it lies."""
    generator = np.random.default_rng(13)
    held, held_by_blocks = 0, 0
    for _ in range(1000):
        runs = generator.normal(math.log(0.9), 0.05, 6)
        blocks = [(math.exp(generator.normal(run, 0.02)), 1.0) for run in runs for _ in range(20)]
        for starts in (1, 6):
            found = found_by(blocks, starts)
            assert found.low is not None
            assert found.high is not None
            if starts == 1:
                held_by_blocks += found.low <= 0.9 <= found.high
            else:
                held += found.low <= 0.9 <= found.high
    assert 0.93 < held / 1000 < 0.97
    assert held_by_blocks / 1000 < 0.5


def test_one_block_has_no_interval() -> None:
    assert ratio.of_blocks([(90.0, 100.0)]) == ratio.Ratio(math.exp(math.log(0.9)), None, None, 1)


def result(tool: str, iops: npt.ArrayLike, cpu_ns_per_io: npt.ArrayLike = 1000.0, lost: int | None = None) -> Result:
    """Of rounds of three windows each: before, with and after."""
    windows = [Window(float(rate), float(cpu)) for rate, cpu in np.broadcast(iops, cpu_ns_per_io)]
    return Result(tool, list(zip(windows[0::3], windows[1::3], windows[2::3], strict=True)), lost=lost)


def test_what_costs_nothing_costs_nothing_between_windows_that_differ() -> None:
    """By the arithmetic mean of the windows beside it it is 0.990 here, eight standard errors less than 1."""
    windows = np.random.default_rng(3).lognormal(math.log(1000), 0.2, 120_000)
    found = result("nothing", windows).rates()
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high
    assert found.high - found.low < 0.006


def test_windows_in_which_the_load_is_slow_do_not_move_the_median() -> None:
    """One in six. By the mean of both windows beside it the median is 1.01."""
    generator = np.random.default_rng(5)
    windows = generator.lognormal(math.log(1000), 0.05, 60_000) * np.where(generator.random(60_000) < 1 / 6, 0.6, 1)
    found = result("nothing", windows).median_rates()
    by_both = ratio.median_of_blocks([ratio.between(*each) for each in windows.reshape(-1, 3)])
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high
    assert found.high - found.low < 0.006
    assert by_both.low is not None
    assert by_both.low > 1


def test_tools_are_compared_round_by_round() -> None:
    """The load gets slower and slower; beside the windows next to it, each tool takes the same all the time."""
    pace = np.array([[1000.0], [500.0], [100.0]])
    first = result("first", (pace * [1, 0.8, 1]).ravel(), [1000, 1250, 1000] * 3)
    second = result("second", (pace * [1, 0.4, 1]).ravel(), [3000, 4000, 2000] * 3, lost=7)
    assert alternating.rate_table([first, second]).splitlines()[2:] == [
        "| first | 0.800 (0.800 to 0.800) | 0.800 |  | 1.00, 1.25 |  |  |",
        "| second | 0.400 (0.400 to 0.400) | 0.400 | 0.500 (0.500 to 0.500) | 2.50, 4.00 |  | 7 |",
    ]


def test_programs_are_compared_run_by_run() -> None:
    first = Result("first", run_ns={"a": [100.0, 120.0, 60.0], "only_first": [7.0, 7.0, 7.0]})
    second = Result("second", run_ns={"a": [50.0, 60.0, 30.0], "only_second": [8.0, 8.0, 9.0]})
    assert alternating.program_table([first, second]).splitlines()[2:] == [
        "| a | 100 | 50; 0.500 (0.500 to 0.500) |",
        "| only_first | 7 |  |",
        "| only_second |  | 8 |",
    ]


def test_few_pages_are_held_of_much_memory() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    before = resident_pages()
    with memory.held(256 << 20) as pages:
        assert 0 < pages <= 256  # fewer where little is free
        assert pages - 32 <= resident_pages() - before <= pages + 512  # of 65,536; the interpreter's own come and go
    assert resident_pages() - before <= 512


def _evict_fio() -> None:
    """Drops fio and its libraries from the page cache: reading them again must not count as load."""
    fio = shutil.which("fio") or pytest.skip("fio is not installed")
    linked = subprocess.run(["ldd", fio], check=True, capture_output=True, text=True).stdout
    for path in [fio, *re.findall(r"=> (/\S+)", linked)]:
        with Path(path).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def load(tracer: Path, tmp_path: Path) -> Iterator[Load]:  # noqa: ARG001  (skips where nothing can be traced)
    _evict_fio()
    try:
        with running(WORKLOADS["loop32"], tmp_path) as under_way:
            yield under_way
    except LoadError as reason:
        pytest.skip(str(reason))


def counts_at_rest(load: Load) -> tuple[int, int]:
    """Blocks moved by the load's own count and by the disk's, while the load is stopped and nothing is under way."""
    os.kill(load.pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 30
        while not _at_rest(load):
            assert time.monotonic() < deadline, "the load does not stop"
        return load.ios(), diskstats(load.device).read_sectors * 512 // BLOCK_BYTES
    finally:
        os.kill(load.pid, signal.SIGCONT)


def _at_rest(load: Load) -> bool:
    states = {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{load.pid}/task").glob("*/stat")}
    # Not the file `inflight`, which leaves out requests that wait to be handed to the driver.
    under_way = Path(f"/sys/block/{load.device}/stat").read_text().split()[8]
    return states == {"T"} and under_way == "0"


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_the_loads_own_count_is_the_disks(load: Load) -> None:
    ios, blocks = counts_at_rest(load)
    while load.ios() < ios + 20_000:
        pass
    ios_after, blocks_after = counts_at_rest(load)
    assert ios_after - ios == blocks_after - blocks


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_our_tracer_is_measured_in_every_respect(load: Load) -> None:
    statistics_before = BPF_STATS.read_text()
    result = measure(strata(), load, TINY)
    assert result.error == ""
    assert result.ratio is not None
    assert result.ratio.blocks == 2
    assert len(result.without) == len(result.with_it) == 4
    assert result.lost is not None
    # The load does more while a tool is attached than in the windows, which are a part of that time.
    assert (result.records or 0) + result.lost >= sum(window.iops * TINY.window_s for window in result.with_it)
    assert 0 < (result.bpf_ns_per_request or 0) < 100_000
    assert (result.resident_bytes or 0) > 1 << 20
    assert (result.kernel_bytes or 0) > 1 << 20
    assert BPF_STATS.read_text() == statistics_before
    table = report.markdown(TINY, [load.workload], {load.workload.name: [result]})
    assert f"| strata-iotrace | **{result.ratio.value:.3f}** |" in table


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_a_tool_that_fails_says_why_and_leaves_nothing(load: Load) -> None:
    files = set(OUTPUT_ROOT.iterdir())
    broken = Tool("broken", lambda _device, _folder: ["sh", "-c", "echo starting; echo 'no such luck' >&2; exit 1"])
    result = measure(broken, load, TINY)
    assert result.error == "no such luck"
    assert result.ratio is None
    assert set(OUTPUT_ROOT.iterdir()) == files
    table = report.markdown(TINY, [load.workload], {load.workload.name: [result]})
    assert "- broken: no such luck" in table


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_what_is_attached_is_seen_and_after_detaching_is_not(load: Load, tmp_path: Path) -> None:
    attached = Attached(strata(), load.device, tmp_path)
    try:
        assert len(attached.objects.programs) >= 6
        assert len(attached.objects.maps) >= 3
        assert attached.objects.left() == attached.objects
    finally:
        attached.detach()
    assert attached.objects.left() == BpfObjects(frozenset(), frozenset())


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.parametrize("tool", floors(), ids=lambda tool: tool.name)
def test_the_programs_of_a_floor_run_at_each_request(tool: Tool, load: Load) -> None:
    with bpf_statistics(), tool_attached(tool, load.device) as attached:
        before, begin = attached.objects.run_times(), load.ios()
        time.sleep(0.3)
        ios, after = load.ios() - begin, attached.objects.run_times()
    runs = {name: count - before[name][1] for name, (_, count) in after.items()}
    runs = {name: count for name, count in runs.items() if "irq" not in name}  # a loop device has no interrupts
    assert len(runs) >= len(REQUEST_TRACEPOINTS)
    # The listings, before and after, take their time, during which the load goes on.
    assert all(count > 0.9 * ios > 0 for count in runs.values()), (ios, runs)


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_a_floor_with_records_writes_each_request_once(load: Load) -> None:
    tool = next(tool for tool in floors() if tool.name == "the least with a record")
    with tool_attached(tool, load.device) as attached:
        begin = load.ios()
        time.sleep(1)
        records = (attached.folder / "records").read_bytes()
        ios = load.ios() - begin
    times = [struct.unpack_from("<3Q", records, at)[1:] for at in range(0, len(records), RECORD_BYTES_OF_A_FLOOR)]
    assert len(times) > 0.9 * ios > 0
    assert len({done_ns for _, done_ns in times}) > 0.99 * len(times)  # none twice, but CPUs may complete in one ns
    assert sum(0 < issue_ns < done_ns for issue_ns, done_ns in times) > 0.99 * len(times)  # some were under way before


def leaving_a_block_trace(device: str, _folder: Path) -> list[str]:
    """As blktrace does where it may not read what it has set up."""
    return ["sh", "-c", 'echo 1 >"/sys/block/$0/trace/enable"', device]


@pytest.fixture
def can_block_trace(load: Load) -> None:
    if not Path(f"/sys/block/{load.device}/trace/enable").exists():
        pytest.skip("this kernel has no block trace")


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.usefixtures("can_block_trace")
def test_a_block_trace_that_a_tool_leaves_on_is_ended(load: Load) -> None:
    with pytest.raises(ToolError), tool_attached(Tool("leaves", leaving_a_block_trace), load.device):
        pass
    assert traced_disks() == []


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.usefixtures("can_block_trace")
def test_nothing_is_measured_beside_a_block_trace(load: Load, tmp_path: Path) -> None:
    subprocess.run(leaving_a_block_trace(load.device, tmp_path), check=True)
    try:
        assert traced_disks() == [load.device]
        with pytest.raises(LoadError, match=f"blktrace is on for {load.device}"), running(load.workload, tmp_path):
            pass
    finally:
        end_block_trace(load.device)
    assert traced_disks() == []


def runs_in(attached: Attached, load: Load, seconds: float) -> tuple[int, int]:
    """I/Os of the load, and how often the program ran that runs at each completion."""
    name = next(name for name in attached.objects.run_times() if name.endswith("block_rq_complete"))
    before, begin = attached.objects.run_times()[name][1], load.ios()
    time.sleep(seconds)
    ios, after = load.ios() - begin, attached.objects.run_times()[name][1]
    return ios, after - before


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_the_control_alternates_and_runs_no_program(load: Load) -> None:
    with tool_attached(control(), load.device) as attached:
        assert attached.objects == BpfObjects(frozenset(), frozenset())
        attached.alternate()
        attached.alternate()
        assert BpfObjects.of(attached.pid) == attached.objects


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.parametrize("tool", [alternating.alternating(strata()), *floors()], ids=lambda tool: tool.name)
def test_programs_alternate(tool: Tool, load: Load) -> None:
    if not alternating.ALTERNATING.exists():
        pytest.skip("make -C tracer alternating")
    with bpf_statistics(), tool_attached(tool, load.device) as attached:
        for _ in range(3):
            ios, runs = runs_in(attached, load, 0.2)
            assert runs > 0.9 * ios > 0
            attached.alternate()
            ios, runs = runs_in(attached, load, 0.2)
            assert ios > 0
            assert runs == 0
            attached.alternate()


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_alternating_tools_are_measured_and_leave_nothing(load: Load) -> None:
    if not alternating.ALTERNATING.exists():
        pytest.skip("make -C tracer alternating")
    files = set(OUTPUT_ROOT.iterdir())
    plan = alternating.Plan(rounds=3, counted_rounds=1, starts=2)
    both = [alternating.alternating(strata()), floors()[0]]
    ours, empty = alternating.measure(both, load, plan)
    assert len(ours.windows) == len(empty.windows) == 6
    assert ours.rates().blocks == 2
    assert all(window.iops > 0 for windows in (*ours.windows, *empty.windows) for window in windows)
    assert {"block_bio_queue", "block_rq_issue", "block_rq_complete", alternating.ALL} <= ours.run_ns.keys()
    assert len(ours.run_ns[alternating.ALL]) == 2
    assert min(ours.run_ns[alternating.ALL]) > max(empty.run_ns[alternating.ALL])
    assert ours.lost is not None
    assert set(OUTPUT_ROOT.iterdir()) == files


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bench_that_is_ended_leaves_nothing_and_others_alone(load: Load, number: signal.Signals) -> None:
    """Its process group is, as by Ctrl-C; tools and load must not be in it, but end in their order."""
    if not alternating.ALTERNATING.exists():
        pytest.skip("make -C tracer alternating")
    files = set(OUTPUT_ROOT.iterdir())
    command = [sys.executable, "-m", "tracer.bench.alternating", "--rounds", "10000"]
    bench = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
    assert bench.stderr is not None
    try:
        first = bench.stderr.read(1)
        own = set(OUTPUT_ROOT.iterdir()) - files
        processes = psutil.Process(bench.pid).children(recursive=True)
        groups = {os.getpgid(process.pid) for process in processes}
    finally:
        os.killpg(bench.pid, number)
    assert first == "."  # a round is over
    assert own
    assert processes
    assert bench.pid not in groups
    assert bench.stderr.read().endswith("bench: interrupted\n")
    assert bench.wait(30) == 3
    assert set(OUTPUT_ROOT.iterdir()) == files
    assert not any(process.is_running() for process in processes)
    backing = subprocess.run(["losetup", "-l", "-n", "-O", "BACK-FILE"], check=True, capture_output=True, text=True)
    assert not any(str(path) in backing.stdout for path in own)
    before = load.ios()
    time.sleep(0.1)
    assert load.ios() > before


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_requests_on_tcp_are_two_segments_each(tracer: Path) -> None:  # noqa: ARG001
    context = variant("context=--context {folder}/context.csv")
    with (
        running(WORKLOADS["tcp"], Path.cwd()) as load,
        bpf_statistics(),
        tool_attached(context, load.device) as attached,
    ):
        before, begin = attached.objects.run_times(), load.ios()
        time.sleep(0.5)
        ios, after = load.ios() - begin, attached.objects.run_times()
    segments = after["tcp_probe"][1] - before["tcp_probe"][1]
    # The listings, before and after, take their time.
    assert 0 < 2 * ios < 1.1 * segments < 2.5 * 2 * ios


@pytest.mark.parametrize("leak_bytes", [0, 40 << 10])
def test_a_leak_is_told_from_what_others_do(leak_bytes: int) -> None:
    """Beside noise of 8 MiB, and 100 MiB that somebody takes for a fifth of the time."""
    generator = np.random.default_rng(13)
    others = generator.normal(0, 8 << 20, 1001) + np.where(np.arange(1001) % 500 > 400, 100 << 20, 0)
    memory_bytes = [round(value) for value in others + leak_bytes * np.arange(1001)]
    result = cycles.Result(1000, 8000, BpfObjects(frozenset(), frozenset()), cycles.slope(memory_bytes), 1.0)
    assert abs(result.growth_bytes - leak_bytes) < 15 << 10
    assert bool(result.wrong()) == bool(leak_bytes)


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_attaching_many_times_leaves_nothing_behind(tracer: Path) -> None:
    """STRATA_CYCLES=1000 for the long one."""
    count = int(os.environ.get("STRATA_CYCLES", "12"))
    result = cycles.run(tracer, count)
    assert result.programs >= 6 * count
    assert result.wrong() == ""
