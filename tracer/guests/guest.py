"""One guest: a kernel in QEMU with two NVMe, a virtio-blk and a virtio-scsi disk, and this machine's files, read-only.

The guest runs one shell script and powers off. What it writes to /out is in the given folder afterwards.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tracer.guests.command import UnavailableError
from tracer.guests.kernels import Bootable

QEMU = "qemu-system-x86_64"
CPUS = 2
MEMORY_MB = 3072
DISK_BYTES = 512 << 20  # mkfs.xfs refuses less than 300 MB
KVM_PROBE_S = 10
KVM_ERROR = b"KVM internal error"
# One thread for all CPUs of the guest: with one each, a CPU may run code that another one has just patched, and the
# kernel dies ("Oops: int3") where probes are attached under load. It is also faster for such guests.
TCG = "tcg,thread=single"


@dataclass(frozen=True)
class Limits:
    """A guest that needs more is ended. CPU time is what counts on a busy machine, the clock when nothing moves."""

    cpu_s: float
    wall_s: float


class GuestError(Exception):
    """The guest did not do what it was told; the text says where its console log is and how it ends."""


def _arguments(bootable: Bootable, accelerator: str, console: Path, append: str = "") -> list[str]:
    # no_timer_check: where the host has too much to do, an emulated timer is late, and the kernel would panic for it.
    kernel = f"console=ttyS0 loglevel=3 panic=-1 mitigations=off lockdown=none no_timer_check {append}".strip()
    machine = ["-M", "q35", "-accel", accelerator, "-cpu", "max", "-smp", str(CPUS), "-m", str(MEMORY_MB)]
    quiet = ["-display", "none", "-monitor", "none", "-net", "none", "-no-reboot", "-serial", f"file:{console}"]
    boot = ["-kernel", str(bootable.vmlinuz), "-initrd", str(bootable.initramfs), "-append", kernel]
    # The guest ends with whoever started it, however that ends.
    return ["setpriv", "--pdeathsig", "KILL", QEMU, *machine, *quiet, *boot]


def _drive(name: str, image: Path) -> list[str]:
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    return ["-drive", f"id={name},file={image},format=raw,if=none,cache=unsafe,discard=unmap"]


def _disks(folder: Path) -> list[str]:
    return [
        *_drive("nvme", folder / "nvme.img"),
        *("-device", "nvme,drive=nvme,serial=strata"),
        *_drive("virtio", folder / "virtio.img"),
        *("-device", "virtio-blk-pci,drive=virtio"),
        *_drive("scsi", folder / "scsi.img"),
        *("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=scsi"),
        # One drive with two controllers, for multipath.
        *("-device", "nvme-subsys,id=dual"),
        *("-device", "nvme,id=left,serial=dual,subsys=dual", "-device", "nvme,id=right,serial=dual,subsys=dual"),
        *_drive("dual", folder / "dual.img"),
        *("-device", "nvme-ns,drive=dual,bus=left"),
    ]


def _shares(out: Path) -> list[str]:
    root = "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
    return ["-virtfs", root, "-virtfs", f"local,path={out},mount_tag=out,security_model=none"]


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _await(process: subprocess.Popen[bytes], limits: Limits) -> None:
    deadline = time.monotonic() + limits.wall_s
    while process.poll() is None:
        if _cpu_s(process.pid) > limits.cpu_s:
            raise TimeoutError(f"not done after {limits.cpu_s:.0f} s of CPU time")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {limits.wall_s:.0f} s")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def check() -> None:
    """Raises UnavailableError when no guest can be had here."""
    if platform.machine() != "x86_64":
        raise UnavailableError(f"the guests are x86_64, this machine is {platform.machine()}")
    if not shutil.which(QEMU):
        raise UnavailableError(f"{QEMU} is not installed: install the package qemu-system-x86")


def choose_accelerator(bootable: Bootable) -> str:
    """KVM where a guest comes up under it within some seconds (that /dev/kvm opens says little), else emulation."""
    try:
        with Path("/dev/kvm").open("r+b"):
            pass
    except OSError:
        return TCG
    with tempfile.TemporaryDirectory() as folder:
        console, log = Path(folder) / "console", Path(folder) / "log"
        with log.open("wb") as file:
            command = _arguments(bootable, "kvm", console, "guest.probe")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        deadline = time.monotonic() + KVM_PROBE_S
        while process.poll() is None and time.monotonic() < deadline and KVM_ERROR not in log.read_bytes():
            time.sleep(0.05)
        _end(process)
        came_up = process.returncode == 0 and b"guest: up" in console.read_bytes()
    return "kvm" if came_up else TCG


def run_guest(bootable: Bootable, accelerator: str, job: str, out: Path, limits: Limits) -> float:
    """Runs the shell script `job`; returns the seconds it took. The console log is `out`/console.

    Raises GuestError when the guest has not powered off within `limits`, or when the job has failed.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "job").write_text(job)
    (out / "exit").unlink(missing_ok=True)
    console = out / "console"
    console.write_text("")
    what = f"guest with kernel {bootable.release}"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strata-guest-") as images:
        command = [*_arguments(bootable, accelerator, console), *_disks(Path(images)), *_shares(out)]
        with (out / "qemu.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                _await(process, limits)
            except TimeoutError as error:
                raise GuestError(f"{what}: {error}\n{_end_of(console)}") from None
            finally:
                _end(process)
    if process.returncode != 0:
        raise GuestError(f"{what}: QEMU ended with {process.returncode}: {(out / 'qemu.log').read_text().strip()}")
    if not (out / "exit").exists():
        raise GuestError(f"{what}: went down before its job was done\n{_end_of(console)}")
    code = int((out / "exit").read_text())
    if code != 0:
        raise GuestError(f"{what}: the job ended with {code}\n{_end_of(console)}")
    return time.monotonic() - begin


def _end_of(console: Path) -> str:
    lines = console.read_text(errors="replace").splitlines()[-40:]
    return "\n".join([f"{console} ends with:", *(f"  {line}" for line in lines)])
