#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives one node a small disk of its own: a sparse file, a loop device with direct I/O, ext4.

Block I/O of several nodes on one machine can then be told apart by device. Where that is not possible (no
root, a container without loop devices) a plain folder takes the disk's place and the answer says why.
One JSON object on standard output: changed, own_disk, device, reason. With ``--check`` nothing is changed: it says what
is there or, of a disk that is still to be made, that it would have one. Standard library only.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

# Everything is initialised now: the kernel's lazy initialisation would write in the middle of a measurement.
# Few inodes, because databases keep few and large files, and inode tables are written too.
MKFS = ["mkfs.ext4", "-q", "-F", "-m", "0", "-i", "65536", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
# Access times would add writes that no database asked for.
MOUNT_OPTIONS = "noatime"


class DiskError(Exception):
    """A step failed; the message is the tool's."""


def run(*command: str) -> str:
    """A tool's standard output; administrators' folders may be missing in a user's PATH."""
    environment = os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise DiskError(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        # The cause stands first; hints and kernel log pointers follow.
        raise DiskError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[0])
    return done.stdout.strip()


def mounted_device(mount: Path) -> str | None:
    """The device mounted at exactly this folder (the newest one), or None."""
    device = None
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4].replace("\\040", " ") == str(mount):
            device = right.split()[1]
    return device


def loop_devices(image: Path) -> list[str]:
    """The loop devices on this file, also when the file has been deleted meanwhile."""
    found = []
    for backing in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        try:
            file = backing.read_text(encoding="utf-8").strip()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                continue  # somebody else's device, detached while we were looking
            raise
        if file.removesuffix(" (deleted)") == str(image):
            found.append(f"/dev/{backing.parts[3]}")
    return found


def make_image(image: Path, size_mb: int) -> None:
    """The file system is made in the file, which appears under its name only when it is complete."""
    unfinished = image.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("wb") as file:
        file.truncate(size_mb * 1024 * 1024)
    run(*MKFS, str(unfinished))
    unfinished.replace(image)


def attach(image: Path, mount: Path) -> str:
    """Device and mount; nothing stays attached when one of the steps fails."""
    devices = loop_devices(image)
    device = devices[0] if devices else run("losetup", "--find", "--show", "--direct-io=on", str(image))
    try:
        if Path(f"/sys/block/{Path(device).name}/loop/dio").read_text(encoding="ascii").strip() != "1":
            raise DiskError("direct I/O is not possible on the file system below")
        run("mount", "-t", "ext4", "-o", MOUNT_OPTIONS, device, str(mount))
    except (DiskError, OSError) as error:
        run("losetup", "--detach", device)
        raise DiskError(str(error)) from error
    return device


def make(image: Path, mount: Path, size_mb: int, *, check: bool = False) -> dict[str, object]:
    """The node's disk, or a plain folder with the reason why."""
    device = mounted_device(mount)
    if device:
        return {"changed": False, "own_disk": True, "device": device, "reason": ""}
    existed = mount.is_dir()
    if not check:
        mount.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return plain(existed, "no root: a loop device cannot be set up")
    if mount.is_dir() and any(mount.iterdir()):
        return plain(existed, "the folder was in use before it could become a disk")
    if check:
        return {"changed": True, "own_disk": True, "device": "", "reason": ""}
    deployed = image.exists()
    try:
        if not deployed:
            make_image(image, size_mb)
        device = attach(image, mount)
    except (DiskError, OSError) as error:
        if deployed:
            # It holds the database's data: it must not go, and an empty folder must not take its place.
            raise
        image.unlink(missing_ok=True)
        image.with_suffix(".new").unlink(missing_ok=True)
        return plain(existed, f"no disk of its own: {error}")
    return {"changed": True, "own_disk": True, "device": device, "reason": ""}


def use(folder: Path, *, check: bool = False) -> dict[str, object]:
    """A given folder: its disk is the node's own for the database when the system is on another one."""
    existed = folder.is_dir()
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
    number = next(path for path in (folder, *folder.parents) if path.exists()).stat().st_dev
    name = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    if number == Path("/").stat().st_dev:
        return plain(existed, f"{folder} is on the disk of the system")
    if not Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").exists():
        return plain(existed, f"{folder} is on no block device")
    return {"changed": not existed, "own_disk": True, "device": f"/dev/{name}", "reason": ""}


def plain(existed: bool, reason: str) -> dict[str, object]:
    return {"changed": not existed, "own_disk": False, "device": "", "reason": reason}


def remove(image: Path, mount: Path) -> dict[str, object]:
    """Undoes ``make`` from whatever state; the folder itself and its content are left to the caller."""
    changed = False
    deadline = time.monotonic() + 10
    while mounted_device(mount):
        changed = True
        try:
            run("umount", str(mount))
        except DiskError:
            # A process that has just been killed may still be giving back its files.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    for device in loop_devices(image):
        changed = True
        run("losetup", "--detach", device)
    return {"changed": changed, "own_disk": False, "device": "", "reason": ""}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="own-disk", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["make", "use", "remove"])
    parser.add_argument("--image", type=Path, default=Path("/nonexistent"))
    parser.add_argument("--mount", type=Path, required=True)
    parser.add_argument("--size-mb", type=int, default=4096)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if options.check and options.verb == "remove":
        parser.error("remove cannot be tried with --check")
    image, mount = options.image.resolve(), options.mount.resolve()
    try:
        if options.verb == "use":
            answer = use(mount, check=options.check)
        elif options.verb == "make":
            answer = make(image, mount, options.size_mb, check=options.check)
        else:
            answer = remove(image, mount)
    except (DiskError, OSError) as error:
        print(f"{options.mount}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
