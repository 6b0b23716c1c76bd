"""The defaults of columns, as the schema of a field has them.

    DEFAULT …                    default in the schema
    literal                      the value as a row has it
    CURRENT_TIMESTAMP            datetime 0; timestamp 1970-01-01T00:00:00Z; none for a timestamp that may be NULL
    zero date                    the same; none if it may be NULL
    (expression)                 none

Rule 1. A timestamp's literal is taken for UTC: the log does not have the time zone of the session.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.schema import Node
from changefeed.errors import UnsupportedError
from changefeed.model import values
from changefeed.model.table import Column
from changefeed.mysql.ddl.defaults import Execution, existing_rows, is_now
from changefeed.protocols.debezium_mysql.values.writing import writing
from changefeed.wire.floats import float32

MOMENTS = frozenset({"date", "datetime", "timestamp"})
EPOCH = 0  # of days and of microseconds


def schema_default(column: Column, node: Node, *, numeric: bool, binary: str, is_mariadb: bool) -> str | None:
    """Returns the JSON text of a field's `default`; None to leave it out.

    Args:
        column: the column, with its default as SQL.
        node: the schema of its field.
        numeric, binary: see `writing`.
        is_mariadb: whether the server is MariaDB.
    """
    ready = _ready(column, node, is_mariadb=is_mariadb)
    if node.type == "float" and ready is not None:
        ready = float32(str(ready))  # the SQL may have more digits
    if ready is None:
        return None
    try:
        return java_json.write(writing(column.type, node, numeric=numeric, binary=binary)(ready))
    except UnsupportedError:
        return None


def is_expression(sql: str) -> bool:
    """Whether a default is an expression; MariaDB shows those that call a function without parentheses around them."""
    return "(" in sql and "'" not in sql.partition("(")[0] and not is_now(sql)


def _ready(column: Column, node: Node, *, is_mariadb: bool) -> Any:
    """The ready value of a default; None if there is none."""
    text = column.default
    if text is None or is_expression(text):
        return None
    kind = replace(column.type, name="datetime") if column.type.name == "timestamp" else column.type
    if is_now(text):
        return EPOCH if column.type.name == "datetime" or not node.optional else None
    default = existing_rows(replace(column, type=kind), Execution(is_mariadb=is_mariadb))
    if default.unknown is not None:
        return None
    if default.irregular is not None:
        return EPOCH if kind.name in MOMENTS and not node.optional else None
    return None if default.value is None else values.reader(kind)(default.value)
