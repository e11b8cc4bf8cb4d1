"""Forms of one build: the one that takes longer is found, by how much, and in the program that it is in."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tracer.bench.alternating import ALL, Plan, alternating
from tracer.bench.forms import Form, measure, table
from tracer.bench.load import WORKLOADS, running
from tracer.bench.tools import ToolError, strata
from tracer.bench.windows import OUTPUT_ROOT
from tracer.tests.tracing import TRACER, altered

SPIN_NS = 2000
FORMS = {
    "bpf/peek.bpf.h": {
        "volatile __u64 always_zero = 0;\n": "volatile __u64 always_zero = 0;\n"
        'volatile __u32 form SEC(".data.form") = 0;\n',
    },
    "bpf/request.bpf.h": {
        "	if (!is_traced(device))\n		return;\n": f"""	if (form == 3)
#pragma clang loop unroll(disable)
		for (int i = 0; i < 1000 && bpf_ktime_get_ns() - now < {SPIN_NS}; i++)
			;
	if (!is_traced(device))
		return;
""",
    },
}


def test_forms_are_compared_with_the_first_round_by_round() -> None:
    first = Form(0, iops=[1000, 2000], run_ns={"block_rq_issue": [100, 200], ALL: [300, 300]})
    other = Form(2, iops=[500, 1000], run_ns={"block_rq_issue": [110, 220], ALL: [150, 150]})
    assert table([first, other]).splitlines() == [
        "|  | form 0 | form 2 |",
        "|---|---|---|",
        "| I/Os a second | 1,500 | 750; 0.500 (0.500 to 0.500) |",
        "",
        "| ns | form 0 | form 2 |",
        "|---|---|---|",
        "| all, per I/O | 300 | 150; 0.500 (0.500 to 0.500) |",
        "| block_rq_issue | 150 | 165; 1.100 (1.100 to 1.100) |",
    ]


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_a_form_that_takes_longer_is_found_in_its_program(tmp_path: Path) -> None:
    tool = alternating(strata("forms", ("--no-vfs",)), altered(tmp_path, FORMS))
    before = set(OUTPUT_ROOT.iterdir())
    with running(WORKLOADS["loop32"], tmp_path) as load:
        plain, spinning = measure(tool, [0, 3], load, Plan(rounds=10, counted_rounds=10))
    took = {
        name: statistics.median(spinning.run_ns[name]) - statistics.median(plain.run_ns[name])
        for name in ("block_bio_queue", "block_rq_issue", "block_rq_complete")
    }
    assert SPIN_NS / 2 < took.pop("block_rq_issue") < 1.5 * SPIN_NS
    assert all(abs(ns) < SPIN_NS / 4 for ns in took.values()), took
    assert statistics.median(spinning.iops) < 0.9 * statistics.median(plain.iops)
    assert set(OUTPUT_ROOT.iterdir()) == before


@pytest.mark.bench
@pytest.mark.bpf
@pytest.mark.root
def test_a_build_of_one_form_is_refused(tmp_path: Path) -> None:
    with running(WORKLOADS["loop32"], tmp_path) as load, pytest.raises(ToolError, match="one form only"):
        measure(alternating(strata(), TRACER), [0, 1], load, Plan(rounds=1))
