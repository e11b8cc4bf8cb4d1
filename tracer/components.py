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
    """All conditions that are there must hold; `kinds` are the kinds of I/O (_CONDITIONS) it is for.

    `path_part` is in every path that matches, and is looked for first: in most paths it is not, and that is fast.
    """

    component: str
    path_part: str
    path: re.Pattern[str] | None
    comm: re.Pattern[str] | None
    kinds: np.ndarray[Any, np.dtype[np.bool_]]


def read_rules(path: Path = DEFAULT_RULES) -> list[Rule]:
    """Reads the lines that components.rules explains; the first match wins."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RulesError(f"{path}: {error}") from None
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
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
        path_part=_longest_literal(path or ""),
        path=_path_pattern(path) if path else None,
        comm=re.compile(fnmatch.translate(comm)) if comm else None,
        kinds=_kinds(conditions),
    )


#: One character of a class, or several: `[0-9a-f]{32}`.
_CLASS = r"\[(?P<not>!?)(?P<of>[^]/]+)\](?P<times>\{\d+(?:,\d*)?\})?"
_TOKEN = re.compile(rf"\*\*|\*|\?|{_CLASS}|[^*?[]+|\[")


def _longest_literal(glob: str) -> str:
    literals = (token[0] for token in _TOKEN.finditer(glob) if token[0][0] not in "*?[")
    return max(literals, key=len, default="")


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


class _Classes:
    """Texts that match the same of the patterns are one class; there are few. A pattern None matches all texts."""

    def __init__(self, patterns: Sequence[tuple[str, re.Pattern[str] | None]]) -> None:
        self._patterns = patterns
        self._numbers: dict[tuple[bool, ...], int] = {}
        #: By the text's code: its class. NO_TEXT is -1: the last place.
        self.of = np.array([self._class_of(None)])

    @property
    def matches(self) -> Sequence[tuple[bool, ...]]:
        """Of each class: which patterns match."""
        return list(self._numbers)

    def learn(self, texts: Sequence[str]) -> None:
        """`texts` by their code: those of the last time, and perhaps more."""
        new = [self._class_of(text) for text in texts[len(self.of) - 1 :]]
        if new:
            self.of = np.concatenate([self.of[:-1], new, self.of[-1:]])

    def _class_of(self, text: str | None) -> int:
        matches = tuple(
            pattern is None or (text is not None and part in text and pattern.fullmatch(text) is not None)
            for part, pattern in self._patterns
        )
        return self._numbers.setdefault(matches, len(self._numbers))


class Components:
    """Applies the rules to whole blocks: a table of path class x thread class x kind of I/O is looked up."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.names = list(dict.fromkeys(rule.component for rule in rules))
        self._paths = _Classes([(rule.path_part, rule.path) for rule in rules])
        self._comms = _Classes([("", rule.comm) for rule in rules])
        self._table = np.full((0, 0, _KINDS), NO_TEXT, np.int32)

    def codes(self, definitions: Definitions, comm: Codes, path: Codes, block: np.ndarray[Any, Any]) -> Codes:
        """Index into `names` for each record, NO_TEXT where no rule matches. `comm`, `path`: codes in `definitions`."""
        self._paths.learn(definitions.paths.list)
        self._comms.learn(definitions.comms.list)
        self._fill()
        mode = np.minimum(block["mode"], len(MODES)).astype(np.int64)
        origin = np.minimum(block["origin"], len(ORIGINS))
        use = np.where(block["flags"] & FLAG_SWAP, _SWAP, (block["flags"] & FLAG_META) // FLAG_META)
        kind = (mode * _ORIGIN_PLACES + origin) * _USES + use
        codes: Codes = self._table[self._paths.of[path], self._comms.of[comm], kind]
        return codes

    def _fill(self) -> None:
        paths, comms, known = self._paths.matches, self._comms.matches, self._table
        if known.shape[:2] == (len(paths), len(comms)):
            return
        self._table = np.full((len(paths), len(comms), _KINDS), NO_TEXT, np.int32)
        self._table[: known.shape[0], : known.shape[1]] = known
        for i, of_path in enumerate(paths):
            for j in range(known.shape[1] if i < known.shape[0] else 0, len(comms)):
                for rule, path, comm in reversed(list(zip(self._rules, of_path, comms[j], strict=True))):
                    if path and comm:
                        self._table[i, j, rule.kinds] = self.names.index(rule.component)
