"""What is relied on in the JSON files of a run: the kinds of their members. What nobody reads may be anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Each:
    """An object whose names are not known before, with a value of one shape under each."""

    shape: Any


@dataclass(frozen=True)
class Maybe:
    """A value of the shape, or null."""

    shape: Any


#: A type stands for itself, a list for one of anything like its element, an object for members that have to be there,
#: or need not where their name ends with `?`.
MANIFEST: dict[str, Any] = {
    "status?": str,
    "reasons?": [str],
    "warnings?": [str],
    "findings?": [{"severity": str, "where": str, "what": str}],
    "files?": Each({"sha256?": str, "rows?": int}),
    "tracing?": Each(
        {
            "state?": str,
            "reason?": Maybe(str),
            "layers_missing?": Each(str),
            **{f"{counter}?": int for counter in ("completions", "emitted", "dropped", "unseen")},
        }
    ),
    "versions?": Each(object),
    "settings?": Each(object),
    "tags?": Each(object),
}

_CALLS = {"calls": int, "sum_ns": int}
TRACE: dict[str, Any] = {
    "state?": str,
    "reason?": Maybe(str),
    "probes?": [str],
    "limits?": [str],
    "program_misses?": Each(int),
    "returns?": {"returned?": int, "dropped?": int},
    "emitted?": int,
    "dropped?": int,
    "vfs?": Each({"hit_ratio": Maybe(float), "cached": _CALLS, "with_io": _CALLS}),
    "devices": [
        {
            "device": str,
            "completions": int,
            "emitted": int,
            "dropped": int,
            "excluded?": Maybe(Each(int)),
            "layers_missing?": Each(str),
            "diskstats_before?": Maybe(Each(int)),
            "diskstats_after?": Maybe(Each(int)),
        }
    ],
}

PLAN: dict[str, Any] = {
    "description?": str,
    "io_csv?": bool,
    "database?": {"name?": str, "settings?": Each(object)},
    "nodes": [{"name": str, "roles": [str]}],
    "phases": [
        {
            "name": str,
            "kind": str,
            "record_count": int,
            "shards": [
                {"client": str, "key_start": Maybe(int), "key_end": Maybe(int), "planned?": Maybe(Each(int))},
            ],
        }
    ],
}

#: A client's summary.json.
SUMMARY: dict[str, Any] = {
    "operations": Each({"count": int}),
    "client?": Maybe({"warnings?": Maybe([str]), "not_begun?": Maybe(int)}),
}


def misfit(value: Any, shape: Any, where: str = "") -> str:
    """The first member that is missing or of another kind, as `devices.0.dropped`; empty when there is none."""
    if isinstance(shape, Maybe):
        return "" if value is None else misfit(value, shape.shape, where)
    if isinstance(shape, type):
        # True is an int to Python, and JSON writes 1.0 as 1.
        fits = shape is object or type(value) is shape or (shape is float and type(value) is int)
        return "" if fits else where
    if isinstance(shape, list):
        if not isinstance(value, list):
            return where
        inner = [(str(index), entry, shape[0]) for index, entry in enumerate(value)]
    elif not isinstance(value, dict):
        return where
    elif isinstance(shape, Each):
        inner = [(name, entry, shape.shape) for name, entry in value.items()]
    else:
        named = {name.removesuffix("?"): (name.endswith("?"), part) for name, part in shape.items()}
        inner = [(name, value.get(name), part) for name, (free, part) in named.items() if name in value or not free]
    found = (misfit(entry, part, f"{where}.{name}" if where else name) for name, entry, part in inner)
    return next((place for place in found if place), "")
