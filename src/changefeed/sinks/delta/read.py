"""Small Delta tables without Spark, for commands that should answer at once: the ledger, the dead letters, what expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from changefeed.errors import MissingExtraError, SinkError

_T = TypeVar("_T")


def wrote(path: str, application: str) -> bool | None:
    """Whether the application's transactions are in the Delta table at `path`; None when there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    return _read(path, lambda table: table.transaction_version(application) is not None)


def properties(path: str) -> dict[str, str] | None:
    """The properties of the Delta table at `path`; None when there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    return _read(path, lambda table: dict(table.metadata().configuration))


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """The rows of a SQL query over the Delta table at `path`, which it calls `t`; none when there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """

    def answer(table: Any) -> list[dict[str, Any]]:
        import pyarrow as pa
        from deltalake import QueryBuilder

        rows: list[dict[str, Any]] = pa.table(QueryBuilder().register("t", table).execute(sql).read_all()).to_pylist()
        return rows

    return _read(path, answer) or []


def append(path: str, rows: list[dict[str, Any]]) -> None:
    """Adds rows to the Delta table at `path`, which begins with them.

    Raises:
        MissingExtraError: the writer is not installed.
        SinkError: the table cannot be written.
    """
    import pyarrow as pa

    try:
        from deltalake import write_deltalake
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise MissingExtraError("Writing Delta tables without Spark", "spark") from error
    try:
        write_deltalake(path, pa.Table.from_pylist(rows), mode="append")
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: {error}") from error


def _read(path: str, what: Callable[[Any], _T]) -> _T | None:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingExtraError("Reading Delta tables without Spark", "spark") from error
    try:
        return what(DeltaTable(path))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: {error}") from error
