# SPDX-License-Identifier: Apache-2.0
"""The test bed is no part of the installed packages: tests find it by its folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
