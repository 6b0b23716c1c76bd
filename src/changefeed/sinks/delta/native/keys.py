"""Numbers the distinct keys of rows, and finds keys among others; a key may have several columns.

Two keys are equal if they are equal in Spark SQL: strings are compared by their bytes, and -0.0 equals 0.0.

Most rows of a large table are not changed. So before a row's key is looked up in a hash table, which takes 45 ns, 5 ns are spent
on a filter: a table of bits with a bit for the hash of each key in the set. A row whose bit is not set is not in the set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_ODD = np.uint64(0x9E3779B97F4A7C15)  # of multiplicative hashing: 2**64 divided by the golden ratio
_AT_ONCE = 1 << 16  # rows that are hashed at once, so that they stay in the processor's cache


def codes(columns: Sequence[pa.ChunkedArray]) -> tuple[_Numbers, int]:
    """Returns a number for each row, equal for equal keys, from 0 by first occurrence; and the number of distinct keys."""
    code, count = _encoded(plain(columns[0]))
    for column in columns[1:]:
        other, others = _encoded(plain(column))
        code, count = _encoded(pa.array(code * others + other))
    return code, count


class Keys:
    """A set of distinct keys, in which other keys can be looked up."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._filter = _Filter([plain(column) for column in columns])
        self._values: list[pa.Array] = []  # of each column, the different values
        self._pairs: list[
            pa.Array
        ] = []  # of each column but the first, the different numbers of it and those before it
        self._found: pa.Array | None = None  # the numbers of whole keys, by place
        code: _Numbers | None = None
        for column in map(plain, columns):
            if len(columns) == 1:
                self._values.append(column)
                return
            values = pc.unique(column)
            self._values.append(values)
            own = _places(column, values)
            if code is None:
                code = own
                continue
            joined = pa.array(code * len(values) + own)
            self._pairs.append(pc.unique(joined))
            code = _places(joined, self._pairs[-1])
        self._found = pa.array(code)

    def find(self, columns: Sequence[pa.ChunkedArray]) -> _Numbers:
        """Returns the place of each row's key in this set; -1 if it is not in the set."""
        arrays = [plain(column) for column in columns]
        near = self._filter.near(arrays)
        if near is None:
            return self._find(arrays)
        places = np.full(len(arrays[0]), -1, np.int64)
        places[near] = self._find([array.take(pa.array(near)) for array in arrays])
        return places

    def _find(self, columns: Sequence[pa.Array]) -> _Numbers:
        first, *others = columns
        code = _places(first, self._values[0])
        for column, values, pairs in zip(others, self._values[1:], self._pairs, strict=True):
            own = _places(column, values)
            missing = (code < 0) | (own < 0)
            code = _places(pa.array(code * len(values) + own, mask=missing), pairs)
        return code if self._found is None else _places(pa.array(code, mask=code < 0), self._found)


class _Filter:
    """Filter of rows by the hashes of a set of keys: of their columns that are integers, decimals, dates or times."""

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._shift = np.uint64(64 - max(10, (8 * len(keys[0])).bit_length()))  # at least eight bits for each key
        hashes = self._hashes(keys)
        self._bits: npt.NDArray[np.bool_] | None = None
        if hashes is not None:
            self._bits = np.zeros(1 << (64 - int(self._shift)), np.bool_)
            self._bits[hashes(0, len(keys[0]))] = True

    def near(self, columns: Sequence[pa.Array]) -> _Numbers | None:
        """Returns the numbers of the rows that may be in the set; None if nothing is known of them."""
        hashes = None if self._bits is None else self._hashes(columns)
        if hashes is None:
            return None
        assert self._bits is not None
        starts = range(0, len(columns[0]), _AT_ONCE)
        near = [np.flatnonzero(self._bits[hashes(start, start + _AT_ONCE)]) + start for start in starts]
        return np.concatenate(near) if near else np.zeros(0, np.int64)

    def _hashes(self, columns: Sequence[pa.Array]) -> Callable[[int, int], _Words] | None:
        """Returns the function that hashes the rows from one number to another; None without a suitable column."""
        words = [of_column for column in columns if (of_column := _words(column)) is not None]

        def hashes(start: int, end: int) -> _Words:
            hashed = words[0][start:end] * _ODD
            for column in words[1:]:
                hashed = (hashed ^ column[start:end]) * _ODD
            return hashed >> self._shift

        return hashes if words else None


def _words(column: pa.Array) -> npt.NDArray[Any] | None:
    """Returns a number for each row, equal for equal values; None if the column's type has none. NULL has any number."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal128(kind)):
        return None
    data, per_value = column.buffers()[-1], max(kind.byte_width // 8, 1)
    if data is None:
        return np.zeros(len(column), np.uint64)
    words = np.frombuffer(data, f"u{min(kind.byte_width, 8)}", (column.offset + len(column)) * per_value)
    return words[column.offset * per_value :: per_value]  # of a decimal, the low half


def _encoded(column: pa.Array) -> tuple[_Numbers, int]:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _places(column: pa.Array, values: pa.Array) -> _Numbers:
    places: _Numbers = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy().astype(np.int64)
    return np.where(_nulls(column), -1, places) if column.null_count else places


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Returns a column as a single array, with 0.0 for -0.0."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.add(whole, pa.scalar(0.0, whole.type)) if pa.types.is_floating(whole.type) else whole
