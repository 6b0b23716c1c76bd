"""Compiles the writers of a shape's columns, once for each shape.

Shapes that were read from the Open Protocol contain t, h and f (`shape.wire`). Others get them from their types:

    t    the number of the type
    h    true for columns of the handle key
    f    binary and unsigned from the type; nullable unless known otherwise or a key;
         handle and primary for the key, multiple when it has several columns. Other indexes are not known
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.mysql import type_codes
from changefeed.protocols.ticdc_open.values import write_irregular, writer
from changefeed.wire.go_json import JsonDialect


@dataclass(frozen=True, slots=True)
class Style:
    """The options that influence the text of columns."""

    json: JsonDialect
    by_name: bool  # classic: columns in ascending order of their names
    zone: tzinfo
    legacy: bool


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """Writes one column of an image.

    Attributes:
        opening: `"id":{`
        members: `"t":8,"h":true,"f":11,"v":`
        code: the number of the type.
    """

    name: str
    column: Column
    opening: str
    members: str
    code: int
    write: Callable[[Any], str]
    write_irregular: Callable[[bytes], str]

    def value(self, value: Any, irregular: bytes | None) -> str:
        """Returns the text of `v`."""
        if value is not None:
            return self.write(value)
        return "null" if irregular is None else self.write_irregular(irregular)


@dataclass(frozen=True, slots=True)
class ShapeWriter:
    """The writers of both images, in the order of the profile; `ours`: the shape was read from the Open Protocol."""

    before: tuple[ColumnWriter, ...]
    after: tuple[ColumnWriter, ...]
    ours: bool


def shape_writer(shape: TableShape, style: Style) -> ShapeWriter:
    """Creates the writers for a shape.

    Raises:
        UnsupportedError: the protocol does not have the type of a column.
    """
    described = wire_columns(shape)
    ours = described is not None
    if described is None:
        several = len(shape.keys) > 1
        described = [_describe(c, several, shape) for c in shape.columns]
    by_name = {c.name: d for c, d in zip(shape.columns, described, strict=True)}
    old = json.loads(shape.wire).get("before") if ours else None
    old_by_name = by_name if old is None else {c.name: d for c, d in zip(shape.before_columns, old, strict=True)}
    return ShapeWriter(
        _image(shape.before_columns, old_by_name, style), _image(shape.after_columns, by_name, style), ours
    )


def wire_columns(shape: TableShape) -> list[dict[str, Any]] | None:
    """Returns the columns of a shape as the Open Protocol described them; None for a foreign shape."""
    if not shape.wire:
        return None
    wire = json.loads(shape.wire)
    columns = wire.get("columns") if isinstance(wire, dict) else None
    if not isinstance(columns, list) or len(columns) != len(shape.columns):
        return None
    if not all(isinstance(c, dict) and isinstance(c.get("t"), int) and c.keys() <= {"t", "h", "f"} for c in columns):
        return None
    return columns


def _describe(column: Column, several: bool, shape: TableShape) -> dict[str, Any]:
    code = type_codes.type_code(column.type)
    if code is None:
        raise UnsupportedError(
            f"ticdc-open cannot carry {shape.database}.{shape.table}.{column.name} of type {column.type}"
        )
    flags = type_codes.type_flags(column.type)
    if column.key:
        flags |= type_codes.HANDLE | type_codes.PRIMARY | (type_codes.MULTIPLE if several else 0)
    elif column.nullable is not False:
        flags |= type_codes.NULLABLE
    return {"t": code, "h": True, "f": flags} if column.key else {"t": code, "f": flags}


def _image(columns: tuple[Column, ...], described: dict[str, dict[str, Any]], style: Style) -> tuple[ColumnWriter, ...]:
    ordered = sorted(columns, key=lambda c: c.name) if style.by_name else columns
    return tuple(_column(c, described[c.name], style) for c in ordered)


def _column(column: Column, described: dict[str, Any], style: Style) -> ColumnWriter:
    code, flags = described["t"], described.get("f", 0)
    text = f'"t":{code},'
    if "h" in described:
        text += f'"h":{"true" if described["h"] else "false"},'
    if "f" in described:
        text += f'"f":{flags},'
    return ColumnWriter(
        column.name,
        column,
        style.json.string(column.name) + ":{",
        text + '"v":',
        code,
        writer(column.type, code, style.zone, style.json, style.legacy),
        lambda data: write_irregular(data, column.type, code, style.json, style.legacy),
    )
