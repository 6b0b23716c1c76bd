"""Reads the state of a table without Spark: version, columns, write ids of its writers, damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from changefeed.sinks.base import TableSnapshot
from changefeed.sinks.delta.actions import LogAction
from changefeed.sinks.delta.native import replay, vectors
from changefeed.sinks.delta.native.opened import Opened, is_inside
from changefeed.storage import Folder


def table_snapshot(opened: Opened) -> TableSnapshot:
    """Returns the state of an open table."""
    columns = tuple(field["name"] for field in opened.state.fields)
    return TableSnapshot(opened.version, columns, opened.write_id, frozenset(opened.state.transactions))


def damaged_files(folder: Folder, version: int) -> list[str]:
    """Returns data files of a version that are missing or differ in size from the log, and files of vectors that end early.

    Raises:
        SinkError: the log or the folder cannot be read.
    """
    files = replay.state(folder, version).files.values()
    wanted = [named for file in files for named in files_of(file)]
    in_partitions = any("/" in name for name, _ in wanted)
    there = {info.name: info.size for info in (folder.files_below() if in_partitions else folder.files())}
    return sorted({name for name, sizes in wanted if there.get(name, -1) not in sizes})


def files_of(file: LogAction) -> Iterator[tuple[str, range]]:
    """The files in a table's folder that an `add` names, data and vectors, with the sizes that they may have."""
    name, size = unquote(file["path"]), int(file["size"])
    if is_inside(file["path"]):
        yield name, range(size, size + 1)
    if descriptor := file.get("deletionVector"):
        stored = vectors.path_of(descriptor)
        if stored is not None and not stored.startswith("/"):
            yield stored, range(vectors.end_of(descriptor), 1 << 62)
