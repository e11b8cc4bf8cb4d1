"""One guest: a kernel in QEMU with two NVMe, a virtio-blk and a virtio-scsi disk, and files, read-only.

The files are this machine's, or those of another architecture; there /project, which the job mounts, is this project.
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
from tracer.guests.roots import HERE, MACHINES

REPOSITORY = Path(__file__).resolve().parents[2]
CPUS = 2
MEMORY_MB = 3072
DISK_BYTES = 512 << 20  # mkfs.xfs refuses less than 300 MB
KVM_PROBE_S = 10
KVM_ERROR = b"KVM internal error"
# One thread for all CPUs of the guest: with one each, a CPU may run code that another one has just patched, and the
# kernel dies ("Oops: int3") where probes are attached under load. It is also faster for such guests.
TCG = "tcg,thread=single"


@dataclass(frozen=True)
class Emulator:
    """How QEMU makes a machine of one architecture; `kernel`: what its kernel is told besides."""

    program: str
    package: str
    machine: tuple[str, ...]
    kernel: str


EMULATORS = {
    # no_timer_check: where the host has too much to do, an emulated timer is late, and the kernel would panic for it.
    "amd64": Emulator(
        "qemu-system-x86_64", "qemu-system-x86", ("-M", "q35", "-cpu", "max"), "console=ttyS0 no_timer_check"
    ),
    # QEMU's documentation (Arm CPU features): the architecture's own way to sign pointers is slow to emulate.
    "arm64": Emulator(
        "qemu-system-aarch64",
        "qemu-system-arm",
        ("-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
        "console=ttyAMA0",
    ),
}


@dataclass(frozen=True)
class Limits:
    """A guest that needs more is ended. CPU time is what counts on a busy machine, the clock when nothing moves."""

    cpu_s: float
    wall_s: float


class GuestError(Exception):
    """The guest did not do what it was told; the text says where its console log is and how it ends."""


def _arguments(bootable: Bootable, accelerator: str, console: Path, append: str = "") -> list[str]:
    emulator = EMULATORS[bootable.architecture]
    kernel = f"{emulator.kernel} loglevel=3 panic=-1 mitigations=off lockdown=none {append}".strip()
    machine = [*emulator.machine, "-accel", accelerator, "-smp", str(CPUS), "-m", str(MEMORY_MB)]
    quiet = ["-display", "none", "-monitor", "none", "-net", "none", "-no-reboot", "-serial", f"file:{console}"]
    boot = ["-kernel", str(bootable.vmlinuz), "-initrd", str(bootable.initramfs), "-append", kernel]
    # The guest ends with whoever started it, however that ends.
    return ["setpriv", "--pdeathsig", "KILL", emulator.program, *machine, *quiet, *boot]


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


def _shares(bootable: Bootable, out: Path) -> list[str]:
    read_only = "security_model=none,readonly=on,multidevs=remap"
    shares = [f"path={bootable.root},mount_tag=root,{read_only}", f"path={out},mount_tag=out,security_model=none"]
    if bootable.architecture != HERE:
        shares.append(f"path={REPOSITORY},mount_tag=project,{read_only}")
    return [word for share in shares for word in ("-virtfs", f"local,{share}")]


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


def check(*architectures: str) -> None:
    """Raises UnavailableError when no guests of these architectures can be had here."""
    if platform.machine() != MACHINES[HERE]:
        raise UnavailableError(f"guests need a machine with {MACHINES[HERE]}, this one has {platform.machine()}")
    for emulator in (EMULATORS[name] for name in architectures):
        if not shutil.which(emulator.program):
            raise UnavailableError(f"{emulator.program} is not installed: install the package {emulator.package}")


def choose_accelerator(bootable: Bootable) -> str:
    """KVM where a guest comes up under it within some seconds (that /dev/kvm opens says little), else emulation."""
    if bootable.architecture != HERE:
        return TCG
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
        command = [*_arguments(bootable, accelerator, console), *_disks(Path(images)), *_shares(bootable, out)]
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
