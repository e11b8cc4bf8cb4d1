"""Where to split a table before the load, so that YCSB's hashed keys spread evenly over its regions.

A key is ``user`` and a hash that is uniform below 2^63, written in decimal without padding. HBase orders keys as text:
``user10`` comes before ``user9``, so equal steps of the number would make regions of very different size.
"""

from __future__ import annotations

_HASHES = 2**63
_LONGEST = len(str(_HASHES - 1))
_DIGITS = 6  # 10^6 steps: the unevenness that is left is below a millionth of all keys for each region


def split_points(regions: int) -> list[str]:
    """The first keys of all regions but the first: ``regions - 1`` keys, ascending. ``regions`` >= 1."""
    return ["user" + _quantile(j, regions) for j in range(1, regions)]


def _quantile(j: int, regions: int) -> str:
    """The longest run of digits (up to ``_DIGITS``) below which there are at most j/regions of all hashes."""
    digits = ""
    for _ in range(_DIGITS):
        fitting = [d for d in "0123456789" if hashes_before(digits + d) * regions <= j * _HASHES]
        digits += fitting[-1] if fitting else "0"
    return digits


def hashes_before(text: str) -> int:
    """How many of the hashes, written in decimal, come before ``text`` in the order of text."""
    return sum(_of_length_before(text, length) for length in range(1, _LONGEST + 1))


def _of_length_before(text: str, length: int) -> int:
    first: int = 0 if length == 1 else 10 ** (length - 1)
    last: int = min(10**length, _HASHES)
    # A number that `text` begins with comes before it.
    bound: int = int(text[:length]) + 1 if length < len(text) else int(text) * 10 ** (length - len(text))
    return min(max(bound, first), last) - first
