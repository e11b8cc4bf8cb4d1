"""The built tracer, where it can trace."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tracer.bench.tools import TRACER


@pytest.fixture(scope="session")
def tracer() -> Path:
    if not TRACER.exists():
        pytest.skip("the tracer is not built: make -C tracer")
    check = json.loads(subprocess.run([str(TRACER), "--check"], check=False, capture_output=True, text=True).stdout)
    if not check["can_trace"]:
        pytest.skip(f"cannot trace here: {check['reason']}")
    return TRACER
