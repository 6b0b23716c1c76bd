"""Reads the state of a table in a local folder without Spark: version, columns, write ids of its writers, damaged files."""

from __future__ import annotations

import os
from urllib.parse import unquote

from changefeed.errors import SinkError
from changefeed.sinks.base import TableSnapshot
from changefeed.sinks.delta.native import replay, vectors
from changefeed.sinks.delta.native.opened import Opened


def table_snapshot(opened: Opened) -> TableSnapshot:
    """Returns the state of an open table."""
    columns = tuple(field["name"] for field in opened.state.fields)
    return TableSnapshot(opened.version, columns, opened.write_id, frozenset(opened.state.transactions))


def damaged_files(path: str, version: int) -> list[str]:
    """Returns data files of a version that are missing or differ in size from the log, and files of vectors that end early.

    Raises:
        SinkError: the log or the folder cannot be read.
    """
    files = replay.state(path, version).files.values()
    try:
        there = {entry.name: entry.stat().st_size for entry in os.scandir(path)}
    except OSError as error:
        raise SinkError(f"{path}: the folder cannot be read: {error}", transient=True) from error
    wanted = {unquote(file["path"]): file["size"] for file in files if "/" not in file["path"]}
    damaged = {name for name, size in wanted.items() if there.get(name) != size}
    for file in files:
        name = vectors.path_of(file["deletionVector"]) if file.get("deletionVector") else None
        if name is not None and "/" not in name and there.get(name, -1) < vectors.end_of(file["deletionVector"]):
            damaged.add(name)
    return sorted(damaged)
