"""The nodes' scripts are no package: tests load them from where the roles keep them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROLES = Path(__file__).resolve().parents[1] / "roles"
# The tests are no package either: they find what they share (plays.py) by its folder.
sys.path.insert(0, str(Path(__file__).resolve().parent))


def load_script(role: str, name: str) -> ModuleType:
    path = ROLES / role / "files" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{role}_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def daemon() -> ModuleType:
    return load_script("common", "strata_daemon")


@pytest.fixture(scope="session")
def own_disk() -> ModuleType:
    return load_script("common", "own_disk")


@pytest.fixture(scope="session")
def preflight() -> ModuleType:
    return load_script("common", "preflight")


@pytest.fixture(scope="session")
def resolve_jars() -> ModuleType:
    return load_script("hbase_dist", "resolve_jars")


@pytest.fixture(scope="session")
def packages() -> ModuleType:
    return load_script("common", "packages")


@pytest.fixture(scope="session")
def pack() -> ModuleType:
    return load_script("common", "pack")


@pytest.fixture(scope="session")
def agent_bundle() -> ModuleType:
    return load_script("agent", "agent_bundle")
