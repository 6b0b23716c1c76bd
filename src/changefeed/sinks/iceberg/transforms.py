"""Iceberg's partition transforms: from a column to the values by which its rows are divided, without a loop over rows.

    identity         the value
    bucket[N]        (Murmur3 of the value, 32 bits, without its sign) modulo N
    truncate[W]      integers and decimals: less the rest of a floored division by W; text: the first W characters;
                     binary: the first W bytes
    year month       years and months since 1970, floored
    day hour         days (a date) and hours since 1970, floored; timestamps with a zone in UTC
    void             NULL

NULL stays NULL. Murmur3 reads little-endian words of 4 bytes; an integer, a date or a time is 8 bytes, a decimal the shortest
big-endian two's complement of its digits, text UTF-8.

Tasks import this module: it needs Arrow and NumPy alone.

Source:
    https://iceberg.apache.org/spec/#partition-transforms, "Appendix B: 32-bit Hash Requirements"
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WITH_NUMBER = re.compile(r"(bucket|truncate)\[([1-9]\d*)\]")
_TIMES = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_EXACT = Context(prec=100)
_Words = npt.NDArray[np.uint32]


def result_type(transform: str, kind: pa.DataType) -> pa.DataType | None:
    """Returns the type of a transform's values for a column of this type; None if Iceberg, or changefeed, has none.

    Floating-point numbers have none: NaN and -0.0 are not grouped alike by all engines.
    """
    is_time, is_day = pa.types.is_timestamp(kind), pa.types.is_date32(kind)
    is_text, is_number = pa.types.is_string(kind) or pa.types.is_binary(kind), pa.types.is_decimal128(kind)
    is_integer = pa.types.is_int32(kind) or pa.types.is_int64(kind)
    if transform in _TIMES:
        if not (is_time or (is_day and transform != "hour")):
            return None
        return pa.date32() if transform == "day" else pa.int32()
    if transform == "void" or (transform == "identity" and pa.types.is_boolean(kind)):
        return kind
    match = _WITH_NUMBER.fullmatch(transform)
    if match is not None and match[1] == "bucket":
        return pa.int32() if is_integer or is_time or is_day or is_text or is_number else None
    if match is not None:
        return kind if is_integer or is_text or is_number else None
    return kind if transform == "identity" and (is_integer or is_time or is_day or is_text or is_number) else None


def transformed(column: pa.Array, transform: str) -> pa.Array:
    """Returns the values of a transform, of its `result_type`.

    Args:
        column: the values of the source column.
        transform: Iceberg's name of the transform, such as `bucket[16]`.
    """
    if transform == "identity":
        return column
    if transform == "void":
        return pa.nulls(len(column), column.type)
    if transform in _TIMES:
        return _since_1970(column, transform)
    match = _WITH_NUMBER.fullmatch(transform)
    assert match is not None, transform
    number = int(match[2])
    if match[1] == "truncate":
        return _truncated(column, number)
    buckets = (murmur3(column) & np.uint32(0x7FFFFFFF)) % np.uint32(number)
    return pa.array(buckets.astype(np.int32), mask=_nulls(column))


def murmur3(column: pa.Array) -> _Words:
    """Returns the hash of each value, of 32 bits; any number for NULL."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_of_bytes(*_padded_text(column))
    if pa.types.is_decimal(kind):
        return _hash_of_bytes(*_shortest(column))
    integers = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
    longs = integers.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype("<i8")
    return _hash_of_bytes(longs.view(np.uint8).reshape(-1, 8), np.full(len(longs), 8, np.int64))


def _since_1970(column: pa.Array, transform: str) -> pa.Array:
    """Counts whole years, months, days or hours; NumPy rounds dates before 1970 down, too."""
    if pa.types.is_date32(column.type):
        days = column.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        times = days.astype("datetime64[D]")
    else:
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        times = numbers.astype(f"datetime64[{column.type.unit}]")
    counts = times.astype(f"datetime64[{_TIMES[transform]}]").astype(np.int64).astype(np.int32)
    made = pa.array(counts, mask=_nulls(column))
    return made.cast(pa.date32()) if transform == "day" else made


def _truncated(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if pa.types.is_binary(kind):
        return pc.binary_slice(column, 0, width)
    if pa.types.is_decimal(kind):
        return _truncated_decimals(column, width)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values - np.mod(values, values.dtype.type(width)), kind, mask=_nulls(column))


def _truncated_decimals(column: pa.Array, width: int) -> pa.Array:
    """Truncates the distinct values, as Python's integers: a decimal has up to 128 bits."""
    encoded = pc.dictionary_encode(column)
    scale = column.type.scale
    digits = [int(value.scaleb(scale, _EXACT)) for value in encoded.dictionary.to_pylist()]
    values = [Decimal(number - number % width).scaleb(-scale, _EXACT) for number in digits]
    return pa.array(values, column.type).take(encoded.indices)


def _padded_text(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns the bytes of texts in rows of equal length, padded with zeros, and the lengths."""
    binary = column.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(binary.buffers()[1], np.int64, len(binary) + 1 + binary.offset)[binary.offset :]
    lengths = np.diff(offsets)
    longest = int(lengths.max()) if len(lengths) else 0
    data = binary.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    places = offsets[:-1, None] + np.arange(-(-longest // 4) * 4)
    inside = np.arange(places.shape[1]) < lengths[:, None]
    return np.where(inside, content[np.minimum(places, len(content) - 1)], np.uint8(0)), lengths


def _shortest(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns the shortest big-endian two's complement of decimals, padded with zeros to 16 bytes, and the lengths."""
    data = column.buffers()[1]
    stored = np.frombuffer(data, np.uint8, 16 * (len(column) + column.offset)).reshape(-1, 16)[column.offset :]
    digits = stored[:, ::-1]
    sign = np.where(digits[:, 0] >= 0x80, np.uint8(0xFF), np.uint8(0))
    matters = digits != sign[:, None]
    first = np.where(matters.any(axis=1), matters.argmax(axis=1), 15)
    has_sign = (digits[np.arange(len(digits)), first] >= 0x80) == (sign == 0xFF)
    start = np.where(has_sign, first, first - 1)
    lengths = 16 - start
    places = start[:, None] + np.arange(16)
    shifted = np.take_along_axis(digits, np.minimum(places, 15), axis=1)
    return np.where(np.arange(16) < lengths[:, None], shifted, np.uint8(0)), lengths


def _hash_of_bytes(values: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> _Words:
    """Returns the hash of each row's first bytes, whose number is in `lengths`; rows have whole words, padded with zeros."""
    words = np.ascontiguousarray(values).view("<u4") if values.shape[1] else np.zeros((len(values), 0), np.uint32)
    blocks, hashed = lengths // 4, np.zeros(len(values), np.uint32)
    with np.errstate(over="ignore"):
        for place in range(words.shape[1]):
            mixed = _mixed(words[:, place])
            whole = _rotated(hashed ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
            hashed = np.where(
                place < blocks, whole, np.where((place == blocks) & (lengths % 4 > 0), hashed ^ mixed, hashed)
            )
        hashed ^= lengths.astype(np.uint32)
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return hashed ^ (hashed >> np.uint32(16))


def _mixed(words: _Words) -> _Words:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask
