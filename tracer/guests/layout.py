"""What a guest looks like from both sides."""

from __future__ import annotations

# Driver -> the name of its disk in the guest; guest.py attaches one of each.
DISKS = {"nvme": "nvme0n1", "virtio": "vda", "scsi": "sda"}
