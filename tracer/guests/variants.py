"""The machines of the matrix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A kernel and one of the tracer's backends."""

    name: str
    kernel: str  # of KERNELS
    backend: str
    backwards: bool = False  # when time is short, two kernels with one backend leave out different tests


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("6.1", "6.1", "core"),
        Variant("6.12", "6.12", "core", backwards=True),
        Variant("6.1-bcc", "6.1", "bcc"),
        # Not in DEFAULT: their kernels do not stay in the archive.
        Variant("6.18", "6.18", "core"),
        Variant("newest", "newest", "core"),
        # Tracepoints and structures as they were before 5.11. Not in DEFAULT: an old suite may leave the archive.
        Variant("5.10-bcc", "5.10", "bcc"),
        # Not in DEFAULT: they need a compiler and an emulator of their own, and 600 MB of disk.
        Variant("6.1-arm64", "6.1-arm64", "core"),
        Variant("6.12-arm64", "6.12-arm64", "core"),
    )
}
DEFAULT = ("6.1", "6.12", "6.1-bcc")
