r"""Reads and writes the two images of one row, a RowChange message.

    RowChange   0a 00 │ 0a 05 08 0a 1a 01 31 │ 12 02 08 0e
                old: NULL, FLOAT64 "1"         new: NA          one Data a column, by its place

Rule 1. An insert has new columns, a delete old columns, an update both; any other image is an error.
Rule 2. NIL is NULL, NA is absent. Columns after the last Data are absent; more Data than columns are an error.
Rule 3. Data whose bytes differ from those that would be written for its value is kept verbatim: in `data` of the origin, by
        column; old columns of an update have the prefix `before.`. It is written again only for the same value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model.table import TableShape
from changefeed.model.values import IrregularError
from changefeed.protocols.tencent_dts import types
from changefeed.protocols.tencent_dts.messages import CHANGE, DATA, DELETE, INSERT, UPDATE
from changefeed.protocols.tencent_dts.shapes import Described, Family, WireColumn, pairs
from changefeed.protocols.tencent_dts.types import Encoding
from changefeed.protocols.tencent_dts.values import kept, reader, write_irregular
from changefeed.wire import protobuf

NULL, ABSENT = b"", b"\x08\x0e"
Span = tuple[int, int]
Wire = Callable[[TableShape], tuple[WireColumn, ...]]
MakeFamily = Callable[[tuple[str, ...] | None, tuple[str, ...] | None], Family]
_IMAGES = {INSERT: ("newColumns",), DELETE: ("oldColumns",), UPDATE: ("newColumns", "oldColumns")}


@dataclass(frozen=True, slots=True)
class Image:
    """The Data messages of one image, as sent, and their bytes."""

    data: list[dict[str, Any]]
    raw: list[bytes]

    def carried(self, columns: tuple[Described, ...]) -> tuple[str, ...] | None:
        """Returns the names of the columns that the image has; None if it has all."""
        names = tuple(c.name for c, d in zip(columns, self.data, strict=False) if d.get("dataType") != types.NA)
        return None if len(names) == len(columns) else names


@dataclass(slots=True)
class DecodedRow:
    """A decoded RowChange: images by column, irregular values, and members for the origin."""

    shape: TableShape
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    irregular: dict[str, bytes]
    origin: dict[str, Any]


def read_row(
    data: bytes, span: Span, op: int, columns: tuple[Described, ...], family: MakeFamily, wire: Wire
) -> DecodedRow:
    """Decodes one RowChange.

    Raises:
        ProtocolError: the bytes contradict the columns, or each other.
    """
    change = protobuf.read(CHANGE, data, *span)
    images = {side: _image(data, change.pop(side, []), side, columns) for side in _IMAGES[op]}
    for side in ("oldColumns", "newColumns"):
        if side in change:
            raise SchemaError(f"a row of this operation must not have {side}", byte=span[0])
    old, new = images.get("oldColumns"), images.get("newColumns")
    chosen = family(None if old is None else old.carried(columns), None if new is None else new.carried(columns))
    shape = chosen.shape([_encoding(i, old, new) for i in range(len(columns))])
    row = DecodedRow(shape, None, None, {}, {})
    writers = wire(shape)
    if old is not None:
        row.before = _values(old, "before." if new else "", chosen, writers, row)
    if new is not None:
        row.after = _values(new, "", chosen, writers, row)
    short = {side: len(image.data) for side, image in images.items() if len(image.data) < len(columns)}
    if short:
        row.origin["short"] = short
    if "properties" in change:
        row.origin["rowProperties"] = pairs(change["properties"])
    if protobuf.UNKNOWN in change:
        row.origin["rowUnknown"] = base64.b64encode(change[protobuf.UNKNOWN]).decode()
    return row


def _image(data: bytes, spans: list[Span], side: str, columns: tuple[Described, ...]) -> Image:
    if len(spans) > len(columns):
        raise SchemaError(f"{side} has {len(spans)} values for {len(columns)} columns", byte=spans[len(columns)][0])
    if columns and not spans:
        raise SchemaError(f"row has no {side}")
    return Image([protobuf.read(DATA, data, *span) for span in spans], [data[start:end] for start, end in spans])


def _encoding(index: int, old: Image | None, new: Image | None) -> Encoding | None:
    """Returns the encoding of a column's value; None if no image has a value."""
    for image in (new, old):
        if image is not None and index < len(image.data):
            sent = image.data[index].get("dataType", types.NIL)
            if sent not in (types.NIL, types.NA):
                return sent, image.data[index].get("charset", "")
    return None


def _values(
    image: Image, prefix: str, family: Family, columns: tuple[WireColumn, ...], row: DecodedRow
) -> dict[str, Any]:
    """Returns the ready values of an image by column; adds irregular values and unusual bytes to `row`."""
    values: dict[str, Any] = {}
    for data, raw, column, described in zip(image.data, image.raw, columns, family.columns, strict=False):
        name, sent = column.column.name, data.get("dataType", types.NIL)
        irregular = None
        if sent not in (types.NIL, types.NA):
            try:
                _check(data, sent, described, column, family.postgres)
                values[name] = reader(column.column.type, sent, data.get("charset", ""))(data)
            except IrregularError:
                values[name] = None
                irregular = row.irregular[prefix + name] = kept(data)
            except ProtocolError as error:
                raise SchemaError(f"{error} - at `{'old.' if prefix else ''}{name}`") from error
        elif sent == types.NIL:
            values[name] = None
        if not _is_usual(raw, column, name in values, values.get(name), irregular):
            row.origin.setdefault("data", {})[prefix + name] = base64.b64encode(raw).decode()
    return values


def _is_usual(raw: bytes, column: WireColumn, there: bool, value: Any, irregular: bytes | None) -> bool:
    """Whether a Data has the bytes that would be written; the column's encoding may be that of the other image."""
    try:
        return raw == _usual(column, there, value, irregular)
    except UnsupportedError:
        return False


def _usual(column: WireColumn, there: bool, value: Any, irregular: bytes | None) -> bytes:
    """Returns the Data that is written for a value."""
    if irregular is not None:
        return protobuf.write(DATA, write_irregular(*_encoding_of(column), irregular))
    if value is None:
        return NULL if there else ABSENT
    return protobuf.write(DATA, column.write(value))


def _check(data: dict[str, Any], sent: int, described: Described, column: WireColumn, postgres: bool) -> None:
    if types.column_type(described.original, (sent, data.get("charset", "")), postgres) != column.column.type:
        raise SchemaError(f"data type {sent} in one image, {column.encoding} in the other: they contradict each other")
    wrong = "bv" if sent in types.NUMBERS else "sv"
    if wrong in data and 0 <= sent <= types.NA:
        raise SchemaError(f"a value of data type {sent} is in the wrong field, {wrong}")


def write_image(
    values: dict[str, Any],
    prefix: str,
    columns: Sequence[WireColumn],
    irregular: dict[str, bytes],
    origin: dict[str, Any],
) -> Iterator[bytes]:
    """Encodes an image: one Data per column.

    Raises:
        UnsupportedError: the protocol cannot represent a value.
    """
    same = origin.get("data") or {}
    for wire in columns:
        name = wire.column.name
        value, kept_bytes = values.get(name), irregular.get(prefix + name)
        kept = _decoded(same[prefix + name]) if prefix + name in same else None
        if kept is not None and _says(kept, wire, name in values, value, kept_bytes):
            yield kept
        else:
            yield _usual(wire, name in values, value, kept_bytes)


def _encoding_of(wire: WireColumn) -> Encoding:
    if wire.encoding is None:
        raise UnsupportedError(f"column {wire.column.name} has a value, but no value is of type {wire.column.type}")
    return wire.encoding


def _decoded(text: Any) -> bytes | None:
    """Decodes a member of `data` in the origin; None if it is not base64 of a Data."""
    try:
        raw = base64.b64decode(text, validate=True)
        protobuf.read(DATA, raw)
    except (TypeError, ValueError, binascii.Error, ProtocolError):
        return None
    return raw


def _says(raw: bytes, wire: WireColumn, there: bool, value: Any, irregular: bytes | None) -> bool:
    """Whether a Data means this value."""
    data = protobuf.read(DATA, raw)
    sent = data.get("dataType", types.NIL)
    if sent in (types.NIL, types.NA):
        return there == (sent == types.NIL) and value is None and irregular is None
    try:
        decoded = reader(wire.column.type, sent, data.get("charset", ""))(data)
    except IrregularError:
        return kept(data) == irregular
    except ProtocolError:
        return False
    return bool(decoded == value or (decoded != decoded and value != value))
