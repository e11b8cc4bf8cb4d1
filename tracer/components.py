"""Which part of a database an I/O belongs to: rules over path, thread name and kind of I/O (components.rules)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracer.tracefile import NO_TEXT, Definitions

DEFAULT_RULES = Path(__file__).with_name("components.rules")
MODES = ("R", "W", "D", "F")
ORIGINS = ("other", "syscall", "writeback", "journal", "io_uring")
FLAG_META, FLAG_SWAP = 16, 128
#: No request is both.
_PLAIN, _META, _SWAP = 0, 1, 2
#: Codes of modes and origins that this version does not know share the place behind the last.
_MODE_PLACES, _ORIGIN_PLACES, _USES = len(MODES) + 1, len(ORIGINS) + 1, 3
_KINDS = _MODE_PLACES * _ORIGIN_PLACES * _USES
#: Condition -> its place in a kind of I/O, and which of the values there each of its words stands for.
_CONDITIONS: dict[str, tuple[int, dict[str, tuple[int, ...]]]] = {
    "mode": (0, {name: (place,) for place, name in enumerate(MODES)}),
    "origin": (1, {name: (place,) for place, name in enumerate(ORIGINS)}),
    "meta": (2, {"no": (_PLAIN, _SWAP), "yes": (_META,)}),
    "swap": (2, {"no": (_PLAIN, _META), "yes": (_SWAP,)}),
}

Codes = np.ndarray[Any, np.dtype[np.int32]]


class RulesError(ValueError):
    """A line of the rules file cannot be understood; the text says which and why."""


@dataclass(frozen=True)
class Rule:
    """All conditions that are there must hold; `kinds` are the kinds of I/O (_CONDITIONS) it is for."""

    component: str
    path: re.Pattern[str] | None
    comm: re.Pattern[str] | None
    kinds: np.ndarray[Any, np.dtype[np.bool_]]


def read_rules(path: Path = DEFAULT_RULES) -> list[Rule]:
    """Reads the lines that components.rules explains; the first match wins."""
    rules = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            rules.append(_parse(words))
        except ValueError as error:
            raise RulesError(f"{path}:{number}: {error}") from None
    return rules


def _parse(words: Sequence[str]) -> Rule:
    conditions: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not value or key in conditions or key not in ("path", "comm", *_CONDITIONS):
            names = "=, ".join(("path", "comm", *_CONDITIONS))
            raise ValueError(f"not a condition: {word!r} ({names}=, each once)")
        conditions[key] = value
    if not conditions:
        raise ValueError(f"{words[0]!r} has no condition")
    path, comm = conditions.get("path"), conditions.get("comm")
    return Rule(
        component=words[0],
        path=_path_pattern(path) if path else None,
        comm=re.compile(fnmatch.translate(comm)) if comm else None,
        kinds=_kinds(conditions),
    )


#: One character of a class, or several: `[0-9a-f]{32}`.
_CLASS = r"\[(?P<not>!?)(?P<of>[^]/]+)\](?P<times>\{\d+(?:,\d*)?\})?"
_TOKEN = re.compile(rf"\*\*|\*|\?|{_CLASS}|[^*?[]+|\[")


def _path_pattern(glob: str) -> re.Pattern[str]:
    """`**` crosses directories; `*`, `?` and classes do not."""
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = ""
    for token in _TOKEN.finditer(glob):
        if token["of"]:
            of = re.sub(r"[\\^&|~[]", r"\\\g<0>", token["of"])
            pattern += f"[{'^/' if token['not'] else ''}{of}]{token['times'] or ''}"
        elif token[0] == "[":
            raise ValueError(f"path={glob}: a [ without its ]")
        else:
            pattern += parts.get(token[0]) or re.escape(token[0])
    try:
        return re.compile(pattern, re.DOTALL)
    except (re.error, OverflowError) as error:
        raise ValueError(f"path={glob}: {error}") from None


def _kinds(conditions: dict[str, str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    wanted = np.ones((_MODE_PLACES, _ORIGIN_PLACES, _USES), np.bool_)
    for key, (axis, values) in _CONDITIONS.items():
        if key not in conditions:
            continue
        if conditions[key] not in values:
            raise ValueError(f"{key}={conditions[key]}: not one of {', '.join(values)}")
        others = [place for place in range(wanted.shape[axis]) if place not in values[conditions[key]]]
        np.moveaxis(wanted, axis, 0)[others] = False
    return wanted.reshape(-1)


class Components:
    """Applies the rules to whole blocks: a table of files x (thread class x kind of I/O) is looked up."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.names = list(dict.fromkeys(rule.component for rule in rules))
        self._classes: dict[tuple[bool, ...], int] = {}
        self._class_of_comm = np.zeros(0, np.int64)
        self._table = np.full((0, 0), NO_TEXT, np.int32)
        self._paths: dict[int, str | None] = {}

    def codes(self, definitions: Definitions, block: np.ndarray[Any, Any]) -> Codes:
        """Index into `names` for each record, NO_TEXT where no rule matches. Numbers must have been checked."""
        self._learn(definitions)
        comm = definitions.task_comm.values[block["task"]]
        mode = np.minimum(block["mode"], len(MODES)).astype(np.int64)
        origin = np.minimum(block["origin"], len(ORIGINS))
        variant = (self._class_of_comm[comm] * _MODE_PLACES + mode) * _ORIGIN_PLACES + origin
        use = np.where(block["flags"] & FLAG_SWAP, _SWAP, (block["flags"] & FLAG_META) // FLAG_META)
        codes: Codes = self._table[block["file"], variant * _USES + use]
        return codes

    def _learn(self, definitions: Definitions) -> None:
        before = len(self._classes)
        known = len(self._class_of_comm)
        comms: list[str | None] = [*definitions.comms.list, None]  # NO_TEXT is -1: the last place
        if len(comms) != known:
            self._class_of_comm = np.array([self._class_of(comm) for comm in comms])
        new_files, definitions.new_files = definitions.new_files, []
        for number in new_files:
            code = int(definitions.file_path.values[number])
            self._paths[number] = None if code == NO_TEXT else definitions.paths.list[code]
        if len(self._classes) != before:
            new_files = list(self._paths)
        self._reserve(max(self._paths) + 1, len(self._classes) * _KINDS)
        for number in new_files:
            self._table[number] = self._row(self._paths[number])

    def _class_of(self, comm: str | None) -> int:
        matches = tuple(
            rule.comm is None or (comm is not None and rule.comm.match(comm) is not None) for rule in self._rules
        )
        return self._classes.setdefault(matches, len(self._classes))

    def _reserve(self, rows: int, columns: int) -> None:
        old = self._table
        if rows <= old.shape[0] and columns == old.shape[1]:
            return
        self._table = np.full((max(rows, 2 * old.shape[0]), columns), NO_TEXT, np.int32)
        self._table[: old.shape[0], : old.shape[1]] = old

    def _row(self, path: str | None) -> np.ndarray[Any, np.dtype[np.int32]]:
        row = np.full((len(self._classes), _KINDS), NO_TEXT, np.int32)
        for index in reversed(range(len(self._rules))):
            rule = self._rules[index]
            if rule.path is not None and (path is None or not rule.path.fullmatch(path)):
                continue
            for matches, place in self._classes.items():
                if matches[index]:
                    row[place, rule.kinds] = self.names.index(rule.component)
        return row.reshape(-1)
