"""Pre-split points against YCSB's real keys, hashed here by FNV-1 as its documentation describes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.databases.hbase_regions import hashes_before, split_points


def ycsb_key(number: int) -> str:
    """`user` + |FNV-1a 64 of the number's eight bytes|, as site.ycsb.Utils.hash documents it."""
    value = 0xCBF29CE484222325
    for shift in range(0, 64, 8):
        value = ((value ^ (number >> shift & 0xFF)) * 1099511628211) & (2**64 - 1)
    return f"user{abs(value - 2**64 if value >= 2**63 else value)}"


@pytest.mark.parametrize("regions", [1, 2, 6, 12, 40])
def test_hashed_keys_spread_evenly(regions: int) -> None:
    splits = split_points(regions)
    keys = 40_000
    counts = Counter(bisect_right(splits, ycsb_key(number)) for number in range(keys))
    expected = keys / regions
    assert len(counts) == regions
    # Five standard deviations of a binomial count.
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


@given(st.integers(1, 60))
def test_splits_ascend_and_are_distinct(regions: int) -> None:
    splits = split_points(regions)
    assert len(splits) == regions - 1
    assert splits == sorted(set(splits))


@given(st.integers(0, 2**63 - 1), st.text("0123456789", min_size=1, max_size=19))
def test_the_count_is_a_distribution_function(number: int, text: str) -> None:
    """A number is before a text exactly when one more is before the text that follows the number."""
    written = str(number)
    if written < text:
        assert hashes_before(written) < hashes_before(text)
    else:
        assert hashes_before(text) <= hashes_before(written)
