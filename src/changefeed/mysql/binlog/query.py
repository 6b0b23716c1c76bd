"""QUERY: a statement, and the session in which it ran.

    fixed       thread (4), seconds (4), length of the database (1), error (2), size of the status variables (2)
    variables   ┌ number (1) ┬ value ┐ …
    database    text, 00
    statement   to the end; QUERY_COMPRESSED of MariaDB: compressed

    number  value                                   number  value
       0    FLAGS2 (4)                                12    count (1), then database, 00 each; count 254: none
       1    sql_mode (8)                              13    microseconds (3)
       2    length (1), catalog, 00                   14, 15  commit timestamps (8): not used
       3    increment, offset (2 each)                16    explicit_defaults_for_timestamp (1)
       4    client, connection, server (2 each)       17    XID of an atomic DDL (8)
       5    length (1), time zone                     18    default_collation_for_utf8mb4 (2)
       6    length (1), catalog                       19    sql_require_primary_key (1)
       7    lc_time_names (2)                         20    default_table_encryption (1)
       8    collation_database (2)                   128    MariaDB: microseconds (3)
       9    table_map_for_update (8)                 129    MariaDB: XID of an atomic DDL (8)
      10    not used (4)                             130    MariaDB: extra flags of a GTID (1), 4 and 8: start (8)
      11    two lengths (1) with user and host       131    MariaDB: count (1), then pairs of collations (2 each)

Rule 1. Variables carry no size: an unknown one ends what can be read of them. Database and statement lie after them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.compression import inflate_event
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.events import Header, Query, StatusVars

_TOO_MANY_DATABASES = 254


def read_query(cursor: EventCursor, header: Header) -> Query:
    """Reads a QUERY after the header.

    Raises:
        ProtocolError: the bytes contradict the format.
    """
    thread, seconds, length, error, size = (cursor.uint(n) for n in (4, 4, 1, 2, 2))
    start = cursor.at
    variables = EventCursor(cursor.take(size), "status variables")
    try:
        status = _status(variables)
    except ProtocolError as problem:
        problem.byte = start + variables.at
        raise
    database = _text(cursor.take(length))
    if cursor.uint(1) != 0:
        raise ProtocolError("the database does not end with a zero byte", reason="bad-text", byte=cursor.at - 1)
    statement = cursor.rest()
    if header.code == codes.QUERY_COMPRESSED:
        statement = inflate_event(statement)
    return Query(header, thread, seconds, error, database, statement, status)


def _status(cursor: EventCursor) -> StatusVars:
    fields: dict[str, Any] = {}
    while cursor.left:
        start = cursor.at
        number = cursor.uint(1)
        if number not in _VARIABLES:
            cursor.at = start
            fields["unread"] = cursor.rest()
            break
        for name, value in _VARIABLES[number](cursor).items():
            fields[name] = value
    return StatusVars(**fields)


def _number(name: str, size: int) -> Callable[[EventCursor], dict[str, Any]]:
    return lambda cursor: {name: cursor.uint(size)}


def _flag(name: str) -> Callable[[EventCursor], dict[str, Any]]:
    return lambda cursor: {name: bool(cursor.uint(1))}


def _unused(size: int) -> Callable[[EventCursor], dict[str, Any]]:
    def skip(cursor: EventCursor) -> dict[str, Any]:
        cursor.take(size)
        return {}

    return skip


def _databases(cursor: EventCursor) -> dict[str, Any]:
    count = cursor.uint(1)
    if count == _TOO_MANY_DATABASES:
        return {}
    return {"updated_databases": tuple(_text(cursor.until_zero()) for _ in range(count))}


def _alter(cursor: EventCursor) -> dict[str, Any]:
    flags = cursor.uint(1)
    return {"alter": (flags, cursor.uint(8) if flags & codes.ALTER_ENDS else None)}


def _collations(cursor: EventCursor) -> dict[str, Any]:
    return {"character_set_collations": tuple((cursor.uint(2), cursor.uint(2)) for _ in range(cursor.uint(1)))}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{data!r:.80} is not UTF-8", reason="bad-text") from error


_VARIABLES: dict[int, Callable[[EventCursor], dict[str, Any]]] = {
    0: _number("flags", 4),
    1: _number("sql_mode", 8),
    2: lambda cursor: {"catalog": _text(cursor.terminated(1))},
    3: lambda cursor: {"auto_increment": (cursor.uint(2), cursor.uint(2))},
    4: lambda cursor: {"client": cursor.uint(2), "connection": cursor.uint(2), "server": cursor.uint(2)},
    5: lambda cursor: {"time_zone": _text(cursor.prefixed(1))},
    6: lambda cursor: {"catalog": _text(cursor.prefixed(1))},
    7: _number("lc_time_names", 2),
    8: _number("database_collation", 2),
    9: _number("table_map_for_update", 8),
    10: _unused(4),
    11: lambda cursor: {"invoker": (_text(cursor.prefixed(1)), _text(cursor.prefixed(1)))},
    12: _databases,
    13: _number("microseconds", 3),
    14: _unused(8),
    15: _unused(8),
    16: _flag("explicit_defaults"),
    17: _number("ddl_xid", 8),
    18: _number("default_utf8mb4_collation", 2),
    19: _flag("require_primary_key"),
    20: _flag("default_encryption"),
    128: _number("microseconds", 3),
    129: _number("ddl_xid", 8),
    130: _alter,
    131: _collations,
}
