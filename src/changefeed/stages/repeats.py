"""Leaves out the rows that were sent again, by their positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# offset and index of the first and of the last row of a stretch
Stretch = tuple[int, int, int, int]
# topic -> partition -> stretches, in order, of rows that were sent again; rows of other tables may lie between them
Repeats = Mapping[str, Mapping[int, Sequence[Stretch]]]
NO_REPEATS: Repeats = {}  # pickled for the workers, so not a mapping proxy
_INDEXES = 1 << 20  # more than a record has events


def without_repeats(rows: pa.RecordBatch, repeats: Repeats) -> pa.RecordBatch:
    """Returns the rows of one partition that do not lie in a stretch."""
    if not len(rows) or not repeats:
        return rows
    stretches = repeats.get(rows.column("topic")[0].as_py(), {}).get(rows.column("partition")[0].as_py())
    if not stretches:
        return rows
    inside = are_inside(rows, stretches)
    return rows.filter(pa.array(~inside)) if inside.any() else rows


def are_inside(rows: pa.RecordBatch | pa.Table, stretches: Sequence[Stretch]) -> npt.NDArray[np.bool_]:
    """For each row of one partition, by its `offset` and `index`, whether it lies in a stretch."""
    if not stretches:
        return np.zeros(len(rows), np.bool_)
    ends = np.array(stretches, np.int64)
    offsets, indexes = rows.column("offset"), pc.fill_null(rows.column("index"), 0)
    places = offsets.to_numpy() * _INDEXES + indexes.to_numpy()
    at = np.searchsorted(ends[:, 0] * _INDEXES + ends[:, 1], places, side="right") - 1
    inside: npt.NDArray[np.bool_] = (at >= 0) & (places <= (ends[:, 2] * _INDEXES + ends[:, 3])[at])
    return inside
