"""A table in a local folder, without Spark: its version, columns, data files, and the write ids of those who wrote it.

delta-rs says the last transaction number of one application. Who else has written is read from the log itself: the newest
checkpoint, and the commits after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.sinks.base import TableSnapshot
from changefeed.sinks.delta.native.commit import open_table
from changefeed.sinks.delta.native.files import Folder


def table_snapshot(path: str, application: str) -> TableSnapshot | None:
    """The newest state of the table in a local folder; None when there is no table.

    Raises:
        SinkError: its log cannot be read.
    """
    opened = open_table(Folder(path), application)
    if opened is None:
        return None
    columns = tuple(field.name for field in opened.table.schema().fields)
    try:
        owners = frozenset(_applications(Path(path) / "_delta_log", opened.version))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SinkError(f"{path}: the table's log cannot be read: {error}", transient=True) from error
    return TableSnapshot(opened.version, columns, opened.write_id, owners)


def damaged_files(path: str, version: int) -> list[str]:
    """Data files of a version that are gone, or have another size than the log says.

    Raises:
        SinkError: the log or the folder cannot be read.
    """
    opened = open_table(Folder(path), "", version)
    if opened is None:
        raise SinkError(f"{path}: there is no table")
    try:
        there = {entry.name: entry.stat().st_size for entry in os.scandir(path)}
    except OSError as error:
        raise SinkError(f"{path}: the folder cannot be read: {error}", transient=True) from error
    files = opened.files()
    wanted = zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
    return sorted(unquote(name) for name, size in wanted if "/" not in name and there.get(unquote(name)) != size)


def _applications(log: Path, version: int) -> Iterator[str]:
    """The applications of all transaction identifiers up to a version."""
    begin = 0
    if (pointer := log / "_last_checkpoint").exists():
        last = int(json.loads(pointer.read_text())["version"])
        files = [*log.glob(f"{last:020d}.checkpoint*.parquet")]
        if last <= version and files:
            begin = last + 1
            for file in files:
                for row in pq.read_table(file, columns=["txn"]).column("txn").drop_null().to_pylist():
                    yield row["appId"]
    for number in range(begin, version + 1):
        for line in (log / f"{number:020d}.json").read_text().splitlines():
            if '"txn"' in line and (txn := json.loads(line).get("txn")):
                yield txn["appId"]
