#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Grafana: takes its command line and its settings, and tells over HTTP what they provision it with."""

import argparse
import configparser
import http.server
import json
import re
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("verb", choices=["server"])
parser.add_argument("--homepath", type=Path, required=True)
parser.add_argument("--config", type=Path, required=True)
options = parser.parse_args()
settings = configparser.ConfigParser()
settings.read_string(options.config.read_text(encoding="utf-8"))
Path(settings["paths"]["data"]).mkdir(parents=True, exist_ok=True)
provisioning = Path(settings["paths"]["provisioning"])


def named(folder: str, key: str) -> list[str]:
    """The values of a key in the provisioning files of a folder; they are written as JSON, which YAML contains."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((provisioning / folder).glob("*.yml"))]
    return [json.loads(value) for text in texts for value in re.findall(rf'\b{key}: ("(?:[^"\\]|\\.)*")', text)]


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        boards = [board for folder in named("dashboards", "path") for board in sorted(Path(folder).glob("*.json"))]
        said = {
            "stand_in": True,
            "datasources": named("datasources", "url"),
            "dashboards": [json.loads(board.read_text(encoding="utf-8"))["title"] for board in boards],
        }
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())


address = (settings["server"]["http_addr"], settings.getint("server", "http_port"))
http.server.ThreadingHTTPServer(address, Answer).serve_forever()
