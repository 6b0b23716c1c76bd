"""Tests which columns of a data file get a dictionary: those with repeated values, in any order and in files of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changefeed.sinks.apply.dictionaries import repeating
from changefeed.sinks.apply.files import DataFileWriter, Limits
from changefeed.sinks.delta.native.layout import DeltaLayout
from changefeed.storage.local import LocalFolder


def _rows(count: int, rng: np.random.Generator) -> pa.Table:
    half = rng.integers(0, count // 2 + 1, count)
    columns = {
        "id": pa.array(np.arange(count)),
        "sorted": pa.array(np.arange(count) // 8),  # equal values are neighbours
        "shuffled": pa.array(rng.permutation(np.arange(count) // 8)),
        "twice": pa.array(half),
        "status": pa.array(rng.integers(0, 7, count)).cast(pa.string()),
        "sparse": pa.array([n if n % 3 else None for n in range(count)], pa.int64()),
        "empty": pa.nulls(count, pa.string()),
        "nested": pa.array([{"a": 1}] * count),
    }
    return pa.table(columns)


@pytest.mark.parametrize("count", [40, 1_000, 4_096, 10_000, 300_000])
def test_columns_whose_values_repeat_get_a_dictionary(count: int) -> None:
    rows = _rows(count, np.random.default_rng(count))
    batches = rows.to_batches(max_chunksize=max(1, count // 5))
    assert repeating(batches) == ["sorted", "shuffled", "status", "empty"]


def test_a_single_row_and_empty_batches_are_fine() -> None:
    rows = _rows(1, np.random.default_rng(1))
    assert "id" not in repeating(rows.to_batches())
    assert repeating([*rows.slice(0, 0).to_batches(), *rows.to_batches()]) == repeating(rows.to_batches())


def test_a_file_has_dictionaries_of_those_columns_alone(tmp_path: Path) -> None:
    rows = _rows(5_000, np.random.default_rng(7)).drop_columns(["empty", "nested"])
    writer = DataFileWriter(DeltaLayout(LocalFolder(str(tmp_path))), rows.schema, Limits())
    writer.write_table(rows)
    (added,) = writer.close()
    file = pq.ParquetFile(tmp_path / added.path)
    group = file.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {c.path_in_schema for c in columns if c.has_dictionary_page} == {"sorted", "shuffled", "status"}
    assert file.read().equals(rows)
