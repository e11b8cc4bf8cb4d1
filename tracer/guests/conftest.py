"""The guests run once for all tests here."""

from __future__ import annotations

import pytest

from tracer.guests.command import UnavailableError
from tracer.guests.matrix import GuestResult, run_guests


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GuestResult]:
    """Variant -> what its guest wrote down; skips when this machine can run none."""
    try:
        results = run_guests(tmp_path_factory.mktemp("guests"))
    except UnavailableError as reason:
        pytest.skip(f"no guests: {reason}")
    return {result.variant: result for result in results}
