"""Batches of records are joined if many tables share them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from changefeed.stages.decode import Gathered


def _numbers(*counts: int, size: int = 0) -> list[pa.RecordBatch]:
    """Batches with these numbers of rows, numbered from 0."""
    starts = [sum(counts[:n]) for n in range(len(counts))]
    return [
        pa.RecordBatch.from_pydict({"n": range(start, start + count), "value": [b"x" * size] * count})
        for start, count in zip(starts, counts, strict=True)
    ]


def _lengths(batches: list[pa.RecordBatch], tables: list[int]) -> list[int]:
    gathered, lengths, rows = Gathered(batches), list[int](), list[int]()
    for batch, after in zip(gathered, [*tables, *[tables[-1]] * len(batches)], strict=False):
        lengths.append(len(batch))
        rows += batch.column("n").to_pylist()
        gathered.tables = after
    assert rows == list(range(sum(map(len, batches))))
    return lengths


@pytest.mark.parametrize(
    "tables, expected",
    [
        ([0], [1000] * 6),
        ([1], [1000] * 6),
        ([4], [1000, 3000, 2000]),
        ([1, 8], [1000, 1000, 4000]),
        ([100], [1000, 5000]),
        ([100, 1], [1000, 5000]),
    ],
)
def test_as_many_as_the_tables_of_the_last_batch_are_worth(tables: list[int], expected: list[int]) -> None:
    assert _lengths(_numbers(*[1000] * 6), tables) == expected


def test_no_more_than_fits_into_memory() -> None:
    assert _lengths(_numbers(*[100] * 6, size=400_000), [1000]) == [100, 400, 100]


def test_batches_of_other_columns_stay_apart() -> None:
    first, second = _numbers(5, 5)
    other = second.append_column("more", pa.nulls(5))
    gathered = Gathered([first, first, other, other])
    sizes = []
    for batch in gathered:
        sizes.append((len(batch), batch.num_columns))
        gathered.tables = 9
    assert sizes == [(5, 2), (5, 2), (10, 3)]
