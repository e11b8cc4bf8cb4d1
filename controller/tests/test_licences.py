"""Every pinned package that a run needs may be used by an Apache-2.0 project."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / ".ci" / "requirements.txt"
PERMISSIVE = re.compile(r"\b(MIT|MIT-0|BSD|0BSD|Apache|ISC|PSF|Zlib|CC0)\b")
COPYLEFT = re.compile(r"\b[AL]?GPL|Affero|General Public", re.IGNORECASE)
# Run as programs of their own (`ansible-playbook`), never imported by our code.
PROGRAMS = {"ansible-core"}


def licence(package: str) -> str:
    about = metadata.metadata(package)
    expression, words = about.get_all("License-Expression"), about.get_all("License")
    classifiers = [c.rsplit(" :: ", 1)[-1] for c in about.get_all("Classifier") or [] if c.startswith("License")]
    return "; ".join(expression or classifiers or words or [])


@pytest.mark.parametrize("package", re.findall(r"^([\w.-]+)==", REQUIREMENTS.read_text(), re.MULTILINE))
def test_a_dependency_may_be_used(package: str) -> None:
    if package in PROGRAMS:
        return
    text = licence(package)
    assert PERMISSIVE.search(text), text
    assert not COPYLEFT.search(text), text


def test_what_is_run_as_a_program_is_not_imported() -> None:
    root = REQUIREMENTS.parents[1]
    sources = [path for folder in ("agent", "controller", "tracer", "viz") for path in (root / folder).rglob("*.py")]
    assert len(sources) > 50
    assert not [path for path in sources if re.search(r"^\s*(import|from) ansible\b", path.read_text(), re.MULTILINE)]
