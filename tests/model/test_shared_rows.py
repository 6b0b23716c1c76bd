"""Tables whose rows share Arrow arrays: they have the rows that they have apart."""

from __future__ import annotations

import pickle
from itertools import accumulate

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changefeed.model.batch import TableBatch
from changefeed.model.shared_rows import adjacent, column_of_tables, stretches, with_column
from changefeed.model.table import TableShape
from tests.examples import examples

COUNTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4)


def shared(counts: list[list[int]]) -> list[list[TableBatch]]:
    """Tables with these numbers of rows; those of one list share arrays."""
    names, numbers = iter(range(20)), iter(range(100))
    return [
        TableBatch.of_several(
            zip((TableShape("shop", f"t{next(names)}", ()) for _ in some), accumulate(some), strict=True),
            pa.RecordBatch.from_pydict({"id": pa.array([next(numbers) for _ in range(sum(some))], pa.int64())}),
        )
        for some in counts
    ]


@examples(200)
@given(COUNTS, st.randoms(use_true_random=False))
def test_columns_of_all_tables_are_those_of_each(counts: list[list[int]], random: object) -> None:
    tables = [table for some in shared(counts) for table in some]
    random.shuffle(tables)  # type: ignore[attr-defined]
    for ordered in (tables, adjacent(tables)):
        ids = [number for table in ordered for number in table.rows.column("id").to_pylist()]
        assert column_of_tables(ordered, "id").to_pylist() == ids
        changed = with_column(ordered, "id", pa.array([-number for number in ids], pa.int64()))
        assert [t.shape for t in changed] == [t.shape for t in ordered]
        expected = [[-number for number in t.rows.column("id").to_pylist()] for t in ordered]
        assert [t.rows.column("id").to_pylist() for t in changed] == expected


def test_tables_that_share_arrays_are_one_stretch() -> None:
    first, second = shared([[1, 0, 2], [1, 3]])
    in_turns = [first[0], second[0], first[1], second[1], first[2]]
    assert len(list(stretches(in_turns))) == len(in_turns)
    assert [len(some) for some, _ in stretches(adjacent(in_turns))] == [3, 2]


def test_a_table_is_the_same_after_pickling() -> None:
    [[first, second]] = shared([[1, 3]])
    assert pickle.loads(pickle.dumps(second)) == second
    assert pickle.loads(pickle.dumps(second)) != first


def test_parts_are_slices_and_chosen_rows() -> None:
    [[_, table]] = shared([[1, 3]])
    assert table.slice(1, 2).rows.column("id").to_pylist() == [2, 3]
    assert table.take(pa.array([2, 0])).rows.column("id").to_pylist() == [3, 1]
