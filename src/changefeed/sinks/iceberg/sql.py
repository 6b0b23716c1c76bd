"""PyIceberg's SQL catalog, without reading and copying a table's whole history for each commit.

    row of the table ──▶ location of its metadata ──▶ known here?  ──▶ the metadata as it was read or written
                                                      otherwise    ──▶ read from its file

A metadata file never changes: the same location is the same metadata. So only the row is read before each use, and the
database still decides who commits: it replaces the location only if it is the one that the commit was based on.

The history is most of the metadata: its snapshots, and their log. An update adds to the end of both, so it is applied to the
metadata without them, and what is new is appended. The same holds for the file: older snapshots keep their JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import finalize

import msgspec
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from changefeed.sinks.iceberg.staging import staged

_PING = "pool_pre_ping"
_MOST_SNAPSHOTS = 50_000  # of all tables in memory, 3 KB each; tables used longest ago are forgotten first


@dataclass(slots=True)
class _Known:
    """Metadata that was read or written.

    Attributes:
        metadata: the metadata.
        snapshots, log: JSON of its first snapshots and of the first entries of their log; both may lack the last ones.
    """

    metadata: TableMetadata
    snapshots: list[msgspec.Raw] = field(default_factory=list)
    log: list[msgspec.Raw] = field(default_factory=list)

    def json(self) -> bytes:
        """Returns the text of the metadata file."""
        self.snapshots += _texts(self.metadata.snapshots[len(self.snapshots) :])
        self.log += _texts(self.metadata.snapshot_log[len(self.log) :])
        text = _without_history(self.metadata).model_dump_json(exclude_none=True)
        members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        history = {"snapshots": self.snapshots, "snapshot-log": self.log}
        return msgspec.json.encode({**members, **history})


class HistorySqlCatalog(SqlCatalog):
    """A catalog in a database that remembers the newest metadata of its tables."""

    def __init__(self, name: str, **properties: Any) -> None:
        # A server that was started again has ended the connections that were open.
        super().__init__(name, **{_PING: "true", **properties})
        self._known: dict[Identifier, dict[str, _Known]] = {}  # by location, the newest last
        self._lock = Lock()
        finalize(self, self.engine.dispose)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        location = orm_table.metadata_location
        known = self._known.get(identifier, {}).get(location or "")
        if known is None or location is None:
            table = super()._convert_orm_to_iceberg(orm_table)
            self._remember(identifier, {table.metadata_location: _Known(table.metadata)})
            return table
        return Table(
            identifier, known.metadata, location, self._load_file_io(known.metadata.properties, location), self
        )

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        whole = any(isinstance(update, RemoveSnapshotsUpdate) for update in updates)
        if current_table is None or whole or isinstance(current_table.metadata, TableMetadataV3):  # which has row ids
            return staged(self, current_table, table_identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(current_table.metadata)
        before, location = current_table.metadata, current_table.metadata_location
        small = _small(before, updates)
        table = staged(
            self, Table(table_identifier, small, location, current_table.io, self), table_identifier, (), updates
        )
        made = table.metadata
        table.metadata = made.model_copy(
            update={
                "snapshots": before.snapshots + made.snapshots[len(small.snapshots) :],
                "snapshot_log": before.snapshot_log + made.snapshot_log,
            }
        )
        old = self._known.get(table_identifier, {}).get(location) or _Known(before)
        new = _Known(table.metadata, list(old.snapshots), list(old.log))
        self._remember(table_identifier, {location: old, table.metadata_location: new})
        return table

    def _remember(self, identifier: Identifier, known: dict[str, _Known]) -> None:
        with self._lock:
            self._known.pop(identifier, None)
            self._known[identifier] = known
            held = sum(len(newest.metadata.snapshots) for of in self._known.values() for newest in [[*of.values()][-1]])
            while held > _MOST_SNAPSHOTS and len(self._known) > 1:
                oldest = self._known.pop(next(iter(self._known)))
                held -= len([*oldest.values()][-1].metadata.snapshots)

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        known = next((of[metadata_path] for of in list(self._known.values()) if metadata_path in of), None)
        if known is None or known.metadata is not metadata:
            super()._write_metadata(metadata, io, metadata_path)
            return
        with io.new_output(metadata_path).create() as stream:
            stream.write(known.json())


def _small(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> TableMetadata:
    """Returns metadata without its history, except the snapshots that updates refer to."""
    named = {update.snapshot_id for update in updates if isinstance(update, SetSnapshotRefUpdate)}
    removed = {update.ref_name for update in updates if isinstance(update, RemoveSnapshotRefUpdate)}
    named |= {ref.snapshot_id for name, ref in metadata.refs.items() if name in removed}
    snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in named]
    return _without_history(metadata).model_copy(update={"snapshots": snapshots})


def _without_history(metadata: TableMetadata) -> TableMetadata:
    return metadata.model_copy(update={"snapshots": [], "snapshot_log": []})


def _texts(entries: Sequence[Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(entry.model_dump_json(exclude_none=True).encode()) for entry in entries]
