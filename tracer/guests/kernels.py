"""Debian kernels for the guests: fetched, made bootable, kept in the cache."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracer.guests import initramfs
from tracer.guests.command import CACHE, UnavailableError, run
from tracer.guests.debian import Apt, download, open_apt, sha256
from tracer.guests.roots import HERE, busybox, root_of

NEWEST = "newest"


@dataclass(frozen=True)
class Kernel:
    """A kernel series (NEWEST: any), and a Debian suite that has kernels of it."""

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
        Kernel("6.18", "trixie-backports"),
        Kernel(NEWEST, "trixie-backports"),
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


def _release(apt: Apt, kernel: Kernel) -> str:
    """What `uname -r` says of the newest kernel of the series that the suite has: `6.1.0-50-amd64`."""
    series = r"[0-9]+\.[0-9]+" if kernel.series == NEWEST else re.escape(kernel.series)
    image = re.compile(rf"linux-image-({series}\.[0-9.]+(?:-[0-9]+|\+deb[0-9.]+)-{kernel.architecture})")
    releases = [found[1] for name in apt.packages() if (found := image.fullmatch(name))]
    if not releases:
        raise UnavailableError(f"{kernel.suite} has no kernel {kernel.series} for {kernel.architecture}")
    return max(releases, key=lambda release: [int(number) for number in re.findall("[0-9]+", release)])


def _unpack(apt: Apt, release: str, tree: Path) -> list[str]:
    """Fills `tree` with the kernel, its modules, and the list of those built in. Returns the names of the packages."""
    packages = [f"linux-image-{release}"]
    if f"linux-modules-{release} " in apt.field(packages[0], "Depends"):  # since 6.19
        packages += [f"linux-{part}-{release}" for part in ("base", "binary", "modules")]
    debs = [download(apt, package) for package in packages]
    for deb in debs:
        run("dpkg-deb", "-x", deb, tree)
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    return [deb.name for deb in debs]


def _vmlinuz(tree: Path, release: str) -> Path:
    of_its_own = tree / "usr/lib/modules" / release / "vmlinuz"  # in linux-binary
    return of_its_own if of_its_own.exists() else tree / "boot" / f"vmlinuz-{release}"


def _make(kernel: Kernel, scratch: Path) -> None:
    """Fills the folder `bootable` in `scratch`."""
    apt = open_apt(kernel.suite, kernel.architecture, scratch)
    release = _release(apt, kernel)
    tree, made = scratch / "tree", scratch / "bootable"
    made.mkdir()
    packages = _unpack(apt, release, tree)
    run("depmod", "-b", tree, release)
    shutil.copy(_vmlinuz(tree, release), made / "vmlinuz")
    initramfs.write(made / "initramfs", tree, release, busybox(kernel.architecture))
    sums = {name: sha256(made / name) for name in ("vmlinuz", "initramfs")}
    (made / "bootable.json").write_text(
        json.dumps({"release": release, "packages": packages, "recipe": initramfs.recipe(), "sha256": sums}, indent=1)
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


def _release_of(headers: Path) -> str:
    """What `uname -r` says of the kernel that they are of; empty without any."""
    try:
        return (headers / "include/generated/utsrelease.h").read_text().split('"')[1]
    except (OSError, IndexError):
        return ""


def prepare_headers(kernel: Kernel, release: str = "") -> Path:
    """Returns a folder with the kernel's headers, as one tree; fetches them once. May raise UnavailableError.

    `release`: what `uname -r` says of the one that is traced, for the tracer refuses others; empty: any of the series.
    """
    folder = CACHE / f"{kernel.name}-headers"
    there = _release_of(folder)
    if there and there == (release or there):
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{kernel.name}-headers.new-") as scratch:
        apt = open_apt(kernel.suite, kernel.architecture, Path(scratch))
        package = f"linux-headers-{release or _release(apt, kernel)}"
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
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "whole").rename(folder)
    return folder
