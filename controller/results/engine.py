"""The database that evaluates the expressions: DuckDB in this process, gone when the join is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
from ibis.common.exceptions import IbisError

from controller.errors import DataError


@contextmanager
def engine() -> Iterator[Any]:
    """An Ibis connection; data that it refuses (a damaged Parquet file, a missing column) is a DataError."""
    connection = ibis.duckdb.connect()
    try:
        yield connection
    except (duckdb.Error, IbisError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"the run's tables cannot be evaluated: {reason}") from error
    finally:
        connection.disconnect()


def parquet_rows(connection: Any, files: Iterable[Path]) -> ir.Table:
    """The rows of these files together: what stands in them, whatever they and their folders are called.

    DuckDB takes a path for a pattern, and would make `mode=fast` in it a column `mode` in the place of the file's own.
    """
    rows: ir.Table = connection.read_parquet([escape(str(path)) for path in files], hive_partitioning=False)
    return rows
