"""The run folder on disk: where every file stands, its events and its manifest.

Only this module knows paths. It never interprets measurements.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq

from controller.errors import ConfigError, DataError, RunError
from controller.results import shapes
from controller.results.schema import SCHEMA_VERSION
from controller.results.shapes import misfit

MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
#: Written after the manifest or changing while the run is read: they carry no checksum.
UNLISTED = frozenset({MANIFEST})
#: <experiment>/<run>, and <experiment>/<series>/servers-<n>/<run>.
_RUN_DEPTHS = (2, 4)


#: In the errors of what could not be written.
UNWRITTEN = ("no space left on device", "cannot write")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write into one clear error that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunError(f"no space left on device while writing {path}", hint="free some space") from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise RunError(f"cannot write {path}: {os.strerror(error.errno)}") from error
        raise


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` as a whole: a reader sees the old content or the new one, never a part."""
    write_together({path: text})


def write_together(texts: Mapping[Path, str]) -> None:
    """Replace each file as a whole, and none before there was room for all of them."""
    temporary = {path: path.with_name(f".{path.name}.new") for path in texts}
    try:
        for path, text in texts.items():
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with temporary[path].open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
        for path in texts:
            with disk_errors(path):
                temporary[path].replace(path)
    except BaseException:  # also Ctrl-C
        for path in temporary.values():
            path.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object; anything else in the file is a DataError that names it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing", hint="the run was not collected completely") from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} holds no JSON object")
    return value


def new_folder(parent: Path, *, now_unix_ns: int | None = None) -> Path:
    """Make an empty folder in `parent` whose name is the time, and point `latest` beside it at it.

    The last four digits are 65536ths of the second (15 us): what one machine makes one after another, in whatever
    folders, has different names, and in this order.
    """
    seconds, rest_ns = divmod(now_unix_ns if now_unix_ns is not None else time.time_ns(), 1_000_000_000)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
    path = parent / f"{stamp}-{rest_ns * 65536 // 1_000_000_000:04x}"
    with disk_errors(path):
        path.mkdir(parents=True)
        link = parent / f".latest-{path.name}"
        link.symlink_to(path.name)
        link.replace(parent / "latest")
    return path


class RunStore:
    """One run folder, `results/<experiment>/<run-id>/`."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, output_dir: Path, experiment: str, *, now_unix_ns: int | None = None) -> Self:
        """Make a new, empty run folder and point `latest` at it."""
        path = new_folder(Path(output_dir) / experiment, now_unix_ns=now_unix_ns)
        with disk_errors(path):
            for folder in ("nodes", "clients", "joined"):
                (path / folder).mkdir()
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run folder (`latest` is followed)."""
        resolved = Path(path).resolve()
        if not resolved.is_dir():
            raise DataError(f"{path} is no run folder", hint="`strata list` shows the runs")
        return cls(resolved)

    # --- where things are ---------------------------------------------------------------------------------
    @property
    def run_id(self) -> str:
        return self.path.name

    def node_dir(self, node: str) -> Path:
        return self.path / "nodes" / node

    def client_dir(self, client: str, phase: str) -> Path:
        return self.path / "clients" / client / phase

    def joined(self, name: str) -> Path:
        return self.path / "joined" / name

    def node_names(self) -> list[str]:
        return _folders(self.path / "nodes")

    def client_phases(self) -> list[tuple[str, str]]:
        """(client, phase) of every folder that a load process has left."""
        return [
            (client, phase)
            for client in _folders(self.path / "clients")
            for phase in _folders(self.path / "clients" / client)
        ]

    # --- events -------------------------------------------------------------------------------------------
    def append_event(self, event: str, *, t_unix_ns: int | None = None, **fields: Any) -> None:
        """Append one line to events.jsonl; `t_unix_ns` is now unless given (controller's clock)."""
        record = {"t_unix_ns": time.time_ns() if t_unix_ns is None else t_unix_ns, "event": event, **fields}
        path = self.path / EVENTS
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")

    def events(self) -> list[dict[str, Any]]:
        """All events in file order. A last line that was cut off is left out: its writer was killed."""
        path = self.path / EVENTS
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DataError(f"{path} is missing", hint="the run was not collected completely") from None
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} cannot be read: {error}") from error
        lines = text.split("\n")[:-1]
        return [_event(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]

    # --- plan and manifest --------------------------------------------------------------------------------
    def plan(self) -> dict[str, Any]:
        return _versioned(self.path / "plan.json")

    def manifest(self) -> dict[str, Any]:
        path = self.path / MANIFEST
        content = _versioned(path)
        if where := misfit(content, shapes.MANIFEST):
            raise DataError(f"{path} has no usable `{where}`")
        return content

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        write_atomically(self.path / MANIFEST, _manifest_text(manifest))

    def write_listed(self, texts: Mapping[str, str], gone: Iterable[str] = ()) -> None:
        """Replace files (by their names in the run's folder) together with the manifest that lists them, and remove
        those that are ``gone``."""
        entries = {name: {"sha256": hashlib.sha256(text.encode()).hexdigest()} for name, text in texts.items()}
        manifest = self.manifest()
        listed = {name: entry for name, entry in manifest.get("files", {}).items() if name not in gone}
        files = dict(sorted({**listed, **entries}.items()))
        pages = {self.path / name: text for name, text in texts.items()}
        write_together({**pages, self.path / MANIFEST: _manifest_text({**manifest, "files": files})})
        for name in gone:
            (self.path / name).unlink(missing_ok=True)

    def update_manifest(self, **fields: Any) -> dict[str, Any]:
        """Set top-level members of the manifest and return it."""
        manifest = {**self.manifest(), **fields}
        self.write_manifest(manifest)
        return manifest

    def record_files(self, renewed: Iterable[Path] = ()) -> dict[str, dict[str, Any]]:
        """Enter sha256 and row count of every file in the manifest.

        Files that are listed already keep their entry, so that a change after collection shows up as a
        difference; only `renewed` ones (derived tables that were just written) are entered anew.
        """
        manifest = self.manifest()
        listed: dict[str, dict[str, Any]] = manifest.get("files", {})
        again = {Path(path).resolve() for path in renewed}
        entries = {
            self.relative(path): listed[self.relative(path)]
            if self.relative(path) in listed and path.resolve() not in again
            else describe_file(path)
            for path in self.files()
        }
        missing = {name: entry for name, entry in listed.items() if name not in entries}
        files = dict(sorted({**missing, **entries}.items()))
        self.write_manifest({**manifest, "files": files})
        return files

    def files(self) -> list[Path]:
        """Every file of the run that carries a checksum."""
        return sorted(
            path
            for path in self.path.rglob("*")
            if path.is_file() and self.relative(path) not in UNLISTED and not path.name.startswith(".")
        )

    def relative(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()


def runs(output_dir: Path) -> list[RunStore]:
    """Every run under `output_dir`, those of scaling experiments too, oldest first (run ids begin with the time).
    ConfigError when there is no such folder."""
    try:
        os.scandir(output_dir).close()
    except OSError as error:
        raise ConfigError(
            f"no results in {output_dir}: {error.strerror}",
            hint="`strata run` makes some; --output says where they lie",
        ) from error
    folders = {
        path.parent
        for depth in _RUN_DEPTHS
        for path in Path(output_dir).glob("*/" * depth + MANIFEST)
        if not any(parent.is_symlink() for parent in path.parents[:depth])  # `latest`
    }
    return [RunStore(path) for path in sorted(folders, key=lambda path: (path.name, str(path)))]


def describe_file(path: Path) -> dict[str, Any]:
    """`sha256` and, where the format has rows that can be counted, `rows` of one file."""
    entry: dict[str, Any] = {"sha256": sha256_of(path)}
    with suppress(DataError):  # a damaged table has a checksum too; whoever reads it says what is wrong
        if (rows := count_rows(path)) is not None:
            entry["rows"] = rows
    return entry


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def count_rows(path: Path) -> int | None:
    """Rows of a Parquet, CSV (header not counted) or JSON-lines file; None for other files."""
    if path.suffix == ".parquet":
        try:
            return int(pq.read_metadata(path).num_rows)
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            raise DataError(f"{path} is no readable Parquet file: {error}") from error
    if path.suffix in (".csv", ".jsonl"):
        with path.open("rb") as file:
            blocks = iter(lambda: file.read(1 << 20), b"")
            if path.suffix == ".jsonl":
                return sum(block.count(b"\n") for block in blocks)
            return max(_unquoted_lines(blocks) - 1, 0)
    return None


def _unquoted_lines(blocks: Iterable[bytes]) -> int:
    """Ends of lines that are no part of a quoted text: the name of a file may hold one."""
    lines, quoted = 0, False
    for block in blocks:
        if not quoted and b'"' not in block:
            lines += block.count(b"\n")
            continue
        letters = np.frombuffer(block, np.uint8)
        inside = (np.cumsum(letters == ord('"')) + quoted) % 2 == 1
        lines += int(((letters == ord("\n")) & ~inside).sum())
        quoted = bool(inside[-1])
    return lines


def _manifest_text(manifest: Mapping[str, Any]) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, **manifest}, indent=2, sort_keys=False) + "\n"


def _folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


def _event(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        if isinstance(record["event"], str) and isinstance(record["t_unix_ns"], int):
            return dict(record)
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{path} line {number} is no event (an object with `t_unix_ns` and `event`)")


def _versioned(path: Path) -> dict[str, Any]:
    content = read_json(path)
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise DataError(f"{path} has schema_version {version!r}, this program reads {SCHEMA_VERSION}")
    return content
