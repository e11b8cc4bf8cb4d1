# SPDX-License-Identifier: Apache-2.0
"""The benchmark is a folder of scripts, not a package: its tests import what lies beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
