# SPDX-License-Identifier: Apache-2.0
"""The root file system that all hosts share, and the tools that start them.

Tools come as Debian packages that are unpacked and not installed: the machine's own /usr stays as it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from testbed.layout import State
from testbed.system import PATH, TestbedError, run

SUITE = os.environ.get("STRATA_TESTBED_SUITE", "bookworm")
TOOL_PACKAGES = [
    "systemd-container",
    "libsystemd-shared",
    "libsystemd0",
    "libseccomp2",
    "mmdebstrap",
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libjansson4",
    "libxtables12",
    "libnfnetlink0",
    "libip4tc2",
]
BASE_PACKAGES = [
    "systemd",
    "systemd-sysv",
    "dbus",
    "libpam-systemd",
    "openssh-server",
    "sudo",
    "python3",
    "python3-apt",
    "ca-certificates",
    "iproute2",
    "iputils-ping",
    "netbase",
    "procps",
    "openjdk-17-jre-headless",
]
# Timers that would work in the middle of a measurement, and services whose job the test bed does. A host that runs
# an NTP service would set the clock of the whole machine (its capability is dropped as well, see host.py).
MASKED = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "console-getty.service",
    "systemd-networkd.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
]
# The suite's files are older than this machine's clock allows, where a mirror is frozen.
APT_OPTIONS = ['Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"']


def tool_environment(state: State) -> dict[str, str]:
    """What the unpacked tools need to find each other."""
    usr = state.tools / "usr"
    libraries = [*usr.glob("lib/*-linux-gnu"), *usr.glob("lib/*-linux-gnu/systemd"), usr / "lib"]
    return {
        "PATH": f"{usr}/bin:{usr}/sbin:{PATH}",
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
    }


def run_tool(state: State, name: str, *arguments: object, stdin: str = "") -> str:
    """One of the unpacked tools, by its name."""
    environment = tool_environment(state)
    program = shutil.which(name, path=environment["PATH"])
    if program is None:
        raise TestbedError(f"{name} is missing in {state.tools}: remove that folder and try again")
    return run(program, *arguments, stdin=stdin, environment=environment)


def sources() -> Path:
    """The machine's own list of Debian's packages; ``STRATA_TESTBED_SOURCES`` names another one."""
    given = os.environ.get("STRATA_TESTBED_SOURCES")
    candidates = [Path(given)] if given else []
    candidates += [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    for path in candidates:
        if path.is_file() and path.stat().st_size:
            return path
    raise TestbedError(f"no package sources at {candidates[0]}: name a file in STRATA_TESTBED_SOURCES")


def build(state: State) -> bool:
    """Makes tools, key and base root where they are missing or of another recipe; True when something was made."""
    stamp = state.base / "etc" / "strata-testbed"
    recipe = hashlib.sha256(" ".join([SUITE, *TOOL_PACKAGES, *BASE_PACKAGES, *MASKED]).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="ascii") == recipe:
        return False
    state.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (state.tools / "usr/bin/systemd-nspawn").exists():
        unpack_tools(state)
    if not state.key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "stratabench test bed", "-f", state.key)
    shutil.rmtree(state.base, ignore_errors=True)
    run_tool(
        state,
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        *(f"--aptopt={option}" for option in APT_OPTIONS),
        # The package lists stay, so that hosts can install without asking for them first.
        "--skip=cleanup/apt/lists",
        f"--include={','.join(BASE_PACKAGES)}",
        SUITE,
        state.base,
        sources(),
    )
    settle(state)
    stamp.write_text(recipe, encoding="ascii")
    return True


def unpack_tools(state: State) -> None:
    packages = state.folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir(parents=True)
    try:
        download(packages)
        for package in packages.glob("*.deb"):
            run("dpkg", "-x", package, state.tools)
    finally:
        shutil.rmtree(packages, ignore_errors=True)


def download(folder: Path) -> None:
    """apt-get saves into the folder that it works in."""
    script = 'cd "$1" && shift && apt-get -qq -o APT::Sandbox::User=root download "$@"'
    command = ("sh", "-c", script, "sh", folder, *TOOL_PACKAGES)
    try:
        run(*command)
    except TestbedError:
        run("apt-get", "-qq", "update")
        run(*command)


def settle(state: State) -> None:
    """What a host must not inherit: identity and ssh keys; what it must: our key, the machine's certificates."""
    base = state.base
    run("chroot", base, "systemctl", "-q", "mask", *MASKED)
    for key in (base / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (base / "etc/machine-id").write_text("", encoding="ascii")
    ssh = base / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    (ssh / "authorized_keys").write_text(state.key.with_suffix(".pub").read_text(encoding="ascii"), encoding="ascii")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.is_file():
        shutil.copyfile(certificates, base / "etc/ssl/certs/ca-certificates.crt")
    options = "".join(f"{option};\n" for option in APT_OPTIONS)
    (base / "etc/apt/apt.conf.d/99strata-testbed").write_text(options, encoding="ascii")


def mirror_names(text: str) -> list[str]:
    """The machines that a list of package sources names, each once."""
    names = []
    for word in text.split():
        scheme, separator, rest = word.partition("://")
        if separator and scheme in ("http", "https") and "#" not in word:
            names.append(rest.partition("/")[0].partition(":")[0])
    return list(dict.fromkeys(names))


def environment_of_shell(state: State) -> Mapping[str, str]:
    """The environment in which systemd-nspawn is started."""
    # Its own hierarchy of control groups, and /proc/sys/net writable: what systemd in a host asks for.
    nspawn = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
    return {"LC_ALL": "C"} | tool_environment(state) | nspawn
