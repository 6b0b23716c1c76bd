"""Records divided by partition."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changefeed.frames.partitions import by_partition, by_partitions
from changefeed.model.batch import TableBatch
from changefeed.model.table import TableShape
from tests.examples import examples

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
PLACES = st.tuples(st.sampled_from(["a", "b", "é"]), st.sampled_from([0, 1, 7, 2**31 - 1]))


@examples(100)
@given(st.lists(PLACES, max_size=30), st.booleans(), st.integers(0, 3))
def test_the_rows_of_each_partition_in_the_order_of_their_first_row(
    places: list[tuple[str, int]], in_turns: bool, before: int
) -> None:
    places = places if in_turns else sorted(places)
    rows = [{"topic": topic, "partition": number, "offset": i} for i, (topic, number) in enumerate(places)]
    wanted = dict[tuple[str, int], list[int]]()
    for i, place in enumerate(places[before:], before):
        wanted.setdefault(place, []).append(i)
    records = pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(before)
    parts = [((topic, number), part.column("offset").to_pylist()) for topic, number, part in by_partition(records)]
    assert parts == list(wanted.items())


@examples(100)
@given(st.lists(st.lists(PLACES, max_size=8), min_size=1, max_size=6))
def test_the_parts_of_several_batches_are_those_of_each(places: list[list[tuple[str, int]]]) -> None:
    batches = [
        pa.RecordBatch.from_pylist(
            [{"topic": topic, "partition": number, "offset": i} for i, (topic, number) in enumerate(some)],
            schema=SCHEMA,
        )
        for some in places
    ]
    expected = [by_partition(batch) for batch in batches]
    shape = TableShape("shop", "orders", ())
    apart = [TableBatch(shape, batch) for batch in batches]
    ends = accumulate(map(len, batches))
    together = TableBatch.of_several([(shape, end) for end in ends], pa.concat_batches(batches))
    for tables in (apart, together):
        parts = by_partitions(tables)
        assert [[(topic, number, part.rows) for topic, number, part in its] for its in parts] == expected
