"""Debian kernels for the guests: fetched, made bootable, kept in the cache."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracer.guests import initramfs
from tracer.guests.command import CACHE, UnavailableError, run
from tracer.guests.debian import Apt, download, open_apt, sha256
from tracer.guests.roots import HERE, busybox, root_of


@dataclass(frozen=True)
class Kernel:
    """A kernel series, and the Debian suite whose `linux-image-<architecture>` is of that series."""

    series: str
    suite: str
    architecture: str = HERE

    @property
    def name(self) -> str:
        return self.series if self.architecture == HERE else f"{self.series}-{self.architecture}"


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("5.10", "bullseye"),
        Kernel("6.1", "bookworm"),
        Kernel("6.12", "bookworm-backports"),
        Kernel("6.1", "bookworm", "arm64"),
        Kernel("6.12", "bookworm-backports", "arm64"),
    )
}


@dataclass(frozen=True)
class Bootable:
    """What QEMU boots. `release` is what `uname -r` says in there, `root` the files that it sees."""

    release: str
    vmlinuz: Path
    initramfs: Path
    architecture: str
    root: Path


def _newest(apt: Apt, kernel: Kernel, kind: str) -> str:
    """`linux-image-6.1.0-50-amd64`, when `kind` is linux-image."""
    package = apt.field(f"{kind}-{kernel.architecture}", "Depends").split()[0]
    if not package.startswith(f"{kind}-{kernel.series}."):
        raise UnavailableError(f"{kernel.suite} now has {package}, not a kernel {kernel.series}")
    return package


def _make(kernel: Kernel, scratch: Path) -> None:
    """Fills the folder `bootable` in `scratch`."""
    apt = open_apt(kernel.suite, kernel.architecture, scratch)
    package = _newest(apt, kernel, "linux-image")
    release, deb = package.removeprefix("linux-image-"), download(apt, package)
    tree, made = scratch / "tree", scratch / "bootable"
    made.mkdir()
    run("dpkg-deb", "-x", deb, tree)
    run("depmod", "-b", tree, release)
    shutil.copy(tree / "boot" / f"vmlinuz-{release}", made / "vmlinuz")
    initramfs.write(made / "initramfs", tree, release, busybox(kernel.architecture))
    sums = {name: sha256(made / name) for name in ("vmlinuz", "initramfs")}
    (made / "bootable.json").write_text(
        json.dumps({"release": release, "package": deb.name, "recipe": initramfs.recipe(), "sha256": sums}, indent=1)
    )


def _cached(kernel: Kernel) -> Bootable | None:
    """What lies in the cache, unless it is damaged or was made by another version of the recipe."""
    folder = CACHE / kernel.name
    try:
        told = json.loads((folder / "bootable.json").read_text())
        whole = all(sha256(folder / name) == digest for name, digest in told["sha256"].items())
    except (OSError, ValueError, KeyError):
        return None
    if not whole or told["recipe"] != initramfs.recipe():
        return None
    root = root_of(kernel.architecture)
    return Bootable(told["release"], folder / "vmlinuz", folder / "initramfs", kernel.architecture, root)


def prepare(kernel: Kernel, *, renew: bool = False) -> Bootable:
    """Returns the kernel from the cache; fetches it when it is not there (or `renew`). May raise UnavailableError."""
    folder = CACHE / kernel.name
    cached = None if renew else _cached(kernel)
    if cached:
        return cached
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{kernel.name}.new-") as scratch:
        _make(kernel, Path(scratch))
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "bootable").rename(folder)
    made = _cached(kernel)
    if not made:
        raise UnavailableError(f"{folder}: damaged as soon as it was written; is the disk full?")
    return made


def prepare_headers(kernel: Kernel) -> Path:
    """Returns a folder with the kernel's headers, as one tree; fetches them once. May raise UnavailableError."""
    folder = CACHE / f"{kernel.name}-headers"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{kernel.name}-headers.new-") as scratch:
        apt = open_apt(kernel.suite, kernel.architecture, Path(scratch))
        package = _newest(apt, kernel, "linux-headers")
        tree = Path(scratch) / "tree"
        for part in (f"{package.removesuffix(kernel.architecture)}common", package):
            run("dpkg-deb", "-x", download(apt, part), tree)
            # What is common to all architectures, then what this one adds.
            shutil.copytree(
                tree / "usr/src" / part,
                Path(scratch) / "whole",
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("scripts", "tools"),  # links into a package of programs to build with
            )
        (Path(scratch) / "whole").rename(folder)
    return folder
