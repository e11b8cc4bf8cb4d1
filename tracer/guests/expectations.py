"""What the tracer must make of each kernel and disk. The one place to change when it learns a mode."""

from __future__ import annotations

# The best honest mode on (kernel series, disk); docs/tracer.md says what each mode sees.
MODES = {
    ("6.1", "nvme0n1"): "block",
    ("6.1", "vda"): "block",
    ("6.1", "sda"): "block",
    ("6.12", "nvme0n1"): "block",
    ("6.12", "vda"): "block",
    ("6.12", "sda"): "block",
}

# Layers that a mode must show for every read and write that was issued to the device.
LAYERS = {
    "block": ("block_ns", "device_ns"),
}

# Workloads of one system call a request, whose VFS layer must be there too.
TIMED_BY_SYSCALL = ("synchronous",)
