"""Quantiles of the histograms with four buckets to each power of two: what the programs count, user space reads back.

Both are the tracer's own C code, compiled alone, and are compared with a model that knows no buckets.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TRACER = Path(__file__).parents[1]
BUCKETS = 160
#: What is longer counts as just below it: 18 minutes of ns.
END = 1 << 40

# Of how the programs look at the kernel, the histogram needs nothing.
HARNESS = """
#define PEEK_BPF_H
#include <linux/types.h>
#ifndef __always_inline
#define __always_inline inline
#endif

static inline __u64 forget(__u64 value)
{
	return value;
}

#include "histogram.bpf.h"
#include "../src/fine.h"

void add(struct iotrace_fine *fine, __u64 value)
{
	fine_add(fine, value);
}

void add_shared(struct iotrace_fine *fine, __u64 value)
{
	fine_add_shared(fine, value);
}

void columns(const struct iotrace_fine *now, const struct iotrace_fine *before, char *text, int bytes)
{
	FILE *file = fmemopen(text, bytes, "w");

	fine_write(file, now, before);
	fclose(file);
}
"""


class Fine(ctypes.Structure):
    """struct iotrace_fine"""

    _fields_ = (("count", ctypes.c_uint64), ("sum", ctypes.c_uint64), ("buckets", ctypes.c_uint64 * BUCKETS))


def upper_edge(value: int) -> int:
    """What a quantile is given as when this is it: the next number of three binary digits and zeros behind them."""
    step = 1 << max(0, value.bit_length() - 3)
    return min((value // step + 1) * step, END)


def quantile(values: list[int], percent: int) -> int:
    return upper_edge(sorted(values)[-(-len(values) * percent // 100) - 1])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("no compiler here")
    folder = tmp_path_factory.mktemp("fine")
    (folder / "harness.c").write_text(HARNESS)
    sources = ["-I", str(TRACER / "bpf"), str(folder / "harness.c"), str(TRACER / "src" / "fine.c")]
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(folder / "fine.so"), *sources], check=True)
    return ctypes.CDLL(str(folder / "fine.so"))


def columns(library: ctypes.CDLL, now: Fine, before: Fine) -> str:
    text = ctypes.create_string_buffer(200)
    library.columns(ctypes.byref(now), ctypes.byref(before), text, len(text))
    return text.value.decode()


any_value = st.one_of(st.integers(0, 40), st.integers(0, 2**45), st.builds(lambda n: 1 << n, st.integers(0, 45)))


@settings(deadline=None)
@given(st.lists(any_value, max_size=20), st.lists(any_value, min_size=1, max_size=250), st.booleans())
def test_columns_are_those_of_what_came_since(
    library: ctypes.CDLL, earlier: list[int], values: list[int], shared: bool
) -> None:
    now, before = Fine(), Fine()
    for histogram, added in ((before, earlier), (now, earlier + values)):
        for value in added:
            (library.add_shared if shared else library.add)(ctypes.byref(histogram), ctypes.c_uint64(value))
    mean = sum(values) / len(values)
    assert columns(library, now, before) == f",{mean:.0f},{quantile(values, 50)},{quantile(values, 99)}"


def test_columns_of_nothing_are_empty(library: ctypes.CDLL) -> None:
    assert columns(library, Fine(), Fine()) == ",,,"


def test_each_edge(library: ctypes.CDLL) -> None:
    """The last value below one, and the first that is not."""
    edges = sorted(
        {upper_edge(value) for power in range(40) for value in range(1 << power, 2 << power, 1 << max(0, power - 3))}
    )
    assert len(edges) > 150
    for edge in edges:
        for value in (edge - 1, edge):
            fine = Fine()
            library.add(ctypes.byref(fine), ctypes.c_uint64(value))
            assert columns(library, fine, Fine()) == f",{value},{upper_edge(value)},{upper_edge(value)}"
