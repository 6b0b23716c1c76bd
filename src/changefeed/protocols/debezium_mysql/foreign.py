"""Builds envelopes for foreign changes, as the connector would write them, from the options and the changes' origins.

Rule 1. The source block gets version, connector and name from the options; the other members from the origin, where it
        has one of that name and kind, else `file` "" and numbers 0; a row of a snapshot is marked as one. A transaction's
        id that is a GTID is the `gtid`, unless the origin has one. The origin may have a clock, a snapshot mark and a
        context too, as those of this protocol's own rows have.
Rule 2. An update that changes the key is a delete, a tombstone and an insert, with each other's key in a header.
Rule 3. An upsert is written as an insert: the protocol has no upsert.
Rule 4. The connector for MySQL prints JSON of the log without spaces; in a snapshot it is the server's text. JSON of other
        protocols, whose origin names no file of a log, keeps its text.
Rule 5. The transaction block is written only if all of its members are known: its schema allows no NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from changefeed.columnar.events import Row
from changefeed.connect import avro_schema, java_json
from changefeed.connect.parts import PLAIN, Block
from changefeed.errors import UnsupportedError
from changefeed.model.event import Heartbeat, SchemaChange, TransactionMark
from changefeed.model.names import names_of
from changefeed.model.position import Place
from changefeed.model.table import TableShape
from changefeed.model.types import ColumnType
from changefeed.mysql import gtid
from changefeed.protocols.debezium_mysql import blocks, described_tables, foreign_shapes, names
from changefeed.protocols.debezium_mysql.envelope import CLOCK, INTEGERS, TEXTS, TRANSACTION
from changefeed.protocols.debezium_mysql.headers import NEW_KEY, OLD_KEY
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.rows import LETTERS, RowWriter, row_writer
from changefeed.protocols.debezium_mysql.values import times
from changefeed.protocols.debezium_mysql.values.numbers import escape_member

Marked = TypeVar("Marked", TransactionMark, Heartbeat)
_PREFIX = "changefeed"
JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*"|[:,]) ?')  # behind a text, a colon or a comma, as a server prints JSON
_UNITS = {"date": 1, "datetime": 86_400_000_000}  # a day in the units of ready values


def prefix(options: Options) -> str:
    """Returns the connector's logical name."""
    return options.topic_prefix or _PREFIX


def schema_name(shape: TableShape, options: Options) -> str:
    """Returns the common prefix of the names of a shape's schemas."""
    return names.topic(prefix(options), shape.database, shape.table, options.topic_delimiter)


def writer(shape: TableShape, options: Options) -> RowWriter:
    """Returns the wire text of a foreign shape.

    Raises:
        UnsupportedError: the connector has no schema for the type of a column.
    """
    name = schema_name(shape, options)
    made = row_writer(shape, foreign_shapes.wire(shape, name, options), options)
    if options.converter == "avro":
        key = Block(avro_schema.text(made.key_block.text), True) if made.key_block.text else made.key_block
        return replace(made, key_block=key, block=Block(avro_schema.text(made.block.text), True))
    if not options.with_key_schema:
        made = replace(made, key_block=PLAIN)
    return made if options.with_value_schema else replace(made, block=PLAIN)


def place_of(event: TransactionMark | Heartbeat, options: Options) -> Place:
    """Returns topic and partition of a mark; marks that were read from this protocol keep theirs."""
    if "schemas" in event.origin or options.topic_prefix is None:
        return event.place
    if isinstance(event, Heartbeat):
        return replace(event.place, topic=f"{options.topic_heartbeat_prefix}.{options.topic_prefix}")
    return replace(event.place, topic=f"{options.topic_prefix}{options.topic_delimiter}{options.topic_transaction}")


def with_schemas(event: Marked, options: Options) -> Marked:
    """Returns a mark of another protocol as the converter writes it; one of this protocol as it is."""
    if "schemas" in event.origin or options.converter == "avro":
        return event
    schemas = {"key": options.with_key_schema, "value": options.with_value_schema}
    return replace(event, origin=event.origin | {"schemas": {side: True for side, there in schemas.items() if there}})


def transaction(event: TransactionMark, options: Options) -> TransactionMark:
    """Returns a mark of another protocol as `with_schemas` does, with names of tables without quotes."""
    if "schemas" in event.origin or event.tables is None:
        return with_schemas(event, options)
    tables = {".".join(names_of(name)): count for name, count in event.tables.items()}
    return with_schemas(replace(event, tables=tables), options)


def notification(event: Heartbeat, options: Options) -> Heartbeat:
    """Returns a notification with the connector's name, as `with_schemas` does; one that was read from this protocol as it is."""
    if "schemas" in event.origin:
        return event
    content = event.origin["notification"]
    data = {"connector_name": prefix(options), **content["additional_data"]}
    return with_schemas(replace(event, origin={"notification": content | {"additional_data": data}}), options)


def source(origin: dict[str, Any], options: Options) -> dict[str, Any]:
    """Returns the members of a foreign change's origin that the source block has."""
    texts = set(TEXTS) - {"version", "connector", "name"}  # those are always from the options
    known = {name: origin[name] for name in TEXTS if name in texts and isinstance(origin.get(name), str)}
    known |= {name: origin[name] for name in INTEGERS if _is_integer(origin.get(name))}
    known |= {name: content for name, content in origin.items() if name in _KINDS and _KINDS[name](content)}
    if not options.extended_headers_enabled or options.debezium_version != "3.6":
        known.pop("context", None)
    elif "context" in known and not options.schemas_enable:
        known["context"] = {"schemas": False, **known["context"]}
    if not options.include_query:
        known.pop("query", None)
    defaults = {"file": "", "server_id": 0, "pos": 0, "row": 0}
    own = {"version": options.version, "connector": options.connector, "name": prefix(options)}
    return defaults | known | own


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_clock(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= set(CLOCK) and all(map(_is_integer, value.values()))


def _is_context(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str | bool) for text in value.values())


_KINDS: dict[str, Callable[[Any], bool]] = {
    "envelope": _is_clock,
    "snapshot": lambda value: isinstance(value, str),
    "context": _is_context,
}


def rows(row: Row, options: Options) -> Iterator[Row]:
    """Returns the rows that the connector would send for a foreign row.

    Raises:
        UnsupportedError: the row has no time, or no image.
    """
    if row.instant is None:
        raise UnsupportedError(f"debezium-mysql: {row} needs a commit time")
    if row.after is None and (row.before is None or row.op != "delete"):
        raise UnsupportedError(f"debezium-mysql: {row} has no image to send")
    origin = source(row.origin, options)
    transaction = row.transaction if options.provide_transaction_metadata and _is_whole(row.transaction) else None
    if (known := gtid.of_row(row.origin, row.transaction)) is not None:
        origin["gtid"] = known
    if row.op == "read":
        origin.setdefault("snapshot", "true")
    place = row.place
    if options.topic_prefix is not None:
        place = replace(place, topic=schema_name(row.shape, options))
    row = replace(row, origin=origin, transaction=transaction, place=place)
    if options.bug_compat and row.op != "read":
        row = replace(row, before=_leaked(row, row.before), after=_leaked(row, row.after))
    if row.origin.get("file") and any(is_compacted(column.type, row.op, options) for column in row.shape.columns):
        row = replace(row, before=_compacted(row, row.before), after=_compacted(row, row.after))
    if options.enable_time_adjuster:
        row = replace(row, before=_adjusted(row, row.before), after=_adjusted(row, row.after))
    if LETTERS[row.op] in options.skipped:
        return
    if row.op == "delete":
        yield replace(row, after=None)
    elif row.op != "update":
        yield replace(row, before=None)
    elif row.before is None or not _key_changes(row, options):
        yield row
    else:
        yield from _split(row, options)


def _is_whole(transaction: dict[str, Any] | None) -> bool:
    """Whether all members of a transaction block are known."""
    return transaction is not None and all(transaction.get(ours) is not None for ours in TRANSACTION.values())


def _leaked(row: Row, image: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the image with the labels of ENUM and SET as streaming connectors send them: with escapes as in `allowed`."""
    if image is None:
        return None
    labels = {c.name for c in row.shape.columns if c.type.members is not None and isinstance(image.get(c.name), str)}
    sets = {name for name in labels if row.shape.by_name[name].type.name == "set"}
    return {
        name: ",".join(map(_escaped, value.split(",")))
        if name in sets
        else _escaped(value)
        if name in labels
        else value
        for name, value in image.items()
    }


def _adjusted(row: Row, image: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the image with years of two digits as those of a century."""
    units = {column.name: _UNITS.get(column.type.name) for column in row.shape.columns}
    return image and {
        name: value if value is None or (unit := units[name]) is None else times.with_century(value, unit)
        for name, value in image.items()
    }


def is_compacted(t: ColumnType, op: str, options: Options) -> bool:
    """Whether values of a type are JSON to be written without spaces, if they are of a log: see Rule 4."""
    return t.name == "json" and op != "read" and options.connector == "mysql"


def _compacted(row: Row, image: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the image with JSON without spaces."""
    return image and {
        name: JSON_SPACE.sub(r"\1", value)
        if isinstance(value, str) and row.shape.by_name[name].type.name == "json"
        else value
        for name, value in image.items()
    }


def _escaped(label: str) -> str:
    return escape_member(label)


def _key_changes(row: Row, options: Options) -> bool:
    before, after = row.before or {}, row.after or {}
    return any(before.get(name) != after.get(name) for name in foreign_shapes.keys(row.shape, options))


def _split(row: Row, options: Options) -> Iterator[Row]:
    sender = writer(row.shape, options)
    prefixed = {n.removeprefix("before."): v for n, v in row.irregular.items() if n.startswith("before.")}
    own = {n: v for n, v in row.irregular.items() if not n.startswith("before.")}
    old = replace(row, op="delete", after=None, irregular=prefixed)
    new = replace(row, op="insert", before=None, irregular=own)
    old_key, new_key = _key_text(sender, old, options), _key_text(sender, new, options)
    offset = row.place.offset + (2 if options.tombstones_on_delete else 1)
    if new.transaction is not None:  # the insert is an event of its own
        new = replace(
            new, transaction=new.transaction | {name: new.transaction[name] + 1 for name in ("order", "table_order")}
        )
    yield replace(old, origin=old.origin | {"headers": [[NEW_KEY, new_key]]})
    place = replace(row.place, offset=offset)
    yield replace(new, place=place, origin=new.origin | {"headers": [[OLD_KEY, old_key]]})


def _key_text(sender: RowWriter, row: Row, options: Options) -> str:
    """Formats a key as the JSON converter writes it into a header."""
    text = java_json.write(sender.key_of(row))
    if not options.schemas_enable:
        return text
    return f'{{"schema":{foreign_shapes.key_schema(row.shape, schema_name(row.shape, options), options)},"payload":{text}}}'


def is_truncate(event: SchemaChange) -> bool:
    """Whether a foreign schema change empties a table whose columns are known: an event of the table, not of its schema."""
    definition = event.origin.get("definition")
    return isinstance(definition, dict) and definition.get("type") == "TRUNCATE" and event.columns is not None


def truncate(event: SchemaChange, options: Options) -> tuple[SchemaChange, TableShape]:
    """Returns a truncate as the connector would send it, and the shape of the table's rows."""
    columns = event.columns or ()
    shape = TableShape(
        event.database or "", event.table or "", columns, key_order=tuple(event.origin["definition"].get("keys", ()))
    )
    place = event.place if options.topic_prefix is None else replace(event.place, topic=schema_name(shape, options))
    return replace(event, origin=source(event.origin, options), place=place), shape


def schema_change(event: SchemaChange, options: Options) -> SchemaChange:
    """Returns a foreign schema change with an origin like that of the connector's schema changes.

    Raises:
        UnsupportedError: the event has no time.
    """
    if event.instant is None:
        raise UnsupportedError(f"debezium-mysql: {event.type} at {event.place} needs a commit time")
    origin = source(event.origin, options) | {
        "tableChanges": described_tables.changes(
            event, comments=options.with_comments, is_newer=options.is_at_least_3_6
        )
    }
    read_ns = origin.get("envelope", {}).get("ts_ns", event.instant.us * 1000)
    origin["envelope"] = {"ts_ms": read_ns // 1_000_000}
    schemas = {"key": options.with_key_schema, "value": options.with_value_schema}
    origin["schemas"] = {side: True for side, there in schemas.items() if there}
    if options.converter == "avro":
        texts = blocks.change_key(options.connector), blocks.change(options.connector, options.debezium_version)
        described = [{"avro": None, "schema": avro_schema.text(text)} for text in texts]
        origin["schemas"] = dict(zip(("key", "value"), described, strict=True))
    profile = options.debezium_version
    if blocks.profile_of(options.version) != profile:
        raise UnsupportedError(
            f"debezium-mysql: source-version {options.version} is not a version of debezium-version {profile}"
        )
    place = event.place if options.topic_prefix is None else replace(event.place, topic=options.topic_prefix)
    if options.is_at_least_3_6 and event.ddl is not None and "snapshot" not in origin:
        event = replace(event, ddl=described_tables.with_single_quotes(event.ddl))
    return replace(_addressed(event), origin=origin, place=place)


def _addressed(event: SchemaChange) -> SchemaChange:
    """Returns a schema change with the database and the tables that the connector's source block names."""
    known = event.origin.get("definition") or {}
    if "passed_over_in" in known:
        return replace(event, database=known["passed_over_in"] or event.database, table="")
    return replace(event, table=known.get("tables", event.table))
