"""Debian packages for the guests: fetched by apt, checked against its index.

Nothing of the machine's own apt is changed: lists and downloads live in folders of our own. The archive that the
machine already uses is asked, also for backports and for other architectures.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from tracer.guests.command import UnavailableError, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Apt:
    """apt with one source and folders of its own, so that it needs no rights and leaves no traces.

    `architecture`: Debian's name of one; empty: this machine's.
    """

    def __init__(self, folder: Path, sources: Path, architecture: str = "") -> None:
        self.folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        self.options = [
            *(
                [f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures::={architecture}"]
                if architecture
                else []
            ),
            f"-oDir::State::status={folder}/status",  # nothing is installed
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

    def packages(self) -> list[str]:
        """The names of all packages."""
        return run("apt-cache", *self.options, "pkgnames").split()


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


def open_apt(suite: str, architecture: str, folder: Path) -> Apt:
    """apt with fresh lists of the suite and of nothing else."""
    sources = folder / "sources"
    sources.mkdir()
    signed_by = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    (sources / "debian.sources").write_text(
        f"Types: deb\nURIs: {_debian_uri(folder)}\nSuites: {suite}\nComponents: main\n{signed_by}"
    )
    apt = Apt(folder, sources, architecture)
    apt.get("update")
    return apt


def download(apt: Apt, package: str) -> Path:
    """The package, checked by apt and, once written, by us."""
    apt.get("download", package)
    (deb,) = apt.folder.glob(f"{package}_*.deb")
    if sha256(deb) != apt.field(package, "SHA256"):
        raise UnavailableError(f"{deb.name}: its checksum is not the one of the archive's index")
    return deb


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
