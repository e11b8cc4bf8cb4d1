"""What the tracer must make of each kernel and disk. The one place to change when it learns a mode."""

from __future__ import annotations

from tracer.guests.variants import VARIANTS


def has_core(variant: str) -> bool:
    """The backend that sees what needs more than the tracepoints."""
    return VARIANTS[variant].backend == "core"


def mode(variant: str, disk: str) -> str:
    """The best honest mode; docs/tracer.md says what each mode sees."""
    if disk == "vda":  # arm64 has no trampolines for BPF before 6.4
        return "fentry" if has_core(variant) and variant != "6.1-arm64" else "kprobe"
    return {"nvme0n1": "nvme", "sda": "scsi"}[disk]


# Layers that a mode must show for every read and write of data. A write that waits for a flush of the device comes to
# the driver only after that, so its driver layer is not told from the flush: such rows are of mode `block`.
ALWAYS = ("block_ns", "device_ns")
UNLESS_IT_WAITS_FOR_A_FLUSH = ("driver_ns",)

# The kernel leaves out programs at kprobes that interrupt one another (docs/tracer.md), more where they are emulated:
# up to this share of the requests is then split as in mode `block`.
MISSED_BY_KPROBES = 0.2

# Workloads of one system call a request, whose VFS layer must be there too, and with core the way back (--vfs).
TIMED_BY_SYSCALL = ("synchronous",)
# Those whose requests of io_uring are the calls; with core `vfs_ns` must be there.
TIMED_BY_RING = ("io_uring",)
