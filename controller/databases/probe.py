"""One row written, read and deleted, by the client's own admin program: the database answers those who will ask it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from controller.errors import DeployError

ADMIN_PROGRAM = Path(__file__).resolve().parents[2] / "ycsb-fork" / "bin" / "ycsb-admin"


def probe(
    name: str,
    binding: str,
    settings: Mapping[str, str],
    timeout_s: float,
    *,
    admin: Path = ADMIN_PROGRAM,
    node: str | None = None,
) -> None:
    """DeployError when the database (``name``, for people) refuses, or does not answer within ``timeout_s``.

    ``settings``: a client's properties, as they hold on this machine; ``node``: who is meant by a failure."""
    with tempfile.TemporaryDirectory(prefix="strata-probe-") as folder:
        properties = Path(folder) / "properties"
        # Not in the arguments, which everybody on the machine can read: a token may be among them. The folder is ours.
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        command = [str(admin), binding, "probe", "-P", str(properties)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        except OSError as error:
            what = f"the client cannot be started ({admin}: {error.strerror})"
            raise DeployError(what, hint="build it first: make setup") from error
        except subprocess.TimeoutExpired as error:
            what = f"{name} answers no put and get within {timeout_s:.0f} s"
            raise DeployError(what, node=node) from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise DeployError(f"{name} refuses a put and get: {said}", node=node)
