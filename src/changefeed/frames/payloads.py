"""JSON payloads of chunks: shapes, schema changes, dead letters."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import Any

from changefeed.model.event import DeadLetter, Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import TIME_ZONE
from changefeed.protocols.origin import (
    COPIED_AGAIN,
    NAMES_RULE,
    OF_COPY,
    connector,
    copied_again,
    is_of_copy,
    names_rule,
    snapshot_mark,
    with_snapshot_mark,
)


@lru_cache(maxsize=4096)
def write_shape(shape: TableShape) -> str:
    """A shape as JSON text."""
    columns = [[c.name, str(c.type), c.nullable, c.key] for c in shape.columns]
    return canonical([shape.database, shape.table, columns, shape.before, shape.after, shape.wire])


@lru_cache(maxsize=4096)
def read_shape(text: str) -> TableShape:
    """The shape that `write_shape` wrote."""
    database, table, columns, before, after, wire = json.loads(text)
    return TableShape(
        database,
        table,
        tuple(Column(name, ColumnType.parse(kind), nullable, key) for name, kind, nullable, key in columns),
        None if before is None else tuple(before),
        None if after is None else tuple(after),
        wire,
    )


def schema_to_dict(event: SchemaChange) -> dict[str, Any]:
    """A schema change as a JSON object."""
    document: dict[str, Any] = {
        "type": event.type,
        "database": event.database,
        "table": event.table,
        "ddl": event.ddl,
        "place": [event.place.topic, event.place.partition, event.place.offset, event.place.index],
        "commit_ts": event.commit_ts,
        "snapshot": snapshot_mark(event),
        "time": None if event.instant is None else [event.instant.us, event.instant.digits],
        "connector": connector(event),
        "columns": None if event.columns is None else [_written(column) for column in event.columns],
    }
    if names_rule(event) is not None:
        document["names"] = names_rule(event)
    if copied_again(event):
        document[COPIED_AGAIN] = sorted(copied_again(event))
    if TIME_ZONE in event.origin:
        document["time_zone"] = event.origin[TIME_ZONE]
    return document | {"of_copy": True} if is_of_copy(event) else document


def schema_from_dict(document: dict[str, Any]) -> SchemaChange:
    """The schema change that `schema_to_dict` wrote."""
    columns, time = document.get("columns"), document.get("time")  # earlier versions wrote neither
    return SchemaChange(
        document["type"], document["database"], document["table"], document["ddl"], Place(*document["place"]),
        None if columns is None else tuple(_read(column) for column in columns), document["commit_ts"],
        None if time is None else Instant(*time),
        origin=with_snapshot_mark(document.get("snapshot"))
        | _known("connector", document.get("connector"))
        | _known(NAMES_RULE, document.get("names"))
        | _known(COPIED_AGAIN, document.get(COPIED_AGAIN))
        | _known(TIME_ZONE, document.get("time_zone"))
        | (OF_COPY if document.get("of_copy") else {}),
    )  # fmt: skip


def _known(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _written(column: Column) -> list[Any]:
    return [column.name, str(column.type), column.nullable, column.key, column.default, column.charset]


def _read(column: list[Any]) -> Column:
    name, kind, nullable, key, default, *charset = column  # earlier versions wrote no charset
    return Column(name, ColumnType.parse(kind), nullable, key, default, charset=charset[0] if charset else None)


def dead_to_dict(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as a JSON object, bytes in base64."""
    return {
        "reason": letter.reason,
        "error": letter.error,
        "protocol": letter.protocol,
        "index": letter.place.index,
        "byte": letter.byte,
        "schema_id": letter.schema_id,
        "key": _text(letter.key),
        "value": _text(letter.value),
        "headers": [[k, _text(v)] for k, v in letter.headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
