"""Writes the defaults of columns: in the schema block, and in rows in place of NULL.

    DEFAULT …                    in the schema block                        for a NULL in a row (null-with-default=producer)
    number                       that number as a double                    that number; bigint unsigned wrapped
    text, enum, set              the text                                   the text
    binary                       its text                                   its base64
    bit                          bool, base64                               the same
    date, datetime, time         days, ms or µs                             the same
    timestamp                    the text as UTC                            the same
    CURRENT_TIMESTAMP            datetime 0; timestamp 1970-01-01 or none   the same, or null
    (expression)                 none; its text under bug-compat            null; its text under bug-compat

What `bug-compat` changes: classic writes a year as a string; newarch writes 0 for a time and for a bigint unsigned from 2^63 on;
both take the UTC text of a timestamp for one of the producer's zone (`time-zone`).
Rows that were read from this protocol are not asked: what they carry is what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from changefeed.model import values as model
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, ColumnType
from changefeed.mysql.ddl.defaults import existing_rows
from changefeed.mysql.zone import to_utc, zone
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.times import EPOCH_TEXT
from changefeed.protocols.ticdc_debezium.types import optional
from changefeed.protocols.ticdc_debezium.values import writer
from changefeed.wire.go_json import W_RAW

_NUMBERS = frozenset({*INTEGERS, "float", "double", "decimal", "year"})


def schema_default(column: Column, options: Options) -> str | None:
    """Returns the JSON text of a field's `default`; None to leave it out."""
    ready, text = _literal(column)
    if text is not None:
        return _now(column) if _is_now(text) else _expression(text) if options.bug_compat else None
    if ready is None:
        return None
    if column.type.name in _NUMBERS:
        return W_RAW.float(float(ready), 64)
    if column.type.name in BINARIES:
        return W_RAW.string(ready.decode("utf-8", "replace"))
    return writer(column.type)(ready)


def for_null(column: Column, options: Options) -> str:
    """Returns the JSON text for a NULL in a column that may have a default."""
    ready, text = _literal(column)
    if text is not None:
        shown = _now(column) if _is_now(text) else _expression(text) if options.bug_compat else None
        return shown or "null"
    if ready is None:
        return "null"
    return _defect(column.type, ready, options) or writer(column.type)(ready)


def _defect(t: ColumnType, ready: Any, options: Options) -> str | None:
    """Returns the wrong value that a producer writes because of a known defect, instead of the default."""
    if not options.bug_compat:
        return None
    if t.name == "timestamp":
        utc = to_utc(ready, zone(options.time_zone))
        return None if utc is None else writer(t)(utc)
    if options.classic:
        return f'"{ready}"' if t.name == "year" else None
    return "0" if t.name == "time" or (t.name == "bigint" and t.unsigned and ready >= 2**63) else None


def _expression(text: str) -> str:
    return W_RAW.string(text.removeprefix("(").removesuffix(")"))


def _literal(column: Column) -> tuple[Any, str | None]:
    """Returns (ready value, None) for a literal default, (None, text) for an expression; (None, None) for no or a zero date."""
    if column.default is None:
        return None, None
    zoned = column.type.name == "timestamp"
    kind = replace(column.type, name="datetime") if zoned else column.type
    default = existing_rows(replace(column, type=kind))
    if default.unknown is not None:
        return None, column.default
    return (None, None) if default.value is None else (model.reader(kind)(default.value), None)


def _is_now(text: str) -> bool:
    return text.upper().startswith(("CURRENT_TIMESTAMP", "NOW(", "LOCALTIME"))


def _now(column: Column) -> str | None:
    if column.type.name == "timestamp":
        return None if optional(column) else f'"{EPOCH_TEXT}"'
    return "0" if column.type.name == "datetime" else None
