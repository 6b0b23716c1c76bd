"""Reads and writes small Delta tables without Spark, such as dead letters, for commands that should answer quickly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from changefeed.errors import MissingExtraError, SinkError
from changefeed.sinks.delta import by_spark
from changefeed.spark_runtime import files
from changefeed.spark_runtime.files import is_local, reader

_T = TypeVar("_T")
_OWN = re.compile(r"\n\s*0: |: ParsedLogPath|Attempted:")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def wrote(path: str, application: str) -> bool | None:
    """Whether the application has written to the Delta table at `path`; None if there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    if (spark := reader()) is not None:
        return by_spark.wrote(spark, path, application)
    return read_table(path, lambda table: table.transaction_version(application) is not None)


def has_files(path: str) -> bool:
    """Whether a folder contains anything, or the path is a file.

    Raises:
        SinkError: the file system cannot be reached.
    """
    if is_local(path):
        place = Path(path)
        return place.is_file() or (place.is_dir() and any(place.iterdir()))
    if (spark := reader()) is not None:
        return files.has_files(spark, path)
    from pyarrow import ArrowException
    from pyarrow.fs import FileSelector, FileSystem, FileType

    try:
        system, root = FileSystem.from_uri(re.sub(r"^s3[an]:", "s3:", path))
        if system.get_file_info(root).type == FileType.File:
            return True
        return len(system.get_file_info(FileSelector(root, allow_not_found=True))) > 0
    except (ArrowException, OSError, ValueError) as error:
        raise SinkError(f"{path} cannot be reached: {_in_a_line(error)}", transient=True) from error


def properties(path: str) -> dict[str, str] | None:
    """Returns the properties of the Delta table at `path`; None if there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    if (spark := reader()) is not None:
        return by_spark.properties(spark, path)
    return read_table(path, lambda table: dict(table.metadata().configuration))


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """Runs a SQL query over the Delta table at `path`, which the query calls `t`; no rows if there is no table.

    Raises:
        MissingExtraError: the reader is not installed.
        SinkError: the table cannot be read.
    """
    if (spark := reader()) is not None:
        return by_spark.query(spark, path, sql)

    return read_table(path, partial(queried, sql=sql)) or []


def queried(table: Any, *, sql: str) -> list[dict[str, Any]]:
    """Runs a SQL query over a `deltalake.DeltaTable`, which the query calls `t`."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    rows: list[dict[str, Any]] = pa.table(QueryBuilder().register("t", table).execute(sql).read_all()).to_pylist()
    return rows


def append(path: str, rows: list[dict[str, Any]]) -> None:
    """Appends rows to the Delta table at `path`; creates the table if it does not exist.

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


def read_table(path: str, what: Callable[[Any], _T], options: dict[str, str] | None = None) -> _T | None:
    """Calls `what` with a `deltalake.DeltaTable`; returns None if there is no table. Errors are those of `query`.

    Args:
        path: path or URL of the table.
        what: reads the table.
        options: options of delta-rs for the storage.
    """
    os.environ.setdefault("RUST_LOG", "off")  # or the cloud SDKs in it write to stderr whatever they try
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingExtraError("Reading Delta tables without Spark", "spark") from error
    try:
        return what(DeltaTable(path, storage_options=options))
    except TableNotFoundError:
        return None
    except OSError as error:
        away = "://" in path and "not found" not in str(error).lower()
        raise SinkError(
            f"{path} cannot be {'reached' if away else 'read'}: {_in_a_line(error)}", transient=away
        ) from error
    except DeltaError as error:
        if _is_file(path):  # delta-rs takes a file for a table that it cannot read
            return None
        raise SinkError(f"{path} is not a Delta table, or is damaged: {_in_a_line(error)}") from error
    except Exception as error:
        if type(error) is not Exception:  # delta-rs has no type for the errors of its SQL engine
            raise
        raise SinkError(f"{path} is damaged: {_in_a_line(error)}") from error


def _is_file(path: str) -> bool:
    """Whether a local path, or the URL of one, is that of a file."""
    if path.startswith("file:"):
        path = url2pathname(urlsplit(path).path)
    return "://" not in path and os.path.isfile(path)


def _in_a_line(error: Exception) -> str:
    """Formats an error of delta-rs, which has several lines, colours and a stack trace, in one line."""
    reasons = _OWN.split(_COLOUR.sub("", str(error)))[0].split("↳")
    return f"{'; '.join(' '.join(reason.split()).rstrip('.') for reason in reasons):.300}"
