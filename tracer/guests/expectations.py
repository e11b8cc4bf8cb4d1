"""What the tracer must make of each kernel and disk. The one place to change when it learns a mode."""

from __future__ import annotations

# The best honest mode on (variant, disk); docs/tracer.md says what each mode sees.
MODES = {
    ("6.1", "nvme0n1"): "nvme",
    ("6.1", "vda"): "fentry",
    ("6.1", "sda"): "scsi",
    ("6.12", "nvme0n1"): "nvme",
    ("6.12", "vda"): "fentry",
    ("6.12", "sda"): "scsi",
    ("6.1-bcc", "nvme0n1"): "nvme",
    ("6.1-bcc", "vda"): "kprobe",
    ("6.1-bcc", "sda"): "scsi",
    ("5.10-bcc", "nvme0n1"): "nvme",
    ("5.10-bcc", "vda"): "kprobe",
    ("5.10-bcc", "sda"): "scsi",
    ("6.1-arm64", "nvme0n1"): "nvme",
    ("6.1-arm64", "vda"): "kprobe",
    ("6.1-arm64", "sda"): "scsi",
    ("6.12-arm64", "nvme0n1"): "nvme",
    ("6.12-arm64", "vda"): "fentry",
    ("6.12-arm64", "sda"): "scsi",
}

# Layers that a mode must show for every read and write of data. A write that waits for a flush of the device comes to
# the driver only after that, so its driver layer is not told from the flush: such rows are of mode `block`.
ALWAYS = ("block_ns", "device_ns")
UNLESS_IT_WAITS_FOR_A_FLUSH = ("driver_ns",)

# The kernel leaves out programs at kprobes that interrupt one another (docs/tracer.md), more where they are emulated:
# up to this share of the requests is then split as in mode `block`.
MISSED_BY_KPROBES = 0.2

# Workloads of one system call a request, whose VFS layer must be there too, and the way back with --vfs.
TIMED_BY_SYSCALL = ("synchronous",)
WITH_RETURNS = ("6.1", "6.12", "6.1-arm64", "6.12-arm64")
# Those whose requests of io_uring are the calls; there `vfs_ns` must be there.
TIMED_BY_RING = ("io_uring",)
WITH_RINGS = WITH_RETURNS
