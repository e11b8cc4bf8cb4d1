"""What a guest looks like from both sides."""

from __future__ import annotations

# Driver -> the name of its disk in the guest; guest.py attaches one of each.
DISKS = {"nvme": "nvme0n1", "virtio": "vda", "scsi": "sda"}

# To the tests in a guest: those that would begin later, in seconds since its start, are skipped, with this reason.
TESTS_UNTIL = "STRATA_TESTS_UNTIL_S"
LEFT_OUT = "no time is left for it"
