"""What an agent tells about its node."""

from __future__ import annotations

from pathlib import Path

from agent.facts import request_queue


def test_a_partition_has_the_request_queue_of_its_disk(tmp_path: Path) -> None:
    """Laid out as the kernel does (Documentation/ABI/stable/sysfs-block)."""
    disk = tmp_path / "devices" / "sda"
    (disk / "queue").mkdir(parents=True)
    (disk / "sda1").mkdir()
    (disk / "sda1" / "partition").write_text("1\n")
    numbers = tmp_path / "dev" / "block"
    numbers.mkdir(parents=True)
    for number, device in (("8:0", disk), ("8:1", disk / "sda1")):
        (numbers / number).symlink_to(device)
        assert request_queue(numbers / number) == disk / "queue"
