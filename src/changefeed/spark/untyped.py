"""Converts rows with VARIANT images to changes, row by row; each value contains its own type.

int8 … int64       bigint                     date           date
decimal(…,0)       bigint unsigned, or decimal(38,0)         timestamp, _ntz    timestamp(6), datetime(6)
decimal(…,s)       decimal(38,s)              string         longtext
double, float      double                     binary         longblob
true, false        boolean                    {srid, wkb}    geometry
null               null                       array          vector
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from changefeed.errors import UnsupportedError
from changefeed.frames.types import widen
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.names import names_of
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType

_DIGITS = 100  # more than a decimal of VARIANT has
_EPOCH = datetime(1970, 1, 1)
_NO_TYPE = ColumnType("null")
_MICROSECOND = timedelta(microseconds=1)
_Image = dict[str, Any]


def from_variants(rows: pa.RecordBatch, keys: Mapping[str, tuple[str, ...]]) -> Decoded:
    """Converts rows of changes of all tables to change events.

    Args:
        rows: the rows, with topic, partition, offset and index as columns of their own.
        keys: `database.table` -> names of its key columns.

    Raises:
        UnsupportedError: an image is not an object, or no MySQL type corresponds to a value.
    """
    read = [(row, _image(row["before"]), _image(row["after"])) for row in rows.to_pylist()]
    types: dict[str, dict[str, ColumnType]] = {}
    for row, *images in read:
        known = types.setdefault(row["table"], {})
        for name, value in ((n, v) for image in images if image is not None for n, v in image.items()):
            column_type = _type(value)
            known[name] = column_type if name not in known else widen(known[name], column_type)
    builder = BatchBuilder("us")
    for number, (row, before, after) in enumerate(read):
        shape = _shape(row["table"], types[row["table"]], keys.get(row["table"]), before, after)
        place = Place(row["topic"], row["partition"], row["offset"], row["index"], number)
        time = row.get("commit_time")
        builder.add(
            shape,
            place,
            row["op"],
            before=_ready(before, types[row["table"]]),
            after=_ready(after, types[row["table"]]),
            commit_ts=row.get("commit_ts"),
            commit_time=None if time is None else _us(time),
        )
    return Decoded(tables=builder.build())


def _image(variant: dict[str, bytes] | None) -> _Image | None:
    from pyspark.sql.types import VariantVal

    if variant is None:
        return None
    with localcontext(prec=_DIGITS):
        image = VariantVal(variant["value"], variant["metadata"]).toPython()
    if not isinstance(image, dict):
        raise UnsupportedError(f"changefeed: an image must be a VARIANT object, column -> value, not {image!r:.80}")
    return image


def _type(value: Any) -> ColumnType:
    match value:
        case None:
            return _NO_TYPE
        case bool():
            return ColumnType("boolean")
        case int():
            return ColumnType("bigint")
        case float():
            return ColumnType("double")
        case Decimal():
            scale = -int(value.as_tuple().exponent)
            whole = scale <= 0 and 0 <= value < 2**64
            return (
                ColumnType("bigint", unsigned=True) if whole else ColumnType("decimal", length=38, scale=max(scale, 0))
            )
        case datetime():
            return ColumnType("datetime" if value.tzinfo is None else "timestamp", length=6)
        case date():
            return ColumnType("date")
        case str():
            return ColumnType("longtext")
        case bytes():
            return ColumnType("longblob")
        case list():
            return ColumnType("vector")
        case dict() if set(value) == {"srid", "wkb"}:
            return ColumnType("geometry")
    raise UnsupportedError(f"changefeed: no column type can hold {value!r:.80}")


def _shape(
    name: str, types: dict[str, ColumnType], keys: tuple[str, ...] | None, before: _Image | None, after: _Image | None
) -> TableShape:
    database, table = names_of(name)
    columns = tuple(Column(n, t, key=None if keys is None else n in keys) for n, t in types.items())
    return TableShape(database, table, columns, _carried(before, types), _carried(after, types))


def _carried(image: _Image | None, types: dict[str, ColumnType]) -> tuple[str, ...] | None:
    return None if image is None or len(image) == len(types) else tuple(n for n in types if n in image)


def _ready(image: _Image | None, types: dict[str, ColumnType]) -> _Image | None:
    return None if image is None else {name: _value(image[name], types[name]) for name in types if name in image}


def _value(value: Any, kind: ColumnType) -> Any:
    """Converts a value to the form that `BatchBuilder` takes for a column of this type."""
    if isinstance(value, datetime):
        return _us(value)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, Decimal) and kind.name == "bigint":
        return int(value)
    if kind.name == "decimal" and isinstance(value, int):
        return Decimal(value)
    return str(value) if kind.name == "longtext" and value is not None else value


def _us(time: datetime) -> int:
    naive = time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    return (naive - _EPOCH) // _MICROSECOND
