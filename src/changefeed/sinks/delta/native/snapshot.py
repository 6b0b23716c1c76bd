"""Reads the newest state of a table in a local folder without Spark: version, columns, and write ids of its writers.

delta-rs returns the last transaction number of one application; those of others are read from the log (`replay.py`).
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote

from changefeed.errors import SinkError
from changefeed.sinks.base import TableSnapshot
from changefeed.sinks.delta.native import replay, vectors
from changefeed.sinks.delta.native.files import TableFolder
from changefeed.sinks.delta.native.opened import open_table


def table_snapshot(path: str, application: str) -> TableSnapshot | None:
    """Returns the newest state of the table in a local folder; None if there is no table.

    Raises:
        SinkError: the table's log cannot be read.
    """
    opened = open_table(TableFolder(path), application)
    if opened is None:
        return None
    columns = tuple(field.name for field in opened.table.schema().fields)
    owners = frozenset(a["txn"]["appId"] for a in replay.actions(path, opened.version, ("txn",)) if "txn" in a)
    return TableSnapshot(opened.version, columns, opened.write_id, owners)


def damaged_files(path: str, version: int) -> list[str]:
    """Returns data files of a version that are missing or differ in size from the log, and missing files of deletion vectors.

    Raises:
        SinkError: the log or the folder cannot be read.
    """
    opened = open_table(TableFolder(path), "", version)
    if opened is None:
        raise SinkError(f"{path}: there is no table")
    try:
        there = {entry.name: entry.stat().st_size for entry in os.scandir(path)}
    except OSError as error:
        raise SinkError(f"{path}: the folder cannot be read: {error}", transient=True) from error
    files = opened.files()
    wanted = zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
    damaged = {unquote(name) for name, size in wanted if "/" not in name and there.get(unquote(name)) != size}
    for one in files.column("vector").drop_null().to_pylist() if "vector" in files.column_names else ():
        name = vectors.path_of(json.loads(one))
        if name is not None and "/" not in name and name not in there:
            damaged.add(name)
    return sorted(damaged)
