"""Reinterprets a value under the DDL's column type: a `bigint` of the record becomes DATETIME(3).

    record             DDL                        the value
    bigint             bigint unsigned            negative in mode `long`: plus 2^64
    boolean            tinyint(1), bit(1)         1 or 0
    datetime, time     datetime(p), time(p)       the digits behind p are zeros, or it does not fit
    decimal            bigint unsigned            mode `precise`: the integer
    varbinary          binary(n)                  n bytes: what is short gets its zeros back
    varchar            binary kinds               of a text column with CHARACTER SET binary: a character for each byte
    varchar, bigint …  any other                  what its JSON means in the field that the options give to such a column
    varchar            date, decimal, int …       the text of a custom converter: see `converted`

Rule 1. What is of the column's kind already is the value, whatever the options are: a schema has declared it.
Rule 2. Any other type was inferred from JSON alone. It is that JSON again, and is read as the connector's field for the type
        is: a date by `time.precision.mode`, a decimal by `decimal.handling.mode`, a BLOB by `binary.handling.mode`.
Rule 3. The options must be the connector's: 1000 may be ms or µs, and `1234` base64, hex or a number. Where they cannot
        be, the error names the option. If it is not given, so it does where a value may be of another mode, too: digits alone
        that may be base64, text that may be hex, numbers that `doubts` has.
Rule 4. A schema without Connect's names (Avro, `connect.meta.data=false`) declares no more than JSON shows: its integers and
        bytes are read like JSON's.
Rule 5. The connector sends a CHAR, VARCHAR or TEXT column with CHARACTER SET binary as text, which MySQL keeps as bytes: each
        character is a byte (ISO 8859-1), whatever `binary.handling.mode` is. Its definition has the character set.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from changefeed.columnar.conversions import ByColumn, Convert, counted, decimals, instants
from changefeed.connect.schema import Node
from changefeed.errors import SchemaError
from changefeed.model.types import BINARIES, INTEGERS, ColumnType
from changefeed.model.values import Irregular, IrregularError, Moment
from changefeed.protocols.base import Redefine
from changefeed.protocols.debezium_mysql import converted, doubts, foreign_shapes
from changefeed.protocols.debezium_mysql.fitting import (
    AS_SENT,
    FITS,
    Change,
    kind_of,
    of_characters,
    same,
    unlike_hex,
    unscaled,
)
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.values import schemaless, times
from changefeed.protocols.debezium_mysql.values.reading import reading
from changefeed.protocols.debezium_mysql.values.writing import writing

_MODES = dict.fromkeys(("date", "time", "datetime"), "time.precision.mode")
_KEEP_TEXT = "; to keep such texts as they are, leave the topic of schema changes out of the source"
_MODES |= {"decimal": "decimal.handling.mode", "binary": "binary.handling.mode"}


def redefine(options: Options) -> Redefine:
    """Returns the conversions to the types that DDL declares, for a connector with these options."""
    return lambda inferred, defined, charset=None: _change(inferred, defined, charset, options)


def _change(inferred: ColumnType, defined: ColumnType, charset: str | None, options: Options) -> Change:
    if charset == "binary" and inferred.name == "varchar" and defined.name in BINARIES:
        return of_characters(defined)
    if inferred == defined and inferred.name != "time":  # whose text may have digits that its type has not
        return same
    fit = FITS.get((kind_of(inferred), kind_of(defined)))
    if fit is not None:
        return fit(inferred, defined, options)
    if inferred.name in INTEGERS and not inferred.unsigned:
        inferred = ColumnType("bigint")
    if inferred.name == "varbinary" and defined.name in ("decimal", "bit"):
        return _by_json(inferred, defined, msgspec.structs.replace(options, decimal_handling_mode="precise"))
    if str(inferred) not in schemaless.NODES:
        raise SchemaError(f"a column of type {defined} cannot take values of type {inferred}")
    return _by_json(inferred, defined, options)


def _by_json(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    node = foreign_shapes.node(defined, options)
    sent, read = reading(node)
    if inferred.name == "varchar" and node.scale is not None:
        read = unscaled(node.scale, kind_of(defined) != "decimal" or options.decimal_handling_mode is not None)
    if inferred.name == "varchar" and kind_of(defined) == "binary" and options.binary_handling_mode is None:
        read = unlike_hex(defined)
    write = writing(inferred, Node("bytes") if inferred.name == "varbinary" else schemaless.node(inferred))
    read_text = converted.reader(defined, options) if inferred.name == "varchar" else None
    fit = AS_SENT[kind_of(sent), kind_of(defined)](sent, defined, options)
    is_sure = inferred.name != "bigint" or options.time_precision_mode is not None
    doubt = None if is_sure else doubts.of(defined, node)

    def change(value: Any) -> Any:
        if doubt is not None and (why := doubt.of_value(value)):
            raise SchemaError(f"{why}{_hint(defined)}")
        if type(value) is float and not math.isfinite(value):
            raise IrregularError(f"{value} does not fit {defined}")
        try:
            changed = read(write(value))
            if type(changed) is Irregular or (type(changed) is float and type(value) is int and int(changed) != value):
                raise IrregularError(f"{value!r:.60} does not fit {defined}")
            return fit(changed.us if type(changed) is Moment else changed)
        except SchemaError as error:
            if read_text is not None:
                return _converted(value, read_text, defined, error)
            raise SchemaError(f"{error}{_hint(defined)}") from error

    columns = _columns(inferred, defined, node, kind_of(sent))
    if columns is not None and doubt is not None:
        columns = doubt.with_columns(columns)
    return change if columns is None else ByColumn(change, columns)


def _converted(text: str, read: Change, defined: ColumnType, refusal: SchemaError) -> Any:
    """Reads the text of a custom converter; `refusal`: why it is not what the options say."""
    try:
        return read(text)
    except SchemaError as error:
        if defined.name in ("decimal", "bigint"):  # a text may be base64, so that the option may be wrong
            raise SchemaError(f"{refusal}{_hint(defined)}") from error
        way_out = "" if "time-zone" in str(error) else _KEEP_TEXT
        raise SchemaError(f"{error}{way_out}") from error


def _columns(inferred: ColumnType, defined: ColumnType, node: Node, sent: str) -> Convert | None:
    """Returns the conversion for whole columns; None if there is none. `sent`: the kind of the connector's field."""
    step = 10 ** (6 - (defined.length or 0))
    if (inferred.name, sent, defined.name) == ("varchar", "text", "decimal") and defined.length is not None:
        return decimals(defined.arrow, defined.length, defined.scale or 0)
    if (inferred.name, defined.name) == ("varchar", "timestamp"):
        return instants(step)
    if str(inferred) != "bigint" or node.name not in times.COUNTS:
        return None
    if defined.name == "date":
        return counted(defined.arrow, times.FIRST_DAY, times.LAST_DAY)
    up, down = times.COUNTS[node.name]
    return counted(defined.arrow, times.FIRST_US, times.LAST_US, times=up, per=down, step=step)


def _hint(defined: ColumnType) -> str:
    long = defined.name == "bigint" and defined.unsigned
    mode = "bigint.unsigned.handling.mode" if long else _MODES.get(kind_of(defined))
    return f'; is "{mode}" right?' if mode else ""
