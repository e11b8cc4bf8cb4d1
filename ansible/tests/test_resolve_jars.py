"""The distribution: complete, unchanged, or one message that names the jar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

POM = Path("pom.xml")
JARS = {"hbase-server.jar": b"server", "zookeeper.jar": b"keeper"}


@pytest.fixture
def repository(resolve_jars: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Takes Maven's place: what is in here is what can be fetched."""
    content = dict(JARS)

    def fetch(mvn: str, pom: Path, version: str, lib: Path) -> None:
        if not content:
            raise resolve_jars.ResolveError("repository not reachable")
        lib.mkdir(parents=True)
        for name, data in content.items():
            (lib / name).write_bytes(data)

    monkeypatch.setattr(resolve_jars, "maven", fetch)
    return content


@pytest.fixture
def ensure(resolve_jars: ModuleType, tmp_path: Path) -> Callable[[], dict[str, object]]:
    return lambda: resolve_jars.ensure(tmp_path / "hbase", POM, "1.0", "mvn")


def test_resolved_once(ensure: Callable[[], dict[str, object]], repository: dict[str, bytes], tmp_path: Path) -> None:
    assert ensure() == {"changed": True, "jars": 2}
    repository.clear()
    assert ensure() == {"changed": False, "jars": 2}
    assert (tmp_path / "hbase" / "webroot" / "webapps" / "hdfs" / "WEB-INF").is_dir()
    assert {path.name for path in (tmp_path / "hbase" / "lib").iterdir()} == set(JARS)


@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_a_damaged_jar_is_fetched_again(
    ensure: Callable[[], dict[str, object]], repository: dict[str, bytes], tmp_path: Path, damage: str
) -> None:
    ensure()
    jar = tmp_path / "hbase" / "lib" / "zookeeper.jar"
    if damage == "missing":
        jar.unlink()
    else:
        jar.write_bytes(b"kee")
    assert ensure()["changed"]
    assert jar.read_bytes() == JARS["zookeeper.jar"]


def test_a_missing_jar_that_cannot_be_fetched_is_named(
    ensure: Callable[[], dict[str, object]],
    repository: dict[str, bytes],
    resolve_jars: ModuleType,
    tmp_path: Path,
) -> None:
    ensure()
    (tmp_path / "hbase" / "lib" / "zookeeper.jar").unlink()
    repository.clear()
    with pytest.raises(resolve_jars.ResolveError, match=r"missing .*zookeeper\.jar.*not reachable"):
        ensure()
    assert (tmp_path / "hbase" / "lib" / "hbase-server.jar").exists()


def test_another_content_under_the_same_name_is_refused(
    ensure: Callable[[], dict[str, object]],
    repository: dict[str, bytes],
    resolve_jars: ModuleType,
    tmp_path: Path,
) -> None:
    ensure()
    (tmp_path / "hbase" / "lib" / "zookeeper.jar").unlink()
    repository["zookeeper.jar"] = b"KEEPER"
    with pytest.raises(resolve_jars.ResolveError, match=r"another zookeeper\.jar"):
        ensure()


def test_mavens_message_is_one_line(resolve_jars: ModuleType, tmp_path: Path) -> None:
    fake = tmp_path / "mvn"
    fake.write_text(
        "#!/bin/sh\necho '\033[0m[ERROR] Could not find artifact x:y:jar:9 -> [Help 1]'\nexit 1\n",
        encoding="utf-8",
    )
    fake.chmod(0o755)
    with pytest.raises(resolve_jars.ResolveError) as caught:
        resolve_jars.maven(str(fake), POM, "9", tmp_path / "lib")
    assert str(caught.value) == "Could not find artifact x:y:jar:9"


def test_a_missing_maven_says_what_to_install(
    resolve_jars: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--folder", str(tmp_path / "x"), "--pom", "p", "--version", "1", "--mvn", "no-such-mvn"]
    assert resolve_jars.main(arguments) == 1
    assert "install maven" in capsys.readouterr().err
