"""Runs to draw. They are SYNTHETIC (controller/tests/synthetic): made up, not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.results.finish import finish
from controller.results.store import RunStore
from controller.tests.synthetic.run import write_run


@pytest.fixture(scope="session")
def complete_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = write_run(tmp_path_factory.mktemp("complete"), target=True).store
    finish(store.path)
    return store


@pytest.fixture(scope="session")
def gappy_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """One node without a trace, one without the VFS layer, a client that was killed."""
    store = write_run(tmp_path_factory.mktemp("gappy"), untraced=("node2",), without_vfs=("node1",)).store
    (store.client_dir("client2", "messenger-run") / "summary.json").unlink()
    finish(store.path)
    return store


@pytest.fixture(scope="session")
def untraced_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    nodes = ("node1", "node2", "node3")
    store = write_run(tmp_path_factory.mktemp("untraced"), nodes=nodes, untraced=nodes).store
    finish(store.path)
    return store


@pytest.fixture(scope="session")
def empty_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run that was cut off before any client or tracer had written anything."""
    path: Path = tmp_path_factory.mktemp("empty")
    nodes = ("node1", "node2", "node3")
    store = write_run(path, nodes=nodes, untraced=nodes).store
    for client, phase in store.client_phases():
        folder = store.client_dir(client, phase)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    finish(store.path)
    return store
