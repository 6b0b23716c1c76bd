"""The column `_irregular` after a `Rewrite`: texts follow their columns, as `sql.texts_sql` has it for Spark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.latest import maps, texts
from changefeed.sinks.writes import IRREGULAR, IrregularUpdate


def rewritten(rows: pa.RecordBatch, change: IrregularUpdate, sources: Mapping[str, str]) -> pa.Array:
    """Returns the new texts of all rows, a map of column to text for each.

    Args:
        rows: the rows before the `Rewrite`.
        change: the effect of the `Rewrite` on the texts.
        sources: column after it -> the old column that its values come from.
    """
    count, before = rows.num_rows, texts(pa.Table.from_batches([rows]), IRREGULAR)
    kept = {
        row: {change.renamed.get(name, name): text for name, text in by_name.items() if name not in change.dropped}
        for row, by_name in before.items()
    }
    new = [(np.arange(count), name, text) for name, text in change.added.items()]
    for name, text in change.nulls.items():
        lacks = pc.is_null(rows.column(sources[name])).to_numpy(zero_copy_only=False).copy()
        lacks[[row for row, by_name in before.items() if sources[name] in by_name]] = False
        new.append((np.flatnonzero(lacks), name, text))
    if not new:
        return maps(kept, count)
    pairs = [(row, name, text) for row, by_name in kept.items() for name, text in by_name.items()]
    numbers = np.concatenate([np.array([row for row, _, _ in pairs], np.int64), *(of for of, _, _ in new)])
    order = pa.array(np.argsort(numbers, kind="stable"))
    keys = [pa.array([name for _, name, _ in pairs], pa.string()), *(pa.repeat(name, len(of)) for of, name, _ in new)]
    values = [pa.array([text for _, _, text in pairs], pa.string()), *(pa.repeat(text, len(of)) for of, _, text in new)]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=count))]).astype(np.int32)
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.concat_arrays(keys).take(order), pa.concat_arrays(values).take(order)
    )
