"""Debian kernels for the guests: fetched by apt, checked against its index, made bootable, kept in the cache.

Nothing of the machine's own apt is changed: lists and downloads live in folders of our own. The archive that the
machine already uses is asked, also for the backports.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracer.guests import initramfs
from tracer.guests.command import UnavailableError, run

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stratabench" / "guests"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Kernel:
    """A kernel series, and the Debian suite whose `linux-image-amd64` is of that series."""

    series: str
    suite: str


KERNELS = {
    kernel.series: kernel
    for kernel in (Kernel("5.10", "bullseye"), Kernel("6.1", "bookworm"), Kernel("6.12", "bookworm-backports"))
}


@dataclass(frozen=True)
class Bootable:
    """What QEMU boots. `release` is what `uname -r` says in there."""

    release: str
    vmlinuz: Path
    initramfs: Path


class Apt:
    """apt with one source and folders of its own, so that it needs no rights and leaves no traces."""

    def __init__(self, folder: Path, sources: Path) -> None:
        self.folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.options = [
            f"-oDir::State::lists={folder}/lists",
            f"-oDir::Cache={folder}",
            "-oDir::Etc::sourcelist=/dev/null",
            f"-oDir::Etc::sourceparts={sources}",
            "-oAcquire::Languages=none",
            "-oAPT::Update::Error-Mode=any",  # else an archive that cannot be reached is a warning
            # The user _apt cannot write into somebody's cache.
            f"-oAPT::Sandbox::User={'root' if os.geteuid() == 0 else ''}",
        ]

    def get(self, *arguments: str) -> str:
        return run("apt-get", "-qq", *self.options, *arguments, cwd=self.folder)

    def field(self, package: str, name: str) -> str:
        """A field of the newest version of a package."""
        text = run("apt-cache", *self.options, "--no-all-versions", "show", package)
        found = re.search(rf"^{name}: (.*)$", text, re.MULTILINE)
        if not found:
            raise UnavailableError(f"apt names no {name} of {package}")
        return found[1]


def _debian_uri(scratch: Path) -> str:
    """Where this machine gets Debian from."""
    uri = _uri_labelled_debian([])
    if not uri:  # its lists are empty, as in most containers: fetch them, but not into its own folder
        apt = Apt(scratch / "machine", Path("/etc/apt/sources.list.d"))
        machine = [option for option in apt.options if "Dir::Etc" not in option]
        run("apt-get", "-qq", *machine, "update")
        uri = _uri_labelled_debian(machine)
    if not uri:
        raise UnavailableError("the guests need Debian packages, and no source of this machine's apt is Debian's")
    return uri


def _uri_labelled_debian(options: list[str]) -> str:
    wanted = "$(ORIGIN)/$(LABEL) $(REPO_URI)"
    targets = run("apt-get", *options, "indextargets", "--format", wanted, "Created-By: Packages")
    uris = [line.split(maxsplit=1)[1] for line in targets.splitlines() if line.startswith("Debian/Debian ")]
    return uris[0] if uris else ""


def _apt(kernel: Kernel, folder: Path) -> Apt:
    """apt with fresh lists of the kernel's suite and of nothing else."""
    sources = folder / "sources"
    sources.mkdir()
    signed_by = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    (sources / "debian.sources").write_text(
        f"Types: deb\nURIs: {_debian_uri(folder)}\nSuites: {kernel.suite}\nComponents: main\n{signed_by}"
    )
    apt = Apt(folder, sources)
    apt.get("update")
    return apt


def _newest(apt: Apt, kernel: Kernel, kind: str) -> str:
    """`linux-image-6.1.0-50-amd64`, when `kind` is linux-image."""
    package = apt.field(f"{kind}-amd64", "Depends").split()[0]
    if not package.startswith(f"{kind}-{kernel.series}."):
        raise UnavailableError(f"{kernel.suite} now has {package}, not a kernel {kernel.series}")
    return package


def _download(apt: Apt, package: str) -> Path:
    """The package, checked by apt and, once written, by us."""
    apt.get("download", package)
    (deb,) = apt.folder.glob(f"{package}_*.deb")
    if _sha256(deb) != apt.field(package, "SHA256"):
        raise UnavailableError(f"{deb.name}: its checksum is not the one of the archive's index")
    return deb


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make(kernel: Kernel, scratch: Path) -> None:
    """Fills the folder `bootable` in `scratch`."""
    apt = _apt(kernel, scratch)
    package = _newest(apt, kernel, "linux-image")
    release, deb = package.removeprefix("linux-image-"), _download(apt, package)
    tree, made = scratch / "tree", scratch / "bootable"
    made.mkdir()
    run("dpkg-deb", "-x", deb, tree)
    run("depmod", "-b", tree, release)
    shutil.copy(tree / "boot" / f"vmlinuz-{release}", made / "vmlinuz")
    initramfs.write(made / "initramfs", tree, release)
    sums = {name: _sha256(made / name) for name in ("vmlinuz", "initramfs")}
    (made / "bootable.json").write_text(
        json.dumps({"release": release, "package": deb.name, "recipe": initramfs.recipe(), "sha256": sums}, indent=1)
    )


def _cached(folder: Path) -> Bootable | None:
    """What lies there, unless it is damaged or was made by another version of the recipe."""
    try:
        told = json.loads((folder / "bootable.json").read_text())
        whole = all(_sha256(folder / name) == digest for name, digest in told["sha256"].items())
    except (OSError, ValueError, KeyError):
        return None
    if not whole or told["recipe"] != initramfs.recipe():
        return None
    return Bootable(told["release"], folder / "vmlinuz", folder / "initramfs")


def prepare(kernel: Kernel, *, renew: bool = False) -> Bootable:
    """Returns the kernel from the cache; fetches it when it is not there (or `renew`). May raise UnavailableError."""
    folder = CACHE / kernel.series
    cached = None if renew else _cached(folder)
    if cached:
        return cached
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{kernel.series}.new-") as scratch:
        _make(kernel, Path(scratch))
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "bootable").rename(folder)
    made = _cached(folder)
    if not made:
        raise UnavailableError(f"{folder}: damaged as soon as it was written; is the disk full?")
    return made


def prepare_headers(kernel: Kernel) -> Path:
    """Returns a folder with the kernel's headers, as one tree; fetches them once. May raise UnavailableError."""
    folder = CACHE / f"{kernel.series}-headers"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{kernel.series}-headers.new-") as scratch:
        apt = _apt(kernel, Path(scratch))
        package = _newest(apt, kernel, "linux-headers")
        tree = Path(scratch) / "tree"
        for part in (f"{package.removesuffix('amd64')}common", package):
            run("dpkg-deb", "-x", _download(apt, part), tree)
            # What is common to all architectures, then what this one adds.
            shutil.copytree(
                tree / "usr/src" / part,
                Path(scratch) / "whole",
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("scripts", "tools"),  # links into a package of programs to build with
            )
        (Path(scratch) / "whole").rename(folder)
    return folder
