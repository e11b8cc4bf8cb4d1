# SPDX-License-Identifier: Apache-2.0
"""What is copied to remote nodes: complete, the same for the same files, another name for others."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

REPO = Path(__file__).resolve().parents[2]


def tree(folder: Path) -> dict[str, tuple[bytes | None, bool]]:
    """Every file with its content and whether it can be run; empty folders with None."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else None, os.access(path, os.X_OK))
        for path in folder.rglob("*")
        if path.is_file() or not any(path.iterdir())
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "lib" / "empty").mkdir(parents=True)
    (source / "lib" / "a.jar").write_bytes(bytes(range(256)))
    program = source / "run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (source / "lib" / "link.jar").symlink_to("a.jar")
    return source


def test_tar_unpacks_what_was_packed(pack: ModuleType, folder: Path, tmp_path: Path) -> None:
    answer = pack.pack(folder, "x", tmp_path / "out")
    assert answer["changed"]
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    # By another program, as on the node.
    subprocess.run(["tar", "-xf", answer["archive"], "-C", unpacked], check=True)
    found = tree(unpacked / answer["name"])
    assert found.pop("complete") == (b"", False)
    assert found == tree(folder)


def test_the_last_member_says_that_it_is_complete(pack: ModuleType, folder: Path, tmp_path: Path) -> None:
    with tarfile.open(pack.pack(folder, "x", tmp_path / "out")["archive"]) as tar:
        assert tar.getnames()[-1].endswith("/complete")


def test_the_name_follows_the_content(pack: ModuleType, folder: Path, tmp_path: Path) -> None:
    first = pack.pack(folder, "x", tmp_path / "out")
    os.utime(folder / "run", (1, 1))
    assert pack.pack(folder, "x", tmp_path / "out") == first | {"changed": False}
    names = {first["name"]}
    for change in (
        lambda: (folder / "run").chmod(0o600),
        lambda: (folder / "run").write_text("#!/bin/bash\n"),
        lambda: (folder / "run").rename(folder / "ran"),
        (folder / "lib" / "empty").rmdir,
    ):
        change()
        names.add(pack.pack(folder, "x", tmp_path / "out")["name"])
    assert len(names) == 5


LINES = st.lists(st.sampled_from(["    --hash=sha256:aa", "    --hash=sha256:bb"]), min_size=1, max_size=3)


@given(st.dictionaries(st.sampled_from(["attrs", "zstd", "grpcio-tools", "numpy"]), LINES), LINES)
def test_pins_of_the_agent(agent_bundle: ModuleType, others: dict[str, list[str]], hashes: list[str]) -> None:
    wanted = dict.fromkeys(agent_bundle.PACKAGES, hashes)
    blocks = {name: " \\\n".join([f"{name}==1.2.3", *lines]) for name, lines in sorted((others | wanted).items())}
    text = "--find-links /x\n\n" + "".join(f"{block}\n    # via somebody\n" for block in blocks.values())
    pins = agent_bundle.pinned(text)
    assert pins == "".join(f"{blocks[name]}\n" for name in agent_bundle.PACKAGES)


def test_a_missing_pin_is_named(agent_bundle: ModuleType) -> None:
    with pytest.raises(agent_bundle.BundleError, match="does not name grpcio"):
        agent_bundle.pinned("psutil==1 \\\n    --hash=sha256:aa\n")


def test_every_import_of_the_agent_is_brought_along(agent_bundle: ModuleType) -> None:
    """The agent's own sources say which packages it needs."""
    provides = {"grpc": "grpcio", "google": "protobuf", "prometheus_client": "prometheus-client", "psutil": "psutil"}
    imported = set()
    for path in (REPO / "agent").rglob("*.py"):
        if "tests" not in path.parts:
            imported |= set(re.findall(r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.M))
    known = imported & provides.keys()
    assert {provides[name] for name in known} <= set(agent_bundle.PACKAGES)
    standard = imported - known - {"agent"}
    assert all(name in __import__("sys").stdlib_module_names for name in standard), standard


def test_missing_jars_are_said(agent_bundle: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "ycsb-fork" / "bin").mkdir(parents=True)
    with pytest.raises(agent_bundle.BundleError, match="make setup"):
        list(agent_bundle.sources(tmp_path, "x86_64"))


@pytest.fixture
def repository(agent_bundle: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository; packages are there without being downloaded."""
    source = tmp_path / "repository"
    for name in ("agent/agent.py", "ycsb-fork/bin/ycsb", f"ycsb-fork/{agent_bundle.BINDINGS}"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text(name, encoding="utf-8")
    (source / "ycsb-fork/core/target").mkdir()
    (source / "ycsb-fork/core/target/ycsb-core.jar").touch()
    (source / ".ci").mkdir()
    pins = "".join(f"{name}==1 \\\n    --hash=sha256:aa\n" for name in agent_bundle.PACKAGES)
    (source / agent_bundle.REQUIREMENTS).write_text(pins, encoding="utf-8")
    monkeypatch.setattr(agent_bundle, "install_packages", lambda folder, *_: folder.mkdir(parents=True))
    return source


def test_nodes_of_two_kinds_are_gathered_for_once(agent_bundle: ModuleType, repository: Path, tmp_path: Path) -> None:
    def gather(python: str, machine: str) -> bool:
        answer = agent_bundle.gather(repository, tmp_path / "cache", tmp_path / "out", python, machine)
        return bool(answer["changed"])

    kinds = [("3.11", "x86_64"), ("3.12", "x86_64"), ("3.11", "aarch64")]
    assert [gather(*kind) for kind in kinds] == [True, True, True]
    assert [gather(*kind) for kind in kinds] == [False, False, False]


def test_a_folder_that_was_cut_short_is_made_again(
    agent_bundle: ModuleType, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather() -> Path:
        answer = agent_bundle.gather(repository, tmp_path / "cache", tmp_path / "out", "3.11", "x86_64")
        return Path(answer["folder"])

    complete = tree(gather())
    source = repository / "agent" / "agent.py"
    before = source.stat()
    source.write_text("changed", encoding="utf-8")
    with monkeypatch.context() as killed:
        killed.setattr(agent_bundle.shutil, "copytree", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gather()
    source.write_text("agent/agent.py", encoding="utf-8")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree(gather()) == complete


def test_packages_that_another_deployment_has_fetched_meanwhile_will_do(
    agent_bundle: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        for folder in (Path(command[command.index("--target") + 1]), packages):
            folder.mkdir()
            (folder / "grpc.py").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(agent_bundle.subprocess, "run", pip)
    agent_bundle.install_packages(packages, "", "3.11", "x86_64")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["grpc.py", "packages"]
