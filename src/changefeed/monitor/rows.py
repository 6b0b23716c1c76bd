"""The recent past of one row: its value in each version of the table that kept cuts have, and its changes that are pending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError, SinkError
from changefeed.frames.chunk_files import StoredChunks, part_sizes
from changefeed.frames.chunks import unpack
from changefeed.model.batch import TableBatch, table_schema
from changefeed.model.change import RowChange
from changefeed.pipeline.store.base import Cut
from changefeed.sinks.rows_by_key import KeyReader, Row, value_of
from changefeed.storage import Folder

CUTS, VERSIONS, PENDING_ROWS = 2_000, 20, 1_000_000  # that are looked at, at most


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
    versions: Sequence[tuple[Cut, str, int]], reader_of: Callable[[str], KeyReader]
) -> Iterator[RowVersion]:
    """Yields the row with a key in each version, newest first; ends after the first version whose files are gone.

    Args:
        versions: as `versions_of` returns them.
        reader_of: opens the table at a path.

    Raises:
        ConfigError: as of `KeyReader.at`.
        SinkError: the newest version cannot be read.
    """
    readers: dict[str, KeyReader] = {}
    for number, (cut, path, version) in enumerate(versions):
        if path not in readers:
            readers[path] = reader_of(path)
        try:
            rows: list[Row] | None = readers[path].at(version)
        except SinkError:
            if number == 0:
                raise
            rows = None
        yield RowVersion(cut.step, cut.at, cut.commit_ts, cut.mark, version, rows)
        if rows is None:
            return


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """The pending changes of a row, in the order in which they are stored.

    Attributes:
        changes: those that have its key before or after the change.
        complete: whether all pending changes of the table were looked at.
    """

    changes: list[RowChange]
    complete: bool


def pending_changes(
    store: Folder, folders: Sequence[str], database: str, table: str, key: Mapping[str, str]
) -> PendingChanges:
    """Returns the pending changes of a row; looks at no more than `PENDING_ROWS` rows of its table.

    Args:
        store: the folder of the pending store.
        folders: the folders in it that the ledger names.
        database, table: names of the table.
        key: as of `sinks.key_reader`.

    Raises:
        SinkError: a file cannot be read.
    """
    chunks, changes, rows = StoredChunks(store), list[RowChange](), 0
    columns = ("kind", "database", "table", "rows")
    for folder in folders:
        for file, size in part_sizes(store, folder).items():
            for part in chunks.find(file, columns, lambda plain: _of_table(plain, database, table), size):
                for chunk in part.to_pylist():
                    rows += chunk["rows"]
                    if rows > PENDING_ROWS:
                        return PendingChanges(changes, False)
                    batch = unpack(chunks.payload(file, chunk["group"], chunk["row"]))
                    changes += _complete(_with_key(batch, key)).changes()
    return PendingChanges(changes, True)


def _with_key(batch: TableBatch, key: Mapping[str, str]) -> TableBatch:
    """The rows of a batch that have the key before or after the change."""
    rows = batch.rows
    mask = pa.repeat(False, len(rows))
    for image in (rows.column("before"), rows.column("after")):
        if {field.name for field in image.type} >= set(key):
            mask = pc.or_(mask, pc.fill_null(_equal(image, key), False))
    return TableBatch(batch.shape, rows.filter(mask))


def _equal(image: pa.StructArray, key: Mapping[str, str]) -> Any:
    mask: Any = image.is_valid()
    for column, text in key.items():
        cells = pc.struct_field(image, column)
        try:
            mask = pc.and_kleene(mask, pc.equal(cells, value_of(cells.type, column, text)))
        except ConfigError:  # the column had another type when the change was made
            return pa.repeat(False, len(image))
    return mask


def _complete(batch: TableBatch) -> TableBatch:
    """The batch with the columns that chunks leave out, as empty ones."""
    rows = batch.rows
    schema = table_schema(batch.shape, rows.schema.field("commit_time").type.unit)
    columns = {"record": pa.repeat(pa.scalar(0, pa.int32()), len(rows))} | dict(
        zip(rows.schema.names, rows.columns, strict=True)
    )
    arrays = [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in schema]
    return TableBatch(batch.shape, pa.RecordBatch.from_arrays(arrays, schema=schema))


def _of_table(plain: pa.Table, database: str, table: str) -> Any:
    mask = pc.equal(plain.column("kind"), "rows")
    for column, name in (("database", database), ("table", table)):
        mask = pc.and_kleene(mask, pc.equal(plain.column(column), name))
    return mask


def text_of(value: Any) -> str | None:
    """A value as text: bytes in hex; None for NULL."""
    if value is None:
        return None
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
