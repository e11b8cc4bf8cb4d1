"""A node's own disk: really a device of its own, and really gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a loop device can be set up by root only")
SIZE_MB = 64


@pytest.fixture
def place(tmp_path: Path, own_disk: ModuleType) -> Iterator[tuple[Path, Path]]:
    image, mount = tmp_path / "disk.img", tmp_path / "disk"
    yield image, mount
    own_disk.remove(image, mount)


@pytest.mark.root
@needs_root
def test_disk_comes_and_goes(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    made = own_disk.make(image, mount, SIZE_MB)
    if not made["own_disk"]:
        pytest.skip(f"no loop device here: {made['reason']}")
    assert made["changed"]
    assert own_disk.mounted_device(mount) == made["device"]
    assert mount.stat().st_dev != image.stat().st_dev
    assert Path(f"/sys/block/{Path(made['device']).name}/loop/dio").read_text(encoding="ascii").strip() == "1"
    assert own_disk.make(image, mount, SIZE_MB) == made | {"changed": False}
    assert own_disk.remove(image, mount)["changed"]
    assert own_disk.mounted_device(mount) is None
    assert own_disk.loop_devices(image) == []
    assert not own_disk.remove(image, mount)["changed"]


@pytest.mark.root
@needs_root
def test_data_survives_a_lost_mount(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    if not own_disk.make(image, mount, SIZE_MB)["own_disk"]:
        pytest.skip("no loop device here")
    (mount / "file").write_text("kept", encoding="utf-8")
    own_disk.remove(image, mount)
    assert own_disk.make(image, mount, SIZE_MB)["changed"]
    assert (mount / "file").read_text(encoding="utf-8") == "kept"


def test_data_survives_a_mount_that_fails(
    place: tuple[Path, Path], own_disk: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image, mount = place
    image.write_text("the database's", encoding="utf-8")

    def attach(*_: Path) -> str:
        raise own_disk.DiskError("cannot find an unused loop device")

    with monkeypatch.context() as patched:
        patched.setattr(own_disk, "attach", attach)
        patched.setattr(os, "geteuid", lambda: 0)
        assert own_disk.main(["make", f"--image={image}", f"--mount={mount}"]) == 1
    assert "unused loop device" in capsys.readouterr().err
    assert image.read_text(encoding="utf-8") == "the database's"


@pytest.mark.root
@needs_root
def test_a_deleted_image_is_detached_too(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    if not own_disk.make(image, mount, SIZE_MB)["own_disk"]:
        pytest.skip("no loop device here")
    image.unlink()
    own_disk.remove(image, mount)
    assert own_disk.loop_devices(image) == []


def test_without_root_a_folder_and_the_reason(
    place: tuple[Path, Path], own_disk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    image, mount = place
    made = own_disk.make(image, mount, SIZE_MB)
    assert (made["changed"], made["own_disk"]) == (True, False)
    assert "root" in made["reason"]
    assert mount.is_dir()
    assert not own_disk.make(image, mount, SIZE_MB)["changed"]


@pytest.mark.parametrize("tool", ["mkfs.ext4", "losetup", "mount"])
def test_a_failing_tool_leaves_a_folder_and_the_reason(
    place: tuple[Path, Path], own_disk: ModuleType, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    real = own_disk.run

    def run(*command: str) -> str:
        if command[0] == tool:
            raise own_disk.DiskError(f"{tool}: not permitted")
        if os.geteuid() != 0:
            pytest.skip("needs root")
        return str(real(*command))

    monkeypatch.setattr(own_disk, "run", run)
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    image, mount = place
    made = own_disk.make(image, mount, SIZE_MB)
    assert not made["own_disk"]
    assert f"{tool}: not permitted" in made["reason"]
    assert not image.exists()
    assert own_disk.loop_devices(image) == []


def test_a_folder_in_use_stays_a_folder(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    mount.mkdir()
    (mount / "data").touch()
    assert not own_disk.make(image, mount, SIZE_MB)["own_disk"]
    assert (mount / "data").exists()
    shutil.rmtree(mount)


def test_a_given_folder_is_used_as_it_is(tmp_path: Path, own_disk: ModuleType) -> None:
    """Whether it is another disk than the system's, `stat` and `findmnt` know."""
    folder = tmp_path / "data"
    first, second = own_disk.use(folder), own_disk.use(folder)
    assert (first["changed"], second["changed"]) == (True, False)
    apart = folder.stat().st_dev != Path("/").stat().st_dev
    source = subprocess.run(["findmnt", "-no", "SOURCE", "-T", folder], capture_output=True, text=True, check=True)
    on_device = source.stdout.startswith("/dev/")
    assert first["own_disk"] == (apart and on_device)
    assert bool(first["reason"]) != first["own_disk"]


def test_a_disk_that_is_mounted_there_is_its_own(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    if not own_disk.make(image, mount, SIZE_MB)["own_disk"]:
        pytest.skip("no loop devices here")
    device = own_disk.mounted_device(mount)
    answer = own_disk.use(mount / "folder")
    assert (answer["own_disk"], answer["device"]) == (True, device)


def test_a_check_says_what_comes_and_changes_nothing(tmp_path: Path, own_disk: ModuleType) -> None:
    folder = tmp_path / "a" / "data"
    tried = own_disk.use(folder, check=True)
    assert not folder.parent.exists()
    assert own_disk.use(folder) == tried
    assert own_disk.use(folder, check=True) == own_disk.use(folder)
    with pytest.raises(SystemExit):
        own_disk.main(["remove", f"--mount={folder}", "--check"])
    assert folder.is_dir()


def test_a_check_of_a_disk_that_is_there_says_what_it_is(place: tuple[Path, Path], own_disk: ModuleType) -> None:
    image, mount = place
    tried = own_disk.make(image, mount, SIZE_MB, check=True)
    assert not mount.exists()
    assert tried["changed"]
    made = own_disk.make(image, mount, SIZE_MB)
    if os.geteuid() != 0:
        assert tried == made
    if made["own_disk"]:
        assert own_disk.make(image, mount, SIZE_MB, check=True) == made | {"changed": False}


def test_a_file_system_without_a_disk_is_no_disk(own_disk: ModuleType) -> None:
    answer = own_disk.use(Path("/dev/shm"))
    assert not answer["own_disk"]
    assert "no block device" in answer["reason"]
