"""Builds VARIANT values from images, column by column.

A VARIANT is two byte strings: `metadata`, the names of all fields, and `value`. The images of one table batch have the same
fields, so one metadata serves all rows, and the heads of the values differ only in their offsets:

    metadata   0xC1, count u32, offsets u32 …, the names one after the other
    value      0x.., count, a field id for each column in the order of names, offsets u32 …, the columns' values

    MySQL (Arrow)                   VARIANT                   header
    NULL                            null                      0x00
    boolean                         true, false               0x04, 0x08
    integers (unsigned: next size)  int8 int16 int32 int64    0x0C 0x10 0x14 0x18
    bigint unsigned, bit, set bits  decimal(38,0)             0x28, scale 0
    double, float                   double, float             0x1C, 0x38
    decimal(p,s), p <= 38           decimal(38,s)             0x28, scale
    decimal without or with p > 38  string                    0x40
    date, timestamp, datetime       date, timestamp, _ntz     0x2C, 0x30, 0x34
    binary kinds                    binary                    0x3C
    texts, enum, set, time, json    string                    0x40
    geometry                        object {srid, wkb}
    vector                          array of float

A value that its column's type cannot hold (a zero date) is the text that the record has, as a string.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape import plain_text

VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
_NULL, _TRUE, _FALSE = (pa.scalar(head, pa.binary()) for head in (b"\x00", b"\x04", b"\x08"))
_INTEGERS = {
    pa.int8(): (b"\x0c", "<i1"),
    pa.int16(): (b"\x10", "<i2"),
    pa.int32(): (b"\x14", "<i4"),
    pa.int64(): (b"\x18", "<i8"),
}
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_REALS = {pa.float64(): (b"\x1c", "<f8"), pa.float32(): (b"\x38", "<f4")}
_DECIMAL, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _BINARY, _STRING = b"\x28", b"\x2c", b"\x30", b"\x34", b"\x3c", b"\x40"
_ARRAY = 0x1F  # large, offsets of four bytes
_NO_TEXTS: Mapping[str, Mapping[int, bytes]] = MappingProxyType({})


def variants(image: pa.StructArray, texts: Mapping[str, Mapping[int, bytes]] = _NO_TEXTS) -> pa.StructArray:
    """Converts images to VARIANT; NULL if there is no image.

    Args:
        image: a struct with one field per column, in the Arrow types of `model.types`.
        texts: column -> row -> the text or bytes in the record, for values that the column's type cannot hold.
    """
    if not len(image):
        return pa.array([], VARIANT)
    ids = {name: number for number, name in enumerate(sorted(set(_names(image.type)), key=_order))}
    value = _object(image, ids, texts)
    columns = [value, pa.repeat(pa.scalar(_metadata(ids), pa.binary()), len(image))]
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT), mask=pc.is_null(image))


def _names(kind: pa.StructType) -> Iterable[str]:
    for field in kind:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names(field.type)


def _order(name: str) -> bytes:
    """Returns the sort key by which Java compares texts: Spark finds a field of a large object by binary search."""
    return name.encode("utf-16-be", "surrogatepass")


def _metadata(ids: Mapping[str, int]) -> bytes:
    names = [name.encode("utf-8", "replace") for name in ids]
    ends = np.cumsum([0, *map(len, names)]).astype("<u4")
    return b"\xc1" + struct.pack("<I", len(names)) + ends.tobytes() + b"".join(names)


def _object(image: pa.StructArray, ids: Mapping[str, int], texts: Mapping[str, Mapping[int, bytes]]) -> pa.BinaryArray:
    count, columns = len(image), dict(zip((f.name for f in image.type), image.flatten(), strict=True))
    names = sorted(columns, key=_order)
    values = [_with_texts(_values(columns[name], ids), texts.get(name)) for name in names]
    ends = np.zeros((count, len(names) + 1), "<u4")
    for number, value in enumerate(values):
        ends[:, number + 1] = ends[:, number] + pc.binary_length(value).to_numpy()
    large, id_bytes = len(names) > 255, 1 if len(ids) <= 256 else 2
    head = bytes([2 | 3 << 2 | (id_bytes - 1) << 4 | large << 6]) + len(names).to_bytes(4 if large else 1, "little")
    head += b"".join(ids[name].to_bytes(id_bytes, "little") for name in names)
    return _joined(pa.repeat(pa.scalar(head, pa.binary()), count), _rows(ends), *values)


def _values(array: pa.Array, ids: Mapping[str, int]) -> pa.BinaryArray:
    """Encodes the values of one column; the result contains no NULL."""
    kind = array.type
    if pa.types.is_null(kind):
        return pa.repeat(_NULL, len(array))
    if kind in _WIDER:
        return _values(array.cast(_WIDER[kind]), ids)
    if kind == pa.uint64():
        return _values(array.cast(pa.decimal128(20, 0)), ids)
    return pc.coalesce(pc.if_else(pc.is_valid(array), _present(array, ids), pa.scalar(None, pa.binary())), _NULL)


def _present(array: pa.Array, ids: Mapping[str, int]) -> pa.BinaryArray:
    kind = array.type
    if kind in _INTEGERS or kind in _REALS:
        head, code = (_INTEGERS | _REALS)[kind]
        return _fixed(head, pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(code))
    if pa.types.is_boolean(kind):
        return pc.coalesce(pc.if_else(array, _TRUE, _FALSE), _NULL)
    if pa.types.is_decimal128(kind):
        bytes_of = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
        return _fixed(_DECIMAL + bytes([kind.scale]), bytes_of)
    if pa.types.is_date32(kind):
        return _fixed(_DATE, pc.fill_null(array.cast(pa.int32()), 0).to_numpy().astype("<i4"))
    if pa.types.is_timestamp(kind):
        return _fixed(
            _TIMESTAMP_NTZ if kind.tz is None else _TIMESTAMP,
            pc.fill_null(array.cast(pa.int64()), 0).to_numpy().astype("<i8"),
        )
    if pa.types.is_struct(kind):
        return _object(array, ids, _NO_TEXTS)
    if pa.types.is_list(kind):
        return pa.array([None if item is None else _vector(item) for item in array.to_pylist()], pa.binary())
    if pa.types.is_binary(kind):
        return _variable(_BINARY, array)
    return _variable(_STRING, (plain_text(array) if pa.types.is_decimal(kind) else array).cast(pa.binary()))


def _fixed(head: bytes, values: np.ndarray) -> pa.BinaryArray:
    """Encodes values of fixed size: head, value."""
    body = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return _rows(np.concatenate([np.tile(np.frombuffer(head, np.uint8), (len(values), 1)), body], axis=1))


def _variable(head: bytes, array: pa.BinaryArray) -> pa.BinaryArray:
    """Encodes values of variable size: head, length, value."""
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype("<u4")
    return _joined(_fixed(head, lengths), array)


def _rows(matrix: np.ndarray) -> pa.BinaryArray:
    """Converts the rows of a matrix to byte strings."""
    data = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), -1)
    kind = pa.binary(data.shape[1])
    return pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)]).cast(pa.binary())


def _joined(*parts: pa.BinaryArray) -> pa.BinaryArray:
    if len(parts) == 1:
        return parts[0]
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*parts, nothing, null_handling="replace", null_replacement=b"")


def _vector(items: list[float]) -> bytes:
    ends = np.arange(len(items) + 1, dtype="<u4") * 5
    values = b"".join(b"\x38" + struct.pack("<f", item) for item in items)
    return bytes([_ARRAY]) + struct.pack("<I", len(items)) + ends.tobytes() + values


def _with_texts(values: pa.BinaryArray, texts: Mapping[int, bytes] | None) -> pa.BinaryArray:
    if not texts:
        return values
    rows = sorted(texts)
    mask = np.zeros(len(values), bool)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array([_text(texts[row]) for row in rows], pa.binary()))


def _text(data: bytes) -> bytes:
    head: Any = _STRING
    try:
        data.decode()
    except UnicodeDecodeError:
        head = _BINARY
    return bytes(head) + struct.pack("<I", len(data)) + data
