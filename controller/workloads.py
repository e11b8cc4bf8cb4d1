"""Workload files: YCSB's `.properties`, found by name or path, and the operation counts that follow from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from controller.errors import ConfigError

# YCSB's property -> the operation's name in results; the order breaks ties (docs/interfaces.md).
MIX = {
    "readproportion": "READ",
    "updateproportion": "UPDATE",
    "insertproportion": "INSERT",
    "deleteproportion": "DELETE",
    "scanproportion": "SCAN",
    "readmodifywriteproportion": "READ-MODIFY-WRITE",
    "multigetproportion": "MULTI-GET",
    "batchinsertproportion": "BATCH-INSERT",
    "filteredscanproportion": "FILTERED-SCAN",
    "secondarylookupproportion": "SECONDARY-LOOKUP",
    "traversalproportion": "TRAVERSAL",
}
_MIX_DEFAULTS = {"readproportion": "0.95", "updateproportion": "0.05"}
_SEPARATOR = re.compile(r"(?<!\\)\s*(?<!\\)[=:\s]\s*")


def load_workload(name: str, folder: Path) -> dict[str, str]:
    """Properties of the workload file ``name`` (a path, or a file of ``folder``). Raises ConfigError."""
    candidates = [Path(name), folder / name, folder / f"{name}.properties"]
    path = next((p for p in candidates if p.is_file()), None)
    if path is None:
        known = sorted(p.stem for p in folder.glob("*") if p.is_file())
        raise ConfigError(f"no workload {name!r} (known: {', '.join(known)})", hint="give one of them or a file's path")
    try:
        return parse_properties(path.read_text(encoding="latin-1"))
    except OSError as error:
        raise ConfigError(f"cannot read workload {path}: {error.strerror}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Parses Java's property format: comments, continued lines, `=`, `:` or blank as separator, escapes."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    properties = {}
    for line in joined.splitlines():
        line = line.strip()  # noqa: PLW2901
        if line and line[0] not in "#!":
            key, *value = _SEPARATOR.split(line, maxsplit=1)
            properties[_unescape(key)] = _unescape(value[0]) if value else ""
    return properties


def _unescape(text: str) -> str:
    named = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    code = r"\\(?:u([0-9A-Fa-f]{4})|(.))"
    return re.sub(code, lambda m: chr(int(m[1], 16)) if m[1] else named.get(m[2], m[2]), text)


def whole_number(properties: Mapping[str, str], key: str, default: str) -> int:
    """A property that counts something. Raises ConfigError for what is no number or negative."""
    text = properties.get(key, default)
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"{key}={text!r} is not a whole number") from None
    if value < 0:
        raise ConfigError(f"{key}={value} is negative")
    return value


def operation_counts(properties: Mapping[str, str], operations: int) -> dict[str, int]:
    """How often each operation is done: largest remainders of proportion x operations; a read-modify-write is one.

    Raises ConfigError for impossible proportions."""
    shares = {name: _proportion(properties, key) for key, name in MIX.items()}
    total = sum(shares.values())
    if total == 0:
        raise ConfigError("the workload's proportions are all 0: there is no operation to do")
    exact = {name: share * operations / total for name, share in shares.items()}
    counts = {name: int(value) for name, value in exact.items()}
    missing = operations - sum(counts.values())
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])  # stable: ties keep the order
    for name in by_remainder[:missing]:
        counts[name] += 1
    return {name: count for name, count in counts.items() if count}


def _proportion(properties: Mapping[str, str], key: str) -> Fraction:
    text = properties.get(key, _MIX_DEFAULTS.get(key, "0"))
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{key}={text!r} is not a number") from None
    if value < 0:
        raise ConfigError(f"{key}={text} is negative")
    return value
