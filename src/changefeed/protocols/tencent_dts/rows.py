"""Encodes rows as parts of a DMLEvent.

    DMLEvent   08 01 │ 12 0e … 12 0f … │ 1a 25 … 1a 25 …
               UPDATE, absent for INSERT │ columns │ rows

Rule 1. An image has a Data for each column of the table, NA if the column is absent. An image that was read with fewer Data
        gets the same number again.
Rule 2. `read` and `upsert` are written as INSERT. If the old row of an update is unknown, its old image consists of NA.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from changefeed.columnar.events import Row
from changefeed.errors import UnsupportedError
from changefeed.model.table import TableShape
from changefeed.protocols.tencent_dts.envelope import write_pairs
from changefeed.protocols.tencent_dts.images import ABSENT, write_image
from changefeed.protocols.tencent_dts.messages import CHANGE, DELETE, DML_EVENT, INSERT, UPDATE
from changefeed.protocols.tencent_dts.options import Options
from changefeed.protocols.tencent_dts.shapes import LIMIT, WireColumn, wire_columns
from changefeed.wire import protobuf

_KINDS = {"insert": INSERT, "read": INSERT, "upsert": INSERT, "update": UPDATE, "delete": DELETE}


@dataclass(frozen=True, slots=True)
class WireRow:
    """An encoded row: kind, descriptions of its columns, RowChange; `new`: the values that choose the partition."""

    kind: int
    columns: tuple[bytes, ...]
    change: bytes
    new: tuple[bytes, ...]


def dml_event(kind: int, columns: tuple[bytes, ...], changes: list[bytes], unknown: bytes) -> bytes:
    """Returns the bytes of a DMLEvent."""
    members = {"dmlEventType": kind, "columns": columns, "rows": changes, protobuf.UNKNOWN: unknown}
    return protobuf.write(DML_EVENT, members)


class RowWriter:
    """Writes rows; remembers how the columns of each shape are written."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._columns = lru_cache(LIMIT)(self._wire_columns)

    def _wire_columns(self, shape: TableShape) -> tuple[WireColumn, ...]:
        return wire_columns(shape, self._options)

    def row(self, row: Row) -> WireRow:
        """Encodes a row.

        Raises:
            UnsupportedError: the protocol cannot represent it.
        """
        columns, kind = self._columns(row.shape), _KINDS[row.op]
        images: dict[str, list[bytes]] = {}
        for side, image in self._images(row, kind):
            prefix = "before." if side == "oldColumns" and kind == UPDATE else ""
            try:
                data = list(write_image(image, prefix, columns, row.irregular, row.origin))
            except UnsupportedError as error:
                raise UnsupportedError(f"tencent-dts: {row}: {error}") from error
            images[side] = _shortened(data, (row.origin.get("short") or {}).get(side))
        change: dict[str, Any] = {**images, "properties": write_pairs(row.origin.get("rowProperties"))}
        change[protobuf.UNKNOWN] = base64.b64decode(row.origin.get("rowUnknown", ""), validate=True)
        deciding = images["oldColumns" if kind == DELETE else "newColumns"]
        return WireRow(kind, tuple(c.described for c in columns), protobuf.write(CHANGE, change), tuple(deciding))

    @staticmethod
    def _images(row: Row, kind: int) -> list[tuple[str, dict[str, Any]]]:
        images = {"oldColumns": row.before, "newColumns": row.after}
        if kind == UPDATE and row.before is None:
            images["oldColumns"] = {}
        wanted = {INSERT: ("newColumns",), DELETE: ("oldColumns",), UPDATE: ("oldColumns", "newColumns")}[kind]
        present = [(side, image) for side in wanted if (image := images[side]) is not None]
        if len(present) < len(wanted):
            raise UnsupportedError(f"tencent-dts: {row}: the row lacks the image that its op needs")
        return present


def _shortened(data: list[bytes], count: Any) -> list[bytes]:
    """Returns the first `count` Data of an image, if all others are absent."""
    if isinstance(count, int) and 0 < count < len(data) and set(data[count:]) == {ABSENT}:
        return data[:count]
    return data
