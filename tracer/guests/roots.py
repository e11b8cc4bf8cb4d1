"""What a guest sees as its files: this machine's, or Debian's for another architecture, with the tests' packages."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tracer.guests.command import CACHE, UnavailableError, run
from tracer.guests.debian import open_apt

HERE = "amd64"  # guest.check() asks for it
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
BUSYBOX = ("busybox", "busybox-static")
SUITE, PYTHON = "bookworm", "3.11"
PROGRAMS = ("dash", "coreutils", "grep", "bpftool", "busybox-static", "procps", "kmod", "make", "python3", "iproute2",
            "binutils", "mount", "util-linux", "fio", "e2fsprogs", "xfsprogs", "btrfs-progs", "dosfstools", "dmsetup",
            "mdadm")  # fmt: skip
#: With a compiler of this machine's: the tracer is built here.
LIBRARIES = ("libc6-dev", "libbpf-dev", "libelf-dev", "zlib1g-dev")
PACKAGES = ("hypothesis", "numpy", "pyarrow", "pytest", "pytest-rerunfailures", "rich")
#: In such a root.
PACKAGES_AT = "packages"


def root_of(architecture: str) -> Path:
    """Where the guest's files lie; those of another architecture are fetched once. May raise UnavailableError."""
    if architecture == HERE:
        return Path("/")
    folder = CACHE / f"root-{architecture}"
    if not (folder / "recipe").exists() or (folder / "recipe").read_text() != _recipe():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{folder.name}.new-") as scratch:
            tree = _make(architecture, Path(scratch))
            shutil.rmtree(folder, ignore_errors=True)
            tree.rename(folder)
    return folder


def busybox(architecture: str) -> Path:
    """A static one: libraries are not there yet when it runs. May raise UnavailableError."""
    if architecture != HERE:
        return root_of(architecture) / "bin" / "busybox"
    for name in BUSYBOX:
        found = shutil.which(name)
        if found and "NEEDED" not in run("readelf", "-d", found):
            return Path(found)
    raise UnavailableError("no static busybox: install the package busybox-static")


def _recipe() -> str:
    """Changes whenever what is made does."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest() + " " + " ".join(_packages())


def _packages() -> list[str]:
    """As the tests have them here."""
    return [f"{name}=={version(name)}" for name in PACKAGES]


def _make(architecture: str, scratch: Path) -> Path:
    """Unpacked, not installed: no program of that architecture runs here."""
    apt = open_apt(SUITE, architecture, scratch)
    apt.get("install", "--download-only", "--yes", "--no-install-recommends", *PROGRAMS, *LIBRARIES)
    tree = scratch / "tree"
    for deb in sorted((scratch / "archives").glob("*.deb")):
        run("dpkg-deb", "-x", deb, tree)
    wheels = [f"--platform=manylinux_{glibc}_{MACHINES[architecture]}" for glibc in ("2_28", "2_17")]
    python = [f"--python-version={PYTHON}", "--implementation=cp", "--only-binary=:all:"]
    target = f"--target={tree / PACKAGES_AT}"
    run(sys.executable, "-m", "pip", "install", "--quiet", *wheels, *python, target, *_packages())
    (tree / "recipe").write_text(_recipe())
    return tree
