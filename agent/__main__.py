"""``python -m agent --config agent.json``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from agent.config import AgentConfigError, load_config
from agent.server import serve


def main() -> int:
    """Exit codes: 0 stopped in order, 2 configuration, 3 cannot listen."""
    parser = argparse.ArgumentParser(prog="agent", description="stratabench agent of one node")
    parser.add_argument("--config", type=Path, required=True, help="agent.json, written by deployment")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(serve(load_config(arguments.config)))
    except AgentConfigError as error:
        print(f"agent: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"agent: {error}", file=sys.stderr)
        return 3
    return 0


sys.exit(main())
