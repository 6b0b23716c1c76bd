r"""Reads and writes the members of one message.

    row         {"id":0,"database":"shop","table":"orders","pkNames":["id"],"isDdl":false,"type":"UPDATE","es":…,"ts":…,"sql":"",
                 "sqlType":{"id":4},"mysqlType":{"id":"int"},"old":[{"id":"1"}],"data":[{"id":"2"}],"_tidb":{"commitTs":…}}
    DDL         … "isDdl":true,"type":"ALTER", … "sql":"ALTER TABLE …","sqlType":null,"mysqlType":null,"data":null,"old":null
    watermark   … "type":"TIDB_WATERMARK", … "_tidb":{"watermarkTs":…}
    Canal       {"data":[…],"database":…,"es":…,"gtid":…,"id":…,"isDdl":…,"mysqlType":…,"old":…,"pkNames":…,"sql":…,"sqlType":…,
                 "table":…,"ts":…,"type":…}                                       ascending by name

Rule 1. An unknown member is refused: to ignore a future member such as `onlyHandleKey` would mean to misread a row. A
        member that occurs twice is refused, too.
Rule 2. A record may contain several messages, one per line, as TiCDC writes them to files. A message that spans several
        lines must be alone in its record.
Rule 3. `es` is the time of the change, `ts` the time at which the message was made, both in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.mysql.type_codes import MOST_COLUMNS
from changefeed.wire import strict_json
from changefeed.wire.json_form import INT64, UINT64, integer, mapping, refuse_others, show, string, unicode_name
from changefeed.wire.strict_json import unmarked

WATERMARK = "TIDB_WATERMARK"
OPS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
LAST_MS = 253_402_300_799_999  # of the year 9999
_MEMBERS = frozenset(
    {
        *(
            "id",
            "database",
            "table",
            "pkNames",
            "isDdl",
            "type",
            "es",
            "ts",
            "sql",
            "sqlType",
            "mysqlType",
            "data",
            "old",
        ),
        *("_tidb", "gtid"),
    }
)
_EXTENSION = frozenset({"commitTs", "watermarkTs", "onlyHandleKey", "claimCheckLocation", "rowkey"})
_INT32 = (-(2**31), 2**31 - 1)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extension:
    """The member `_tidb`; absent members of it are None."""

    commit_ts: int | None = None
    watermark_ts: int | None = None
    only_handle_key: bool = False
    claim_check: str | None = None
    row_key: str | None = None


@dataclass(frozen=True, slots=True)
class CanalMessage:
    """A message whose members have the right form; for DDL and watermarks `data` is empty.

    Attributes:
        data, old: rows, with strings or None as values; `old` is None if the message has no old rows.
        types: `mysqlType`; None if the message has none.
        numbers: `sqlType`, as sent.
        gtid: the GTID; None if the message has none.
        replaced: numbers of the U+FFFD in `sql` that the producer had escaped.
    """

    id: int
    database: str
    table: str
    keys: tuple[str, ...] | None
    is_ddl: bool
    type: str
    es: int
    ts: int
    sql: str
    replaced: tuple[int, ...]
    types: Mapping[str, str] | None
    numbers: Mapping[str, int] | None
    data: tuple[Mapping[str, str | None], ...]
    old: tuple[Mapping[str, str | None], ...] | None
    extension: Extension | None
    gtid: str | None


_ENDS = b"\r\n"


def split(value: bytes) -> list[bytes]:
    """Splits a value into messages, each with its line end.

    Raises:
        ProtocolError: the value is empty.
    """
    if not value.strip():
        raise SchemaError("record has no message")
    lines = value.splitlines(keepends=True) if b"\n" in value else [value]
    return [value] if len(lines) > 1 and not _is_json(lines[0].rstrip(_ENDS)) else lines


def parted(line: bytes) -> tuple[bytes, bytes]:
    """Splits a line into the text of a message and its line end."""
    text = line.rstrip(_ENDS)
    return text, line[len(text) :]


def _is_json(text: bytes) -> bool:
    try:
        strict_json.read(text, "line")
    except ProtocolError:
        return False
    return True


def read(text: bytes) -> CanalMessage:
    """Parses a message.

    Raises:
        ProtocolError: the text is not JSON, or not a message.
    """
    members = mapping(strict_json.read(text, "message", unique=True), "message")
    refuse_others(members, _MEMBERS, "message")
    is_ddl, sql = members.get("isDdl"), members.get("sql", "")
    if not isinstance(is_ddl, bool):
        raise SchemaError(f"{show(is_ddl)} is not a boolean - at `isDdl`")
    if type(sql) is not str and sql is not None:
        raise SchemaError(f"{show(sql)} is not a string - at `sql`")
    statement, replaced = unmarked(sql or "")
    return CanalMessage(
        id=integer(members, "id", INT64) if "id" in members else 0,
        database=_name(members, "database"),
        table=_name(members, "table"),
        keys=_keys(members.get("pkNames")),
        is_ddl=is_ddl,
        type=string(members, "type"),
        es=integer(members, "es", (0, LAST_MS)),
        ts=integer(members, "ts", INT64) if "ts" in members else 0,
        sql=statement,
        replaced=tuple(replaced),
        types=_types(members.get("mysqlType")),
        numbers=_numbers(members.get("sqlType")),
        data=_rows(members.get("data"), "data") or (),
        old=_rows(members.get("old"), "old"),
        extension=None if members.get("_tidb") is None else _extension(mapping(members["_tidb"], "extension", "_tidb")),
        gtid=None if members.get("gtid") is None else string(members, "gtid"),
    )


def _name(members: Json, member: str) -> str:
    return "" if members.get(member) is None else string(members, member)


def _keys(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if type(value) is not list or not all(type(name) is str for name in value) or len(set(value)) != len(value):
        raise SchemaError(f"{show(value)} is not a list of names - at `pkNames`")
    return tuple(unicode_name(name, "pkNames") for name in value)


def _types(value: Any) -> Json | None:
    if value is None:
        return None
    types = _columns(value, "mysqlType")
    for name, text in types.items():
        if type(text) is not str:
            raise SchemaError(f"{show(text)} is not a type - at `mysqlType.{name}`")
        unicode_name(text, f"mysqlType.{name}")
    return types


def _numbers(value: Any) -> Mapping[str, int] | None:
    if value is None:
        return None
    numbers = _columns(value, "sqlType")
    return {name: integer(numbers, name, _INT32, "sqlType.") for name in numbers}


def _rows(value: Any, where: str) -> tuple[Json, ...] | None:
    if value is None:
        return None
    if type(value) is not list or not value:
        raise SchemaError(f"{show(value)} is not a list of rows - at `{where}`")
    for place, row in enumerate(value):
        for name, text in _columns(row, f"{where}[{place}]").items():
            if text is not None and type(text) is not str:
                raise SchemaError(f"{show(text)} is neither a string nor null - at `{where}[{place}].{name}`")
    return tuple(value)


def _columns(value: Any, where: str) -> Json:
    columns = mapping(value, "columns", where)
    if len(columns) > MOST_COLUMNS:
        raise SchemaError(f"row has {len(columns)} columns, expected at most {MOST_COLUMNS} - at `{where}`")
    for name in columns:
        if not name.isascii():
            unicode_name(name, where)
    return columns


def _extension(members: Json) -> Extension:
    refuse_others(members, _EXTENSION, "extension", "_tidb")
    only = members.get("onlyHandleKey", False)
    if not isinstance(only, bool):
        raise SchemaError(f"{show(only)} is not a boolean - at `_tidb.onlyHandleKey`")
    return Extension(
        integer(members, "commitTs", UINT64, "_tidb.") if "commitTs" in members else None,
        integer(members, "watermarkTs", UINT64, "_tidb.") if "watermarkTs" in members else None,
        only,
        string(members, "claimCheckLocation", "_tidb.") if "claimCheckLocation" in members else None,
        string(members, "rowkey", "_tidb.") if "rowkey" in members else None,
    )


def write(members: Mapping[str, str], *, canal: bool, marshalled: bool = False) -> str:
    """Returns the text of a message from the texts of its members, in the producer's order.

    Args:
        members: name -> JSON text; members that are absent are left out.
        canal: whether to use Canal's order.
        marshalled: whether to use the order of TiCDC's DDL and watermarks, with `data` before `old`.
    """
    order: tuple[str, ...] = tuple(sorted(_MEMBERS)) if canal else _MARSHALLED if marshalled else _TICDC
    return "{" + ",".join(f'"{name}":{members[name]}' for name in order if name in members) + "}"


_HEAD = ("id", "database", "table", "pkNames", "isDdl", "type", "es", "ts", "sql", "sqlType", "mysqlType")
_TICDC = (*_HEAD, "old", "data", "gtid", "_tidb")
_MARSHALLED = (*_HEAD, "data", "old", "gtid", "_tidb")
