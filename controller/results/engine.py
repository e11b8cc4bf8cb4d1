"""The database that evaluates the expressions: DuckDB in this process, gone when the join is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import ibis
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
