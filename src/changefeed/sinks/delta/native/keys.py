"""Numbers the distinct keys of rows, and finds keys among others; a key may have several columns.

Two keys are equal if they are equal in Spark SQL: strings are compared by their bytes, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Numbers = npt.NDArray[np.int64]


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
        first, *others = map(plain, columns)
        code = _places(first, self._values[0])
        for column, values, pairs in zip(others, self._values[1:], self._pairs, strict=True):
            own = _places(column, values)
            missing = (code < 0) | (own < 0)
            code = _places(pa.array(code * len(values) + own, mask=missing), pairs)
        return code if self._found is None else _places(pa.array(code, mask=code < 0), self._found)


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
