"""The recent past of one row: its value in each version of the table that kept cuts have, and its changes that are pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import StoredChunks, part_sizes
from changefeed.frames.chunks import unpack
from changefeed.model.batch import TableBatch, table_schema
from changefeed.model.change import RowChange
from changefeed.pipeline.store.base import Cut
from changefeed.sinks.delta.row import KeyReader, Row
from changefeed.storage import Folder

CUTS, VERSIONS, PENDING_ROWS = 2_000, 20, 200_000  # that are looked at, at most


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A row in one version of its table.

    Attributes:
        step, at, commit_ts, mark: of the first cut that has this version.
        version: the table's version.
        rows: the rows with the key: one, or none; more only in a table without a key. None if files of the version are gone.
    """

    step: int
    at: datetime
    commit_ts: int | None
    mark: str | None
    version: int
    rows: Sequence[Row] | None


def versions_of(cuts: Iterable[Cut], name: str) -> list[tuple[Cut, str, int]]:
    """Returns the newest versions of a table that cuts have, newest first: the first cut with it, path, version.

    Args:
        cuts: newest first.
        name: `database.table`.
    """
    versions: list[tuple[Cut, str, int]] = []
    for cut in islice(cuts, CUTS):
        table = cut.tables.get(name)
        if table is None or table.version is None:
            continue
        if versions and versions[-1][1:] == (table.path, table.version):
            versions[-1] = cut, table.path, table.version
        elif len(versions) == VERSIONS:
            break
        else:
            versions.append((cut, table.path, table.version))
    return versions


def row_versions(
    versions: Sequence[tuple[Cut, str, int]], sink: Folder, key: Mapping[str, str]
) -> Iterator[RowVersion]:
    """Yields the row with a key in each version, newest first; ends after the first version whose files are gone.

    Args:
        versions: as `versions_of` returns them.
        sink: the folder of all tables.
        key: as of `KeyReader`.

    Raises:
        ConfigError: as of `KeyReader.at`.
        SinkError: the newest version cannot be read.
    """
    readers: dict[str, KeyReader] = {}
    for number, (cut, path, version) in enumerate(versions):
        if path not in readers:
            readers[path] = KeyReader(sink.subfolder(path), key)
        try:
            rows: list[Row] | None = readers[path].at(version)
        except SinkError:
            if number == 0:
                raise
            rows = None
        yield RowVersion(cut.step, cut.at, cut.commit_ts, cut.mark, version, rows)
        if rows is None:
            return


def pending_changes(store: Folder, folders: Sequence[str], database: str, table: str) -> Iterator[RowChange]:
    """Yields the pending changes of a table, of at most `PENDING_ROWS` rows.

    Args:
        store: the folder of the pending store.
        folders: the folders in it that the ledger names.
        database, table: names of the table.

    Raises:
        SinkError: a file cannot be read.
    """
    chunks, left = StoredChunks(store), PENDING_ROWS
    columns = ("kind", "database", "table", "rows")
    for folder in folders:
        for file, size in part_sizes(store, folder).items():
            for part in chunks.find(file, columns, lambda plain: _of_table(plain, database, table), size):
                for chunk in part.to_pylist():
                    left -= chunk["rows"]
                    if left < 0:
                        return
                    yield from _complete(unpack(chunks.payload(file, chunk["group"], chunk["row"]))).changes()


def _complete(batch: TableBatch) -> TableBatch:
    """The batch with the columns that chunks leave out, as empty ones."""
    rows = batch.rows
    schema = table_schema(batch.shape, rows.schema.field("commit_time").type.unit)
    columns = {"record": pa.repeat(pa.scalar(0, pa.int32()), len(rows))} | dict(
        zip(rows.schema.names, rows.columns, strict=True)
    )
    arrays = [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in schema]
    return TableBatch(batch.shape, pa.RecordBatch.from_arrays(arrays, schema=schema))


def _of_table(plain: Any, database: str, table: str) -> Any:
    mask = pc.equal(plain.column("kind"), "rows")
    for column, name in (("database", database), ("table", table)):
        mask = pc.and_kleene(mask, pc.equal(plain.column(column), name))
    return mask.combine_chunks() if hasattr(mask, "combine_chunks") else mask


def has_key(change: RowChange, key: Mapping[str, str]) -> bool:
    """Whether the row of a change has a key, before or after it; values are compared as texts."""
    images = [image for image in (change.before, change.after) if image is not None]
    return any(all(name in image and text_of(image[name]) == text for name, text in key.items()) for image in images)


def text_of(value: Any) -> str | None:
    """A value as text: bytes in hex; None for NULL."""
    if value is None:
        return None
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
