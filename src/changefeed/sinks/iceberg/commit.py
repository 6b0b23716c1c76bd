"""Commits a change of an Iceberg table as one snapshot, fenced by write ids.

    opened at snapshot S ──▶ data files ──▶ manifests, manifest list ──▶ catalog: S becomes the new snapshot, or nothing

Rule 1. A commit requires that the newest snapshot is still S, and the table and its columns are those that were opened. So any
snapshot in between makes it fail: of an older or newer run, or of a program that compacts the table.
Rule 2. Every commit makes a snapshot, also one that changes no file: so rule 1 covers all writes of all runs.
Rule 3. The write id is in the same commit, twice: see `opened.py`. At S it was lower than the commit's own.
Rule 4. After an error whose answer is unknown, the table is read again to see whether the snapshot is there.

The manifests are those of `manifests.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.apply.files import Added
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.iceberg.catalog import ConflictError, TableCatalog
from changefeed.sinks.iceberg.manifest_files import FormatVersion
from changefeed.sinks.iceberg.manifests import Change, NewSnapshot, manifests_of
from changefeed.sinks.iceberg.name_mapping import mapping_updates
from changefeed.sinks.iceberg.opened import (
    NOTE,
    OWNER,
    PROPERTY,
    WRITE,
    WRITE_ID,
    Opened,
    read_write_id,
    write_id_text,
)
from changefeed.sinks.iceberg.sort_orders import order_after
from changefeed.sinks.iceberg.version_3 import UpgradeTo3
from changefeed.sinks.writes import WriteId

# Properties of new tables: a file of metadata for each commit would otherwise stay for ever.
_NEW_TABLE = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}


def commit(catalog: TableCatalog, opened: Opened, change: Change, request: WriteRequest) -> None:
    """Commits a change as the snapshot after the opened one.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: another writer has committed in between (transient: open the table and write again), or the commit cannot be
            made.
    """
    check_order(opened, request.write_id)
    updates, schema_id = _schema_updates(opened, change)
    updates += _spec_updates(opened, change)
    updates += _order_updates(opened, change)
    made = _snapshot(catalog, opened, change, schema_id, summary_of(opened.owner, request))
    updates += [*_snapshot_updates(made), _write_id_update(opened.owner, request.write_id)]
    _put(catalog, opened.table, _requirements(opened), updates, made.snapshot_id, opened.owner, request)


def compact(catalog: TableCatalog, opened: Opened, change: Change) -> None:
    """Commits a compaction: a snapshot with the same rows, and without a write id.

    Raises:
        SinkError: somebody else has committed in between, or the commit cannot be made. The table is whole without.
    """
    made = _snapshot(catalog, opened, change, opened.metadata.current_schema_id, {})
    catalog.commit(opened.table, _requirements(opened), _snapshot_updates(made))


def _snapshot(
    catalog: TableCatalog, opened: Opened, change: Change, schema_id: int, summary: Mapping[str, str]
) -> Snapshot:
    """Writes the manifests of a change to the opened table, and their list; returns the snapshot."""
    metadata, schema = opened.metadata, change.schema or opened.schema
    snapshot = NewSnapshot(
        catalog,
        opened.table,
        schema,
        metadata.new_snapshot_id(),
        metadata.next_sequence_number(),
        opened.version_of_format,
        change.spec,
    )
    manifests, operation, counts = manifests_of(snapshot, opened, change)
    return snapshot.written(manifests, operation, counts, opened.snapshot, schema_id, summary)


def _requirements(opened: Opened) -> list[TableRequirement]:
    """Returns rule 1 as requirements of the catalog."""
    metadata, before = opened.metadata, opened.snapshot
    return [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=None if before is None else before.snapshot_id),  # type: ignore[call-arg]
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),  # type: ignore[call-arg]
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),  # type: ignore[call-arg]
    ]


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that does not exist yet.

    Attributes:
        location: the location of the table.
        schema: the columns.
        spec: the partition spec, with id 0.
        order: the sort order.
        version: the format version.
    """

    location: str
    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    version: FormatVersion


def create(catalog: TableCatalog, new: NewTable, owner: str, added: Sequence[Added], request: WriteRequest) -> None:
    """Makes a table with its first snapshot.

    Args:
        catalog: the catalog.
        new: the table.
        owner: the pipeline's owner text.
        added: the data files.
        request: the write.

    Raises:
        FencedError: a newer run has made the table.
        SinkError: as `commit`.
    """
    schema, metadata_of = new.schema, TableMetadataV3 if new.version == 3 else TableMetadataV2
    empty = metadata_of(
        location=new.location, last_column_id=schema.highest_field_id, schemas=[schema], table_uuid=uuid.uuid4(),
        partition_specs=[new.spec], last_partition_id=new.spec.last_assigned_field_id, properties={},
    )  # type: ignore[call-arg]  # fmt: skip
    table = catalog.staged(request.write.path, empty)
    snapshot = NewSnapshot(catalog, table, schema, empty.new_snapshot_id(), 1, new.version)
    manifests, operation, counts = manifests_of(snapshot, None, Change(added=added))
    made = snapshot.written(manifests, operation, counts, None, schema.schema_id, summary_of(owner, request))
    upgrade = UpgradeTo3 if new.version == 3 else UpgradeFormatVersionUpdate
    updates: list[TableUpdate] = [
        AssignUUIDUpdate(uuid=empty.table_uuid),
        upgrade(format_version=new.version),  # type: ignore[call-arg]
        AddSchemaUpdate(schema_=schema),  # type: ignore[call-arg]
        SetCurrentSchemaUpdate(schema_id=-1),  # type: ignore[call-arg]
        AddPartitionSpecUpdate(spec=new.spec),
        SetDefaultSpecUpdate(spec_id=-1),  # type: ignore[call-arg]
        AddSortOrderUpdate(sort_order=new.order),  # type: ignore[call-arg]
        SetDefaultSortOrderUpdate(sort_order_id=-1),  # type: ignore[call-arg]
        SetLocationUpdate(location=new.location),
        SetPropertiesUpdate(updates=_NEW_TABLE),
        *_snapshot_updates(made),
        _write_id_update(owner, request.write_id),
    ]
    _put(catalog, table, [AssertCreate()], updates, made.snapshot_id, owner, request)


def check_order(opened: Opened, write_id: WriteId) -> None:
    """Checks that a write id comes after the table's last one.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: the write id is not new.
    """
    last = opened.write_id
    if last is None or last < write_id:
        return
    if last.epoch > write_id.epoch:
        raise fenced(opened.location, opened.owner, last, write_id)
    raise SinkError(f"{opened.location}: the write id {write_id} is not after the table's last one, {last}")


def fenced(location: str, owner: str, newer: WriteId, write_id: WriteId) -> FencedError:
    """Returns the error for a write of an older run."""
    return FencedError(
        f"{location}: epoch {newer.epoch} of pipeline {owner} writes this table now; this run is epoch {write_id.epoch} and stops"
    )


def summary_of(owner: str, request: WriteRequest) -> dict[str, str]:
    """Returns what a snapshot's summary has about its writer."""
    kind = type(request.write).__name__
    return {OWNER: owner, WRITE_ID: write_id_text(request.write_id), WRITE: kind, NOTE: request.note}


def _put(
    catalog: TableCatalog,
    table: Table,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
    snapshot_id: int,
    owner: str,
    request: WriteRequest,
) -> None:
    """Commits; if the answer is an error, reads the table to see who has committed: rules 1 and 4."""
    try:
        catalog.commit(table, requirements, updates)
        return
    except SinkError as failed:
        error = failed
    now, write_id, location = catalog.load(request.write.path), request.write_id, table.metadata.location
    text = now.metadata.properties.get(f"{PROPERTY}{owner}") if now is not None else None
    if text is not None and (last := read_write_id(text)).epoch > write_id.epoch:
        raise fenced(location, owner, last, write_id) from error
    if now is not None and now.metadata.snapshot_by_id(snapshot_id) is not None:
        return
    if isinstance(error, ConflictError):
        raise SinkError(
            f"{location}: another writer has committed during this write: {error}", transient=True
        ) from error
    raise SinkError(f"{location}: a snapshot cannot be committed: {error}", transient=error.transient) from error


def _schema_updates(opened: Opened, change: Change) -> tuple[list[TableUpdate], int]:
    """Returns the updates that change the table's columns, and the id of the schema after them."""
    metadata = opened.metadata
    if change.restored is not None:
        number = change.restored.schema_id
        assert number is not None, "snapshots of format version 2 have the id of their schema"
        names = mapping_updates(metadata, metadata.schema_by_id(number) or opened.schema)
        return [SetCurrentSchemaUpdate(schema_id=number), *names], number  # type: ignore[call-arg]
    if change.schema is None:
        return [], metadata.current_schema_id
    names = mapping_updates(metadata, change.schema)
    known = next((s.schema_id for s in metadata.schemas if s.as_struct() == change.schema.as_struct()), None)
    if known is not None:
        return [SetCurrentSchemaUpdate(schema_id=known), *names], known  # type: ignore[call-arg]
    return [
        AddSchemaUpdate(schema_=change.schema),  # type: ignore[call-arg]
        SetCurrentSchemaUpdate(schema_id=-1),  # type: ignore[call-arg]
        *names,
    ], change.schema.schema_id


def _spec_updates(opened: Opened, change: Change) -> list[TableUpdate]:
    """Returns the updates that change the table's default partition spec."""
    if change.spec is None:
        return []
    if change.spec.spec_id in opened.metadata.specs():
        return [SetDefaultSpecUpdate(spec_id=change.spec.spec_id)]  # type: ignore[call-arg]
    return [AddPartitionSpecUpdate(spec=change.spec), SetDefaultSpecUpdate(spec_id=-1)]  # type: ignore[call-arg]


def _order_updates(opened: Opened, change: Change) -> list[TableUpdate]:
    """Returns the updates that change the table's default sort order, as its columns have changed."""
    metadata = opened.metadata
    schema = change.schema if change.restored is None else metadata.schema_by_id(change.restored.schema_id or 0)
    order = metadata.sort_order() if schema is None else order_after(metadata, schema)
    if order == metadata.sort_order():
        return []
    known = metadata.sort_order_by_id(order.order_id) is not None
    added = [] if known else [AddSortOrderUpdate(sort_order=order)]  # type: ignore[call-arg]
    return [*added, SetDefaultSortOrderUpdate(sort_order_id=order.order_id)]  # type: ignore[call-arg]


def next_schema_id(opened: Opened) -> int:
    """Returns the id of a table's next schema."""
    return max(schema.schema_id for schema in opened.metadata.schemas) + 1


def _snapshot_updates(snapshot: Snapshot) -> list[TableUpdate]:
    return [
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id),  # type: ignore[call-arg]
    ]


def _write_id_update(owner: str, write_id: WriteId) -> TableUpdate:
    return SetPropertiesUpdate(updates={f"{PROPERTY}{owner}": write_id_text(write_id)})
