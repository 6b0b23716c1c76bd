"""Reads and writes messages that are not rows, which exist with `avro-enable-watermark`; the first byte is their kind.

01 │ {"query":"CREATE …","type":3,"schema":"shop","table":"orders","commitTs":463267588247666142}    DDL
02 │ 8 bytes, big-endian: ts                                                                        resolved
03 │ 8 bytes, big-endian: commit ts                                      newarch: delete, under the row's own key
"""

from __future__ import annotations

from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.event import Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.ticdc import tso
from changefeed.ticdc.ddl_actions import action
from changefeed.wire import strict_json
from changefeed.wire.cursor import Cursor
from changefeed.wire.go_json import W_HTML
from changefeed.wire.json_form import UINT64, integer, mapping, refuse_others, string
from changefeed.wire.strict_json import marked, unmarked

DDL, RESOLVED, DELETE = 1, 2, 3
_MEMBERS = ("query", "type", "schema", "table", "commitTs")
_CODES = (0, 2**31 - 1)


def read_ts(value: bytes) -> int:
    """Returns the ts of a resolved message or of a delete marker."""
    cursor = Cursor(value, "value")
    cursor.take(1)
    ts = int.from_bytes(cursor.take(8), "big")
    cursor.finish()
    return ts


def read_ddl(value: bytes, place: Place) -> SchemaChange:
    """Reads the schema change of a DDL message."""
    try:
        members = mapping(strict_json.read(value[1:], "DDL"), "DDL")
    except ProtocolError as error:
        raise type(error)(str(error), reason=error.reason, byte=1 + (error.byte or 0)) from error
    refuse_others(members, _MEMBERS, "DDL")
    ts = integer(members, "commitTs", UINT64)
    code = integer(members, "type", _CODES)
    query, replaced = _query(members)
    origin: dict[str, Any] = {"type": code, "replaced": replaced} if replaced else {"type": code}
    return SchemaChange(
        action(code),
        string(members, "schema") or None,
        string(members, "table") or None,
        query,
        place,
        commit_ts=ts,
        instant=Instant(tso.milliseconds(ts) * 1000, 3),
        origin=origin,
    )


def _query(members: dict[str, Any]) -> tuple[str, list[int]]:
    text = members.get("query")
    if type(text) is not str:
        raise SchemaError("DDL has no text - at `query`")
    text, replaced = unmarked(text)
    return string({"query": text}, "query"), replaced


def read_resolved(value: bytes, place: Place) -> Resolved:
    """Reads the resolved event of a resolved message."""
    ts = read_ts(value)
    return Resolved(ts, place, Instant(tso.milliseconds(ts) * 1000, 3))


def write_ts(kind: int, ts: int) -> bytes:
    """Returns the bytes of a resolved message or of a delete marker."""
    return bytes((kind,)) + ts.to_bytes(8, "big")


def write_ddl(event: SchemaChange, code: int, ts: int) -> bytes:
    """Returns the bytes of a DDL message."""
    query = event.ddl or ""
    if "replaced" in event.origin:
        query = marked(query, event.origin["replaced"])
    texts = (W_HTML.string(text) for text in (query, event.database or "", event.table or ""))
    query_text, schema, table = texts
    text = f'{{"query":{query_text},"type":{code},"schema":{schema},"table":{table},"commitTs":{ts}}}'
    return bytes((DDL,)) + text.encode("utf-8", "surrogateescape")
