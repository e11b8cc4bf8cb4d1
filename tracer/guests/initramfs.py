"""The guest's first root: busybox, the kernel modules of disks, file systems and one slow network, and `init`."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from pathlib import Path

from tracer.guests.command import run

INIT = Path(__file__).with_name("init")
MODULES = (
    *("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "nvme"),
    *("9pnet_virtio", "9p", "overlay", "ext4", "xfs", "loop"),
    *(
        "dm_mod",
        "dm_crypt",
        "crypto_null",
        "ecb",
        "raid0",
        "raid1",
        "raid10",
        "raid456",
        "dm_multipath",
        "dm_round_robin",
        "dm_snapshot",
        "dm_cache_smq",
        "dm_writecache",
        "dm_thin_pool",
        "btrfs",
    ),
    "sch_tbf",
    *("vfat", "nls_cp437", "nls_ascii"),
    *("nvmet", "nvmet_tcp", "nvme_tcp", "configfs"),
)
# ext4 and XFS ask for it by its algorithm, so it is nobody's dependency; 6.18 has it built in.
NOT_EVERYWHERE = ("crc32c_generic",)


def recipe() -> str:
    """Changes whenever what this module makes does."""
    parts = (Path(__file__).read_bytes(), INIT.read_bytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def write(target: Path, tree: Path, release: str, busybox: Path) -> None:
    """Writes the initramfs for the kernel unpacked in `tree`, with a static busybox."""
    archive = bytearray()
    for folder in ("dev", "proc", "sys", "lower", "upper", "root", "bin", "modules"):
        archive += _entry(folder, 0o040755)
    archive += _entry("dev/console", 0o020600, device=(5, 1))
    archive += _entry("bin/busybox", 0o100755, busybox.read_bytes())
    archive += _entry("init", 0o100755, INIT.read_bytes())
    for number, module in enumerate(_modules(tree, release)):
        content = module.read_bytes()
        if module.suffix == ".xz":
            content = lzma.decompress(content)
        archive += _entry(f"modules/{number:03d}-{module.name.removesuffix('.xz')}", 0o100644, content)
    archive += _entry("TRAILER!!!", 0)
    target.write_bytes(archive)


def _modules(tree: Path, release: str) -> Iterator[Path]:
    """The files to load, each after those that it needs. A module that the kernel has built in has no file."""
    seen = set()
    there = {path.name.partition(".")[0] for path in (tree / "lib/modules" / release).rglob("*.ko*")}
    for name in (*MODULES, *there.intersection(NOT_EVERYWHERE)):
        for line in run("modprobe", "-d", tree, "-S", release, "--show-depends", name).splitlines():
            kind, _, path = line.partition(" ")
            path = path.split()[0]
            if kind == "insmod" and path not in seen:
                seen.add(path)
                yield Path(path)


def _entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """One member of a cpio archive in the "newc" format (kernel: buffer-format.rst)."""
    encoded = name.encode() + b"\0"
    inode = int.from_bytes(hashlib.sha256(encoded).digest()[:4], "big")
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + encoded) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
