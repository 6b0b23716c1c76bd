"""Reinterprets a value under the DDL's column type: a `bigint` of the record becomes DATETIME(3).

    record           DDL                                         the value
    bigint           bigint unsigned                             wraps back: -1 is 18446744073709551615
    bigint           date, datetime(p), time(p), year            counts days, ms or µs (by p), µs, years
    double, bigint   decimal(p,s), float                         its shortest digits
    text             binary kinds, bit(n)                        its base64
    text             timestamp(p), vector, enum, set, json, …    its text
    datetime(3)      datetime(p)                                 the same moment; so timestamps, and times with p digits
    null             anything                                    NULL

Rule 1. A value is what its JSON text means in a column of the defined type: it is written with the record's
        type and read with the declared one.
Rule 2. A date or time that the record declares is a moment already, and stays it, in whatever unit it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changefeed.columnar.conversions import ByColumn, Convert, counted, instants, wrapped
from changefeed.model import values as model
from changefeed.model.types import TEXTS, ColumnType
from changefeed.model.values import Irregular
from changefeed.protocols.ticdc_debezium.times import DAY_US, FIRST_DAY, LAST_DAY, unit_of
from changefeed.protocols.ticdc_debezium.values import reader, writer
from changefeed.wire import strict_json

_BIGINT, _TINYINT = ColumnType("bigint"), ColumnType("tinyint")


def redefine(inferred: ColumnType, defined: ColumnType, charset: str | None = None) -> Callable[[Any], Any]:
    """Returns a function that converts ready values, except NULL, from the type in the record to the declared type.

    The column's character set does not matter.

    That function raises:
        SchemaError: the value is invalid for the declared type.
        IrregularError: the value is valid, but the type cannot hold it.
    """
    if inferred == defined:
        return lambda value: value
    if inferred.name == defined.name == "time":
        return lambda value: _digits(value, defined.length or 0)
    if inferred.name == defined.name in ("date", "datetime", "timestamp"):
        return lambda value: value
    write, read = writer(inferred), _reader(defined)
    column = _column(inferred, defined)
    return ByColumn(lambda value: _reread(write(value), read), column) if column else lambda v: _reread(write(v), read)


def _column(inferred: ColumnType, defined: ColumnType) -> Convert | None:
    """Returns the conversion for whole columns; None if there is none."""
    if inferred.name in TEXTS and defined.name == "timestamp":
        return instants()
    if inferred != _BIGINT:
        return None
    match defined.name:
        case "bigint" if defined.unsigned:
            return wrapped
        case "date":
            return counted(defined.arrow, FIRST_DAY, LAST_DAY)
        case "datetime":
            return counted(defined.arrow, FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1, times=unit_of(defined))
    return None


def _reread(text: str, read: Callable[[Any], Any]) -> Any:
    ready = read(strict_json.read(text.encode("utf-8", "surrogateescape"), "value"))
    if type(ready) is Irregular:
        raise model.IrregularError(
            f"{ready.data.decode('utf-8', 'backslashreplace')!r:.60} is not a value of the column"
        )
    return ready


def _reader(defined: ColumnType) -> Callable[[Any], Any]:
    read = reader(_TINYINT if defined.name == "boolean" else defined)
    match defined.name:
        case "decimal" if defined.length is not None:
            return lambda value: _fixed(read(value), defined)
        case "time":
            return lambda value: _digits(read(value), defined.length or 0)
        case "boolean":
            return lambda value: bool(read(value))
    return read


def _fixed(digits: Any, defined: ColumnType) -> Any:
    """Converts digits to a decimal with the fraction digits of the type.

    These are the shortest digits that identify the double that the producer sent. Up to 15 digits, only one decimal becomes
    this double; above that, several do, and the original one is unknown.
    """
    if type(digits) is Irregular:
        return digits
    whole, _, fraction = digits.partition(".")
    shown = fraction.ljust(defined.scale or 0, "0")
    return model.reader(defined)(f"{whole}.{shown}" if shown else whole)


def _digits(text: str, digits: int) -> str:
    """Changes the number of fraction digits of a time."""
    whole, _, fraction = text.partition(".")
    if fraction[digits:].strip("0"):
        raise model.IrregularError(f"{text!r} has more than {digits} fraction digits")
    return f"{whole}.{fraction.ljust(digits, '0')[:digits]}" if digits else whole
