# SPDX-License-Identifier: Apache-2.0
"""One host from nothing to a login, and back: overlay root, disk, cable, systemd as its PID 1."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from testbed.base import environment_of_shell
from testbed.layout import GATEWAY, NAME, Host, State, all_hosts, hosts_up
from testbed.network import cable_down, cable_up
from testbed.system import TestbedError, attempt, await_true, run

# "Halt in order", as systemd's PID 1 understands it (systemd(1), SIGRTMIN+3).
HALT = signal.SIGRTMIN + 3
START_S = 30.0
STOP_S = 30.0
# systemd-nspawn ends with this code when the host asks for a reboot and nobody registers it (systemd-nspawn(1)).
REBOOT = 133
NSPAWN_RUNTIME = (Path("/run/systemd/nspawn"), Path("/run/systemd/machines"))
# `ip netns add` mounts this folder onto itself where nobody has yet, and leaves it so (ip-netns(8)).
NAMESPACES = Path("/run/netns")


def control_groups() -> list[Path]:
    """Hierarchies that a host must have a group of its own in: the unified one and systemd's, where there are both."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in (root / "unified", root / "systemd") if path.is_dir()]


def unified_group(host: Host) -> Path:
    return control_groups()[0] / NAME / host.name


def leader(host: Host) -> int | None:
    """The host's PID 1 as this machine numbers it."""
    members = unified_group(host) / "payload" / "init.scope" / "cgroup.procs"
    try:
        return int(members.read_text(encoding="ascii").split()[0])
    except (OSError, IndexError):
        return None


def note_runtime(state: State) -> None:
    """Remembers what systemd-nspawn and ip will make in /run and leave there."""
    missing = [str(folder) for folder in (*NSPAWN_RUNTIME, NAMESPACES) if not folder.exists()]
    (state.run / "runtime").write_text("\n".join(missing), encoding="ascii")
    if not _has_namespaces_mounted():
        (state.run / "mounts").write_text(str(NAMESPACES), encoding="ascii")


def remove_runtime(state: State) -> None:
    if (state.run / "mounts").is_file() and _has_namespaces_mounted() and not any(NAMESPACES.iterdir()):
        attempt("umount", NAMESPACES)
    note = state.run / "runtime"
    for folder in note.read_text(encoding="ascii").split() if note.is_file() else ():
        if folder != str(NAMESPACES):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):  # others' namespaces have come meanwhile
                NAMESPACES.rmdir()


def _has_namespaces_mounted() -> bool:
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return str(NAMESPACES) in (line.split()[1] for line in mounts)


def make(host: Host, state: State, disk_mb: int) -> None:
    folder, root, data = host.folder(state), host.root(state), host.data(state)
    for path in (folder / "upper", folder / "work", root, data):
        path.mkdir(parents=True)
    layers = f"lowerdir={state.base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    run("mount", "-t", "overlay", "-o", layers, f"{NAME}-{host.name}", root)
    (root / "etc/hostname").write_text(f"{host.name}\n", encoding="ascii")
    names = "".join(f"{other.address} {other.name}\n" for other in all_hosts())
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{GATEWAY} controller\n{names}", encoding="ascii")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", root / "etc/ssh/ssh_host_ed25519_key")
    make_disk(host, state, disk_mb)
    cable_up(host)


def make_disk(host: Host, state: State, disk_mb: int) -> None:
    """ext4 on a loop device with direct I/O: what the host writes there is counted for its device only."""
    image = host.folder(state) / "disk.img"
    with image.open("wb") as file:
        file.truncate(disk_mb * 1024 * 1024)
    # Nothing is initialised later, in the middle of a measurement; and few inodes, because databases keep few files.
    options = ("-i", "65536", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-L", host.name)
    run("mkfs.ext4", "-q", "-F", "-m", "0", *options, image)
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    (host.folder(state) / "loop").write_text(device, encoding="ascii")
    run("mount", "-o", "noatime", device, host.data(state))


def start(host: Host, state: State) -> None:
    """Boots it; returns when its PID 1 runs."""
    if leader(host):
        return
    run("ip", "link", "set", host.link, "up")
    groups = [group / NAME / host.name for group in control_groups()]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
    folder = host.folder(state)
    nspawn = [
        str(state.tools / "usr/bin/systemd-nspawn"),
        "--quiet",
        "--boot",
        f"--directory={host.root(state)}",
        f"--machine={host.name}",
        "--register=no",
        "--keep-unit",
        f"--network-namespace-path=/run/netns/{host.namespace}",
        # Everything that a tracer needs, but never the clock: it is the whole machine's.
        "--capability=all",
        "--drop-capability=CAP_SYS_TIME",
        "--system-call-filter=bpf perf_event_open",
        f"--bind={host.data(state)}:/data",
        "--resolv-conf=copy-host",
        "--timezone=off",
        "--link-journal=no",
        f"--kill-signal={int(HALT)}",
    ]
    # The shell joins the control groups before it becomes the host's father, and boots again when asked to.
    joins = "; ".join(f"echo $$ > '{group}/cgroup.procs'" for group in groups)
    script = f'{joins}; while :; do "$@"; [ $? -eq {REBOOT} ] || exit; done'
    with (folder / "console.log").open("ab") as console:
        subprocess.Popen(
            ["sh", "-c", script, "sh", *nspawn],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            env=environment_of_shell(state),
        )
    try:
        await_true(f"{host.name} does not boot", lambda: command_of(leader(host)) == "systemd", START_S)
    except TestbedError as error:
        lines = (folder / "console.log").read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        raise TestbedError(f"{error}: {' / '.join(lines)}") from error


def command_of(pid: int | None) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def ssh_command(host: Host, state: State) -> list[str]:
    known = f"UserKnownHostsFile={state.known_hosts}"
    options = [option for value in (known, "BatchMode=yes", "ConnectTimeout=2") for option in ("-o", value)]
    return ["ssh", "-F", "none", "-i", str(state.key), *options, f"root@{host.address}"]


def await_login(host: Host, state: State) -> None:
    command = [*ssh_command(host, state), "true"]
    await_true(f"{host.name} does not answer by ssh", lambda: attempt(*command), START_S, poll_s=0.2)


def note_public_keys(state: State) -> None:
    """Makes the file of known hosts, of those that are up; in one step, for others may be logging in."""
    fresh = state.known_hosts.with_suffix(".new")
    fresh.write_text("".join(public_key(host, state) for host in hosts_up(state)), encoding="ascii")
    fresh.replace(state.known_hosts)


def public_key(host: Host, state: State) -> str:
    """Its line in the file of known hosts; empty for one that has been made by half."""
    path = host.root(state) / "etc/ssh/ssh_host_ed25519_key.pub"
    if not path.is_file():
        return ""
    return f"{host.name},{host.address} {' '.join(path.read_text(encoding='ascii').split()[:2])}\n"


def stop(host: Host) -> None:
    """In order, as a machine that is shut down."""
    pid = leader(host)
    if pid is None:
        return
    os.kill(pid, HALT)
    try:
        await_true(f"{host.name} does not halt", lambda: not processes(host), STOP_S)
    except TestbedError:
        crash(host)


def crash(host: Host) -> None:
    """A power cut as far as one kernel allows: cable out, all processes gone at once. Its page cache survives."""
    run("ip", "link", "set", host.link, "down")
    pid = leader(host)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await_true(f"{host.name} does not end", lambda: not processes(host), STOP_S)


def enter(host: Host) -> list[str]:
    """The words that run a command in a host, not through its network. TestbedError when it is off."""
    pid = leader(host)
    if pid is None:
        raise TestbedError(f"{host.name} is off: testbed start {host.name}")
    # Whoever enters from outside brings all rights along: that of setting the clock is left behind here too.
    return [
        "setpriv",
        "--bounding-set=-sys_time",
        "nsenter",
        f"--target={pid}",
        "--mount",
        "--uts",
        "--ipc",
        "--net",
        "--pid",
        "--cgroup",
        "--",
    ]


def processes(host: Host) -> list[int]:
    """Everything that lives in its control group, systemd-nspawn included."""
    found = []
    for folder, _, _ in os.walk(unified_group(host)):  # groups that go meanwhile are passed over
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text(encoding="ascii").split()]
    return found


def undo(host: Host, state: State) -> None:
    """Takes a host down from whatever state it is in."""
    stop(host)
    for pid in processes(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await_true(f"processes of {host.name} do not end", lambda: not processes(host), STOP_S)
    cable_down(host)
    unmount(host.data(state))
    if (host.folder(state) / "loop").is_file():
        attempt("losetup", "--detach", host.device(state))
    unmount(host.root(state))
    for group in control_groups():
        remove_groups(group / NAME / host.name)
    shutil.rmtree(host.folder(state))


def unmount(folder: Path) -> None:
    """The kernel gives mounts of a dead host's namespace back a moment later."""
    await_true(f"{folder} stays mounted", lambda: not folder.is_mount() or attempt("umount", folder), 10.0)


def remove_groups(group: Path) -> None:
    deadline = time.monotonic() + 5
    while group.is_dir() and time.monotonic() < deadline:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
