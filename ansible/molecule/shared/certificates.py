# SPDX-License-Identifier: Apache-2.0
"""certificates.py FOLDER '{"NODE": "ADDRESS", ...}': an authority with the controller's and the nodes' certificates."""

import json
import sys
from pathlib import Path

from controller.pki import ensure_pki

ensure_pki(Path(sys.argv[1]), json.loads(sys.argv[2]))
