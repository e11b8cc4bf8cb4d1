"""The report of a scaling experiment. Its numbers are SYNTHETIC: made up, not measured."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from controller.results.scaling import PhaseLoad, PhaseMeasurement, Scaling, analyse
from controller.results.store import RunStore
from controller.results.usl import Law
from controller.tests.synthetic.run import write_run
from viz.figures import scaling, threads
from viz.scaling_report import law_table, write_scaling_report

FIGURES = (scaling.throughput, scaling.speedup, scaling.efficiency, scaling.run_time)
LOAD = PhaseLoad("run", "workloada", 1000, 4)


def series(repeats: int, *, sizes: tuple[int, ...] = (1, 2, 3, 4)) -> Scaling:
    random = np.random.default_rng(2)
    ones = []
    for phase, rate in (("read-run", 900.0), ("write-run", 400.0)):
        for n in sizes:
            for i in range(repeats):
                value = rate * n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) * random.normal(1, 0.01)
                io = {("node1", "device"): 3e6, ("node1", "block"): 1e6} if phase == "write-run" else {}
                regions, locality = {"node1": 4, "node2": 1}, {"node1": 1.0, "node2": 0.5} if io else {}
                one = PhaseMeasurement(n, f"{n}-{i}", phase, LOAD, value, 5000 / value, io, regions, locality)
                ones.append(one)
    return analyse(ones)


def test_every_phase_has_a_panel_with_its_values_and_the_law() -> None:
    outcome = series(3)
    plot = scaling.throughput(outcome).plot
    assert plot is not None
    assert [note.text for note in plot.layout.annotations] == ["read-run", "write-run"]
    points = [trace for trace in plot.data if trace.mode == "markers"]
    for phase, trace in zip(("read-run", "write-run"), points, strict=True):
        found = [step.throughput_ops_per_s for step in outcome.of_phase(phase)]
        assert list(trace.y) == [estimate.value for estimate in found if estimate]
        highs = [estimate.high - estimate.value for estimate in found if estimate and estimate.high]
        assert list(trace.error_y.array) == pytest.approx(highs)
        law = outcome.laws[phase]
        assert isinstance(law, Law)
    curves = [trace for trace in plot.data if trace.mode == "lines"]
    assert len(curves) == 2 and sum(bool(trace.showlegend) for trace in curves) == 1


def test_every_axis_has_a_title_with_its_unit() -> None:
    outcomes = [(draw, series(2)) for draw in FIGURES] + [
        (draw, threads_series((1, 2))) for draw in (threads.throughput, threads.run_time)
    ]
    for draw, outcome in outcomes:
        plot = draw(outcome).plot
        assert plot is not None
        titles = [axis.title.text for axes in (plot.select_xaxes(), plot.select_yaxes()) for axis in axes]
        assert all("(" in title for title in titles), titles


def test_a_large_cluster_has_a_tick_for_each_size_only() -> None:
    """Between 1 and 1000 servers, which is what an experiment may ask for, 1000 numbers would be a black bar."""
    for draw in FIGURES:
        plot = draw(series(2, sizes=(1, 30, 1000))).plot
        assert plot is not None
        assert [list(axis.tickvals or ()) for axis in plot.select_xaxes()] == [[1, 30, 1000]] * 2


def test_a_wide_interval_does_not_hide_the_values() -> None:
    ones = [PhaseMeasurement(n, f"{n}{i}", "w", LOAD, 100.0 * n * (1 + i), 1.0) for n in (1, 2) for i in range(2)]
    plot = scaling.throughput(analyse(ones)).plot
    assert plot is not None
    (axis,) = plot.select_yaxes()
    assert axis.range[0] == 0 and 300 <= axis.range[1] <= 700


def test_a_wide_interval_does_not_hide_the_values_against_threads() -> None:
    ones = [
        PhaseMeasurement(1, f"{n}{i}", f"w-{n}", PhaseLoad("run", "w", 100, n), 100.0 * n * (1 + i), 1.0)
        for n in (1, 2)
        for i in range(2)
    ]
    plot = threads.throughput(analyse(ones)).plot
    assert plot is not None
    (axis,) = plot.select_yaxes()
    assert axis.range and axis.range[0] == 0 and 300 <= axis.range[1] <= 700


@pytest.mark.parametrize("repeats", [0, 1])
def test_what_is_not_there_is_not_drawn(repeats: int) -> None:
    outcome = series(repeats, sizes=(1, 2))
    for draw in FIGURES:
        figure = draw(outcome)
        assert (figure.plot is None) == (repeats == 0)
        for trace in figure.plot.data if figure.plot else ():
            assert trace.mode == "lines" or set(trace.error_y.array) == {None}


def test_the_page_names_where_io_waits_and_what_was_not_counted(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, "servers-2")
    store.write_manifest({"status": "partial", "reasons": ["cut <short>"]})
    text = write_scaling_report(tmp_path, series(3)).read_text()
    for words in (
        'node1: device</td><td class="number">75%',
        "<td>4, 1 (uneven)</td>",
        '<td class="number">75% (50%)</td>',
        f"servers-2/{store.run_id}: partial (not counted): cut &lt;short&gt;",
        "sigma: contention",
    ):
        assert words in text
    assert "No run is complete yet" in write_scaling_report(tmp_path, series(0)).read_text()


def test_the_description_of_the_experiment_is_a_line_of_the_page(tmp_path: Path) -> None:
    RunStore.create(tmp_path, "servers-1").write_manifest({"status": "failed"})
    assert 'class="run">Reads' not in write_scaling_report(tmp_path, series(2)).read_text()
    store = RunStore.create(tmp_path, "servers-2")
    store.write_manifest({"status": "failed"})
    (store.path / "plan.json").write_text('{"schema_version": 1, "description": "Reads & <writes>"}')
    assert '<p class="run">Reads &amp; &lt;writes&gt;</p>' in write_scaling_report(tmp_path, series(2)).read_text()


def test_a_name_of_a_folder_cannot_become_markup(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, '"><img src=x>')
    store.write_manifest({"status": "partial"})
    (store.path / "report.html").touch()
    assert "<img" not in write_scaling_report(tmp_path, series(3)).read_text()


def test_a_small_coherence_is_not_shown_as_none() -> None:
    """Of large clusters kappa is often 0.0001, and what the throughput is limited by all the same."""
    rates = {n: 100.0 * n / (1 + 0.01 * (n - 1) + 0.0001 * n * (n - 1)) for n in (1, 8, 32, 64)}
    ones = [PhaseMeasurement(n, f"{n}{i}", "w", LOAD, rates[n] * (1 + i / 1000), 1.0) for n in rates for i in (0, 1)]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", law_table(analyse(ones)))
    kappa = [float(value) for value in re.findall(r"[0-9.e-]+", cells[3])]
    assert kappa[0] == pytest.approx(0.0001, rel=0.05) and 0 < kappa[1] <= kappa[0] <= kappa[2]


def test_the_page_says_when_more_servers_were_no_more_hardware(tmp_path: Path) -> None:
    store = write_run(tmp_path, nodes=("node1", "node2")).store
    store.write_manifest({"status": "complete", "files": {"report.html": {}}})
    said = "Data servers shared a machine"
    for boot_ids, shared in ((("a", "b"), False), (("a", "a"), True)):
        for node, boot_id in zip(("node1", "node2"), boot_ids, strict=True):
            (store.node_dir(node) / "facts.json").write_text(f'{{"boot_id": "{boot_id}"}}')
        assert (said in write_scaling_report(tmp_path, series(3)).read_text()) is shared


def threads_series(counts: tuple[int, ...]) -> Scaling:
    """Two workloads with each number of threads, three runs each, and a load of the first."""
    ones = [PhaseMeasurement(1, "r", "w-load", PhaseLoad("load", "w.properties", 100, 64), 70.0, 1.0)]
    for workload, rate in (("w", 100.0), ("r", 300.0)):
        for count in counts:
            load = PhaseLoad("run", f"{workload}.properties", 100, count)
            ones += [
                PhaseMeasurement(1, f"r{i}", f"{workload}-{count}-run", load, rate * count + i, 1 / rate / count)
                for i in range(3)
            ]
    return analyse(ones)


def test_what_was_run_with_several_threads_is_drawn_against_them(tmp_path: Path) -> None:
    outcome = threads_series((16, 1, 4))
    plot = threads.throughput(outcome).plot
    assert plot is not None
    assert [note.text for note in plot.layout.annotations] == ["r.properties (run)", "w.properties (run)"]
    assert [list(line.x) for line in plot.data] == [[1, 4, 16]] * 2
    assert list(plot.data[0].y) == pytest.approx([301, 1201, 4801])
    text = write_scaling_report(tmp_path, outcome).read_text()
    assert "Run time against threads" in text
    assert "Scalability Law" not in text, "there is one number of servers only"


def test_phases_that_differ_in_their_rate_or_properties_are_no_line() -> None:
    def measured(threads_: int, target: float | None, share: str, rate: float) -> list[PhaseMeasurement]:
        length = str(1000 * threads_)  # more threads have more to do
        load = PhaseLoad("run", "w", 100, threads_, target, {"readproportion": share, "operationcount": length})
        name = f"w-{threads_}-{target}-{share}"
        return [PhaseMeasurement(1, f"r{i}", name, load, rate + i, 1.0) for i in range(2)]

    alike = [*measured(1, None, "0.5", 10.0), *measured(8, None, "0.5", 80.0)]
    limited = [*measured(1, 5.0, "0.5", 5.0), *measured(8, 5.0, "0.5", 5.0)]
    reading = [*measured(1, None, "0.9", 20.0), *measured(8, None, "0.9", 160.0)]
    plot = threads.throughput(analyse([*alike, *limited, *reading, *measured(8, 5.0, "0.9", 5.0)])).plot
    assert plot is not None
    assert {
        (line.name.removeprefix("100 records, 1 server, "), tuple(line.x), tuple(line.y)) for line in plot.data
    } == {
        ("target (ops/s) none, readproportion 0.5", (1, 8), (10.5, 80.5)),
        ("target (ops/s) 5, readproportion 0.5", (1, 8), (5.5, 5.5)),
        ("target (ops/s) none, readproportion 0.9", (1, 8), (20.5, 160.5)),
    }


def test_without_several_threads_there_is_no_such_figure(tmp_path: Path) -> None:
    assert threads.sweeps(threads_series((4,))) == {}
    assert "against threads" not in write_scaling_report(tmp_path, series(2)).read_text()
