"""Columns with defaults: what the schema block says of one, and what stands in a row for NULL.

    DEFAULT …                    in the schema block                        for a NULL in a row (null-with-default=producer)
    number                       that number as a double                    that number; bigint unsigned wrapped
    text, enum, set              the text                                   the text
    binary                       its text                                   its base64
    bit                          bool, base64                               the same
    date, datetime, time         days, ms or µs                             the same
    timestamp                    the text as UTC                            the same
    CURRENT_TIMESTAMP            datetime 0; timestamp 1970-01-01 or none   the same, or null
    (expression)                 none; its text under bug-compat            null; its text under bug-compat

Rows that were read from this protocol are not asked: what they carry is what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from changefeed.model import values as model
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, ColumnType
from changefeed.protocols.ticdc_debezium.values import EPOCH_TEXT, writer
from changefeed.wire.ddl.defaults import existing_rows
from changefeed.wire.go_json import W_RAW

_NUMBERS = frozenset({*INTEGERS, "float", "double", "decimal", "year"})


def schema_default(column: Column, *, optional: bool, bug_compat: bool) -> str | None:
    """JSON text of a field's `default`, None to leave it out."""
    ready, text = _literal(column)
    if text is not None:
        if _is_now(text):
            return _now(column.type, optional)
        return W_RAW.string(text.removeprefix("(").removesuffix(")")) if bug_compat else None
    if ready is None:
        return None
    if column.type.name in _NUMBERS:
        return W_RAW.float(float(ready), 64)
    if column.type.name in BINARIES:
        return W_RAW.string(ready.decode("utf-8", "replace"))
    return writer(column.type)(ready)


def for_null(column: Column, *, optional: bool, classic: bool, bug_compat: bool) -> str:
    """JSON text of a NULL in a column with this default."""
    ready, text = _literal(column)
    if text is not None:
        shown = _now(column.type, optional) if _is_now(text) else None
        if shown is None and bug_compat and not _is_now(text):
            return W_RAW.string(text.removeprefix("(").removesuffix(")"))
        return shown or "null"
    if ready is None:
        return "null"
    if bug_compat and not classic and _wraps_or_time(column.type, ready):
        return "0"
    written = writer(column.type)(ready)
    return f'"{written}"' if bug_compat and classic and column.type.name == "year" else written


def _wraps_or_time(t: ColumnType, ready: Any) -> bool:
    return t.name == "time" or (t.name == "bigint" and t.unsigned and ready >= 2**63)


def _literal(column: Column) -> tuple[Any, str | None]:
    """The default's ready value; else its text, for a default that is none; both None without one, or for a zero date."""
    if column.default is None:
        return None, None
    zoned = column.type.name == "timestamp"
    kind = replace(column.type, name="datetime") if zoned else column.type
    found = existing_rows(replace(column, type=kind))
    if found.unknown is not None:
        return None, column.default
    return (None, None) if found.value is None else (model.reader(kind)(found.value), None)


def _is_now(text: str) -> bool:
    return text.upper().startswith(("CURRENT_TIMESTAMP", "NOW(", "LOCALTIME"))


def _now(t: ColumnType, optional: bool) -> str | None:
    if t.name == "timestamp":
        return None if optional else f'"{EPOCH_TEXT}"'
    return "0" if t.name == "datetime" else None
