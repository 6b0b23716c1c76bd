"""Converts column descriptions to table shapes, and creates writers for the columns of shapes.

    Column   0a 02 "id" │ 12 07 "int(11)" │ 18 01                  name, originalType, isKey

Rule 1. Rows whose event describes the same columns, and whose images carry the same of them, are one family; a family
        has one shape for each encoding: the dataType and the charset of each column.
Rule 2. A NULL shows no encoding: a row joins the first shape of its family that agrees where it is not NULL.
        A shape that is made from a NULL takes the usual encoding of the column's type.
Rule 3. The table of shapes is bounded; see `columnar.families`.

The wire text of a shape is `{"tencent-dts":{"id":{"originalType":"int(11)"}}}`: for each column what does not follow
from its name, type and key: `originalType` as sent, `dataType` and `charset` where they are not the usual ones, `properties`,
`unknown` fields.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from changefeed.columnar.families import ShapeFamily
from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.mysql import charsets
from changefeed.protocols.tencent_dts import types
from changefeed.protocols.tencent_dts.messages import COLUMN
from changefeed.protocols.tencent_dts.options import NAME, Options
from changefeed.protocols.tencent_dts.types import Encoding
from changefeed.protocols.tencent_dts.values import Write, writer
from changefeed.wire import protobuf

LIMIT = 4096  # descriptions of columns that are kept

_UTF8 = "utf8"


@dataclass(frozen=True, slots=True)
class Described:
    """A column as a DMLEvent describes it; `rest`: JSON of everything except name, type and key."""

    name: str
    original: str
    key: bool
    rest: str


def describe(columns: Sequence[bytes]) -> tuple[Described, ...]:
    """Reads the column descriptions of an event.

    Raises:
        ProtocolError: the bytes are not a Column, or a name occurs twice.
    """
    described = tuple(_described(protobuf.read(COLUMN, column)) for column in columns)
    if len({d.name for d in described}) != len(described):
        names = [d.name for d in described]
        raise SchemaError(f"column {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return described


def _described(column: dict[str, Any]) -> Described:
    rest: dict[str, Any] = {}
    if "properties" in column:
        rest["properties"] = pairs(column["properties"])
    if protobuf.UNKNOWN in column:
        rest["unknown"] = base64.b64encode(column[protobuf.UNKNOWN]).decode()
    original = column.get("originalType", "")
    return Described(column.get("name", ""), original, bool(column.get("isKey")), canonical(rest))


def pairs(properties: list[dict[str, Any]]) -> list[list[str]]:
    """Converts properties to the form in the origin: `[["key", "value"]]`."""
    return [[pair.get("key", ""), pair.get("value", "")] for pair in properties]


def usual(t: ColumnType) -> Encoding | None:
    """Returns the usual encoding of a type's values; None for a type without values."""
    sent = types.data_type(t)
    return None if sent is None else (sent, _UTF8 if sent == types.STRING else "")


@dataclass(slots=True)
class Family:
    """Rows described in the same way; `before` and `after` are None when the images have all columns."""

    database: str
    table: str
    columns: tuple[Described, ...]
    postgres: bool
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    shapes: ShapeFamily[Encoding] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = ShapeFamily(self._completed)

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self.shapes

    def shape(self, encodings: Sequence[Encoding | None]) -> TableShape:
        """Returns the shape of a row; `encodings`: those of its columns in order, None for NULL."""
        return self.shapes.shape(encodings)

    def _completed(self, encodings: Sequence[Encoding | None]) -> tuple[Sequence[Encoding | None], TableShape]:
        sent_types = [
            types.column_type(d.original, m, self.postgres) for d, m in zip(self.columns, encodings, strict=True)
        ]
        made = tuple(m or usual(t) for m, t in zip(encodings, sent_types, strict=True))
        return made, self._make(sent_types, made)

    def _make(self, sent_types: list[ColumnType], encodings: Sequence[Encoding | None]) -> TableShape:
        wire = {}
        for described, t, encoding in zip(self.columns, sent_types, encodings, strict=True):
            members = _members(described, t, encoding)
            if members:
                wire[described.name] = members
        columns = tuple(Column(d.name, t, None, d.key) for d, t in zip(self.columns, sent_types, strict=True))
        return TableShape(self.database, self.table, columns, self.before, self.after, canonical({NAME: wire}))


def _members(described: Described, t: ColumnType, encoding: Encoding | None) -> dict[str, Any]:
    members: dict[str, Any] = {} if described.original == str(t) else {"originalType": described.original}
    if encoding is not None:
        sent, charset = usual(t) or (0, "")
        if encoding[0] != sent:
            members["dataType"] = encoding[0]
        if encoding[1] != (charset if encoding[0] == sent else ""):
            members["charset"] = encoding[1]
    return {**members, **json.loads(described.rest)}


@dataclass(frozen=True, slots=True)
class WireColumn:
    """The writer of one column of a shape.

    Attributes:
        described: the bytes of the column's description.
        encoding: dataType and charset of the column's values; None if it has no values.
        write: converts ready values to Data.
    """

    column: Column
    described: bytes
    encoding: Encoding | None
    write: Write


def is_ours(shape: TableShape) -> bool:
    """Whether the shape was read from this protocol."""
    return shape.wire.startswith(f'{{"{NAME}":')


def wire_columns(shape: TableShape, options: Options) -> tuple[WireColumn, ...]:
    """Creates the writers for the columns of a shape.

    Raises:
        UnsupportedError: the protocol does not have the type of a column, or the wire text is of another protocol.
    """
    try:
        members = json.loads(shape.wire)[NAME] if is_ours(shape) else None
        return tuple(
            _wire_column(shape, c, None if members is None else members.get(c.name, {}), options) for c in shape.columns
        )
    except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        name = f"{shape.database}.{shape.table}"
        raise UnsupportedError(f"{NAME}: `wire` of {name} is not valid for this protocol: {error}") from error


def _wire_column(shape: TableShape, column: Column, own: dict[str, Any] | None, options: Options) -> WireColumn:
    t = column.type
    members = own or {}
    encoding = usual(t) if own is not None else _new(t, options)
    if encoding is None and t.name != "null" and "dataType" not in members:
        raise UnsupportedError(f"{NAME} cannot carry {shape.database}.{shape.table}.{column.name} of type {t}")
    if "dataType" in members:
        encoding = (int(members["dataType"]), str(members.get("charset", "")))
    elif encoding is not None:
        encoding = (encoding[0], str(members.get("charset", encoding[1])))
    described = {
        "name": column.name,
        "originalType": members.get("originalType", "tinyint(1)" if t.name == "boolean" else str(t)),
        "isKey": bool(column.key),
        "properties": [{"key": key, "value": value} for key, value in members.get("properties", ())],
        protobuf.UNKNOWN: base64.b64decode(members.get("unknown", ""), validate=True),
    }
    write = writer(t, *(encoding or (types.NIL, "")), options.bit64_signed)
    return WireColumn(column, protobuf.write(COLUMN, described), encoding, write)


def _new(t: ColumnType, options: Options) -> Encoding | None:
    """Returns the encoding for a column of another protocol."""
    if t.name in types.WITH_CHARSET:
        return types.STRING, options.charset
    if t.name in ("binary", "varbinary") and options.binary_as == "string":
        return types.STRING, charsets.BINARY
    return usual(t)
