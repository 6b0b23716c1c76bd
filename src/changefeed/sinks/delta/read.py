"""Reading small Delta tables without Spark: the ledger and the dead letters, for commands that should answer at once."""

from __future__ import annotations

from typing import Any

from changefeed.errors import MissingExtraError, SinkError


def wrote(path: str, application: str) -> bool | None:
    """Whether the application's transactions are in the Delta table at `path`; None when there is no table."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingExtraError("Reading Delta tables without Spark", "spark") from error
    try:
        return DeltaTable(path).transaction_version(application) is not None
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: {error}") from error


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """The rows of a SQL query over the Delta table at `path`, which it calls `t`; none when there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    try:
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingExtraError("Reading Delta tables without Spark", "spark") from error
    import pyarrow as pa

    try:
        found = QueryBuilder().register("t", DeltaTable(path)).execute(sql).read_all()
    except TableNotFoundError:
        return []
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: {error}") from error
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows
