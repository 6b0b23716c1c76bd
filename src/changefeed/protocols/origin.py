"""Reads members of an event's `origin` for the packages above, which use only these functions.

`origin` contains the fields of a protocol that an event has no attribute for, by the protocol's own names. For rows it is the
text of a JSON object, and whole columns are searched; for other events it is a dict.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.definition import Table
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.table import TableShape

_KEY_ONLY = r'"ohk":true'
_TOMBSTONE = '"value":{"tombstone":true}'
_ROW = r'"row":(?P<row>\d+)'
_SERVER = r'"server_id":(?P<server>\d+)'
_GTID = r'"gtid":"(?P<gtid>[^"]*)"'
_SNAPSHOT = r'"snapshot":"?(?P<mark>[a-z_]+)'
_SOURCE_TYPES: dict[Any, str] = {1: "mysql", 3: "mariadb"}
NAMES_RULE = "lower_case_table_names"
LAST = "last"  # the mark of a snapshot's last record
COPIED_AGAIN = "copied_again"
OF_COPY: dict[str, Any] = {"changefeed": "copy"}  # members of a schema change that a source made itself


def connector(event: SchemaChange) -> str | None:
    """Returns the server of a schema change in Debezium's words: its `connector`, or DTS's `sourceType`; None if unknown."""
    source_type = event.origin.get("sourceType")
    return event.origin.get("connector") or (_SOURCE_TYPES.get(source_type) if isinstance(source_type, int) else None)


def names_rule(event: SchemaChange) -> int | None:
    """Returns the `lower_case_table_names` of a schema change's server; None if unknown, as with every producer."""
    rule: int | None = event.origin.get(NAMES_RULE)
    return rule


def gtid(event: SchemaChange) -> str | None:
    """Returns the GTID of a schema change's transaction; None if it has none."""
    name: str | None = event.origin.get("gtid")
    return name


def cut_name(event: Resolved) -> str | None:
    """Returns the upstream's name for the point of a resolved event: a checkpoint's GTID set; None if it has none."""
    name: str | None = event.origin.get("checkpoint", {}).get("syncedGtid")
    return name


def snapshot_mark(event: SchemaChange) -> str | None:
    """Returns the `snapshot` mark of a schema change, such as `true` or `last`; None outside a snapshot."""
    mark = event.origin.get("snapshot")
    if isinstance(mark, bool):  # connectors of old wrote it without quotes
        return "true" if mark else None
    return None if mark is None else str(mark)


def is_of_copy(event: SchemaChange) -> bool:
    """Whether a source made a schema change itself, to copy a table, and no server has executed it."""
    return event.origin.items() >= OF_COPY.items()


def copied_again(event: SchemaChange) -> set[tuple[str, str]]:
    """Returns the database and the name of each table that is copied again behind a schema change, whatever it does to them."""
    return {(database, table) for database, table in event.origin.get(COPIED_AGAIN, ())}


def with_snapshot_mark(mark: str | None) -> dict[str, Any]:
    """Returns an origin for which `snapshot_mark` returns this mark."""
    return {} if mark is None else {"snapshot": mark}


def snapshot_marks(origins: pa.StringArray) -> pa.StringArray:
    """Returns the `snapshot` mark of each row; NULL if its origin has none."""
    return pc.struct_field(pc.extract_regex(origins, _SNAPSHOT), "mark")


def row_numbers(origins: pa.StringArray) -> pa.Int64Array:
    """Returns the number of each row in its event of the binlog; NULL if its origin has none."""
    return pc.struct_field(pc.extract_regex(origins, _ROW), "row").cast(pa.int64())


def servers(origins: pa.StringArray) -> tuple[pa.Int64Array, pa.StringArray]:
    """Returns the server id and the GTID of each row's transaction; NULL if its origin has none."""
    server = pc.struct_field(pc.extract_regex(origins, _SERVER), "server").cast(pa.int64())
    return server, pc.struct_field(pc.extract_regex(origins, _GTID), "gtid")


def key_only(origins: pa.StringArray) -> pa.BooleanArray | None:
    """Whether each row was too large for its producer's messages and was sent with only its key; None if no row was."""
    if origins.null_count == len(origins) or _KEY_ONLY.encode() not in origins.buffers()[2].to_pybytes():
        return None
    return pc.fill_null(pc.match_substring(origins, _KEY_ONLY), False)


def is_tombstone(shape: TableShape) -> bool:
    """Whether rows of this shape are tombstones that stand for deletes: they have the columns of their record's key alone."""
    return _TOMBSTONE in shape.wire


def finds_no_row(shape: TableShape, table: Table) -> bool:
    """Whether rows of this shape are tombstones whose key is not the table's."""
    names = {column.name.lower() for column in shape.columns}
    return is_tombstone(shape) and not (table.keys and names.issuperset(name.lower() for name in table.keys))
