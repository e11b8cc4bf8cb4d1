"""What validation has to say about a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """`error`: the data cannot be trusted; `warning`: it can, within what is said here; `info`: good to know.

    `where` is a node, a client phase or a file of the run; `what` is one sentence with the numbers.
    """

    severity: Severity
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
